"""What a checkpoint is."""

from holddown.facts.model import Inspection
from holddown.ports import Checkpoints


def inspect(checkpoints: Checkpoints, path: str) -> Inspection:
    """Facts and faults, from headers alone. Raises: CheckpointError when there is no checkpoint to speak of."""
    return checkpoints.inspect(path)
