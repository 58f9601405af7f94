"""What a probe reads of torch: a CPU build."""

__version__ = "2.13.0+cpu"
cuda = None
hip = None
