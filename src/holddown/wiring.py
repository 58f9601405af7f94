"""Real doors. The only file that names both a port and its edge; edges are imported when they are asked for."""

from dataclasses import dataclass
from pathlib import Path

import platformdirs

from holddown import ports
from holddown.base.errors import CheckpointError

DEMO = "demo"
"""The one model that has a name of ours."""


@dataclass(frozen=True, slots=True)
class Paths:
    """Where holddown keeps things, by the XDG rules.

    data: engine environments and fetched models. state: the record store and logs. cache: what can be had again.
    """

    data: Path
    state: Path
    cache: Path


def paths() -> Paths:
    dirs = platformdirs.PlatformDirs("holddown", appauthor=False)
    return Paths(dirs.user_data_path, dirs.user_state_path, dirs.user_cache_path)


def host() -> ports.Host:
    from holddown.edges.hosts.local import LocalHost

    return LocalHost()


def checkpoints() -> ports.Checkpoints:
    from holddown.edges.checkpoints.local import LocalCheckpoints

    return LocalCheckpoints()


def checkpoint_path(name: str) -> str:
    """What the user's PATH means: a path that exists, else the fetched model for `demo`, else the word as it is.

    Raises: CheckpointError when `demo` was not fetched yet.
    """
    if name != DEMO or Path(name).exists():
        return name
    folder = demo_folder()
    if not folder.is_dir():
        raise CheckpointError(
            "the demo model is not here yet", code="checkpoint.not-found", seen=f"no {folder}", do="holddown fetch demo"
        )
    return str(folder)


def demo_folder() -> Path:
    return paths().data / "models" / "SmolLM2-135M-Instruct"


def demo_model() -> ports.DemoModel:
    from holddown.edges.demo.model import DemoModelFolder

    return DemoModelFolder(demo_folder().parent)


def engines() -> ports.Engines:
    from holddown.edges.engines import EngineFolders

    return EngineFolders(paths().data / "engines")


def engine_probe() -> ports.EngineProbe:
    from holddown.edges.probes.vllm import VllmProbe

    return VllmProbe(paths().cache / "engine-facts")


def client(base_url: str, api_key: str = "") -> ports.Client:
    from holddown.edges.client import HttpClient

    return HttpClient(base_url, api_key)


def clock() -> ports.Clock:
    from holddown.edges.clock import SystemClock

    return SystemClock()
