"""Not torch: enough for a probe that asks for its version."""

from torch import version
from torch.version import __version__

__all__ = ["__version__", "version"]
