"""The registered engine environments, one folder each."""

from holddown.edges.engines.folders import EngineFolders

__all__ = ["EngineFolders"]
