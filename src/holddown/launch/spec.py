"""The exact command, as data: it can be shown, compared and exported before anything starts."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class EnvVar:
    """Set on top of the inherited environment."""

    name: str
    value: str
    because: str


@dataclass(frozen=True, slots=True)
class SecretEnv:
    """A secret that is read from `path` at launch and never leaves the engine's surroundings: an environment variable,
    or for an engine that reads none, where `file` is not empty, the entry `name` of a YAML file of that name in its
    private folder, in which it is started."""

    name: str
    path: str
    file: str = ""


def secret_in_file(name: str, path: str, file: str) -> SecretEnv:
    """A secret that the engine takes from a file of its own. file: its name, without folders."""
    return SecretEnv(name, path, file)


@dataclass(frozen=True, slots=True)
class LaunchSpec:
    """argv: argv[0] is absolute. host and port: what the engine binds."""

    argv: tuple[str, ...]
    env: tuple[EnvVar, ...]
    secrets: tuple[SecretEnv, ...]
    host: str
    port: int

    @property
    def base_url(self) -> str:
        """Where a client on this machine reaches it: a wildcard address is no address to connect to."""
        reach = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(self.host, self.host)
        if ":" in reach and not reach.startswith("["):
            reach = f"[{reach}]"
        return f"http://{reach}:{self.port}"


@dataclass(frozen=True, slots=True)
class Binding:
    """Where to listen, and the file that holds the API key (empty: none)."""

    host: str = "127.0.0.1"
    port: int = 8000
    api_key_file: str = ""
