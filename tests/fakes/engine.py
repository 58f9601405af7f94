"""Fakes of the doors to engines."""

from dataclasses import dataclass, field, replace

from holddown.base.errors import EngineError
from holddown.base.evidence import from_probe
from holddown.facts.engine import Engine, EngineFacts, Flag
from holddown.ports import Progress
from holddown.tables.load import recorded_build


def an_engine(name: str = "vllm", version: str = "0.32.0", pythonpath: str = "") -> Engine:
    return Engine(name, version, "vllm", f"/envs/{name}-{version}/bin/python", pythonpath, False, 0.0)


def engine_facts(device: str = "cpu", version: str = "0.32.0", flags: tuple[Flag, ...] = ()) -> EngineFacts:
    """Facts of a build with these flags and one architecture."""
    return EngineFacts(
        version=version,
        kind="vllm",
        python=f"/envs/vllm-{version}/bin/python",
        pythonpath="",
        package_dir="/envs/site-packages/vllm",
        fingerprint="f",
        device=from_probe(device, "fake"),
        torch_version=from_probe("2.13.0", "fake"),
        import_error="",
        flags=flags,
        architectures=("LlamaForCausalLM",),
        attention_backends=recorded_build("vllm", "0.25.1").facts.attention_backends,
        kv_cache_dtypes=("auto", "bfloat16", "fp8", "fp8_e4m3"),
    )


@dataclass
class FakeEngines:
    """Engines in memory."""

    known: list[Engine] = field(default_factory=list)

    def all(self) -> tuple[Engine, ...]:
        return tuple(self.known)

    def install(self, name: str, version: str | None, progress: Progress) -> Engine:
        engine = replace(an_engine(name, version or "0.32.0"), managed=True)
        self.known.append(engine)
        return engine

    def add(self, name: str | None, python: str, pythonpath: str) -> Engine:
        engine = replace(an_engine(name or "vllm"), python=python, pythonpath=pythonpath)
        self.known.append(engine)
        return engine

    def remove(self, ref: str) -> Engine:
        engine = next(engine for engine in self.known if engine.ref == ref)
        self.known.remove(engine)
        return engine


@dataclass
class FakeProbe:
    """Gives `answer` for every engine but those in `broken`, whose reason it raises."""

    answer: EngineFacts
    broken: dict[str, EngineError] = field(default_factory=dict)

    def facts(self, engine: Engine, progress: Progress) -> EngineFacts:
        return self.read(engine)

    def read(self, engine: Engine) -> EngineFacts:
        if engine.ref in self.broken:
            raise self.broken[engine.ref]
        return self.answer
