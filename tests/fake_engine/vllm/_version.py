"""As a build writes it: plain literals that can be read without importing."""

__version__ = version = "0.32.0+fake"
__version_tuple__ = version_tuple = (0, 32, 0, "fake")
