"""`node`: what this machine is."""

from collections.abc import Sequence

from holddown.facts.machine import MachineFacts
from holddown.ports import Host


def node(host: Host, paths: Sequence[str] = ()) -> MachineFacts:
    """paths: places whose file systems matter, beside the root. Raises: MachineError."""
    return host.facts(paths)
