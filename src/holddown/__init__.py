"""Takes a checkpoint and a machine, and brings up a verified, measured, explained deployment."""

__version__ = "0.1.0"
