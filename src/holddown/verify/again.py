"""Whether what an engine failed of would come again."""

from holddown.tables.load import failures

# of the command's words, but of what the machine has: a mount, a driver that comes back
_MAY_COME_BACK = frozenset({"no-gpu", "too-few-gpus", "model-path", "model-config-missing"})


def another_start_may_help(code: str) -> bool:
    """code: of the finding that tells why a start failed of a command that was released before.

    Its words were right then, so what makes them wrong lies under them, as a build that was changed in its place, and
    stays. Of everything else no one can be sure: the next start costs the time of a load, and not to try it is an
    outage.
    """
    name = code.removeprefix("engine.")
    known = next((each for each in failures() if each.id == name), None)
    return known is None or known.stage != "command" or name in _MAY_COME_BACK
