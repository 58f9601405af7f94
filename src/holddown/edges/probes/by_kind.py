"""Asks each engine through the probe of its kind."""

from collections.abc import Callable, Mapping

from holddown.base.errors import EngineError
from holddown.facts.engine import Engine, EngineFacts
from holddown.ports import EngineProbe, Progress


class ProbeByKind:
    """makers: the probe of each kind, made when the first engine of that kind is asked."""

    def __init__(self, makers: Mapping[str, Callable[[], EngineProbe]]) -> None:
        self._makers = makers
        self._made: dict[str, EngineProbe] = {}

    def facts(self, engine: Engine, progress: Progress) -> EngineFacts:
        return self._probe(engine).facts(engine, progress)

    def read(self, engine: Engine) -> EngineFacts:
        return self._probe(engine).read(engine)

    def _probe(self, engine: Engine) -> EngineProbe:
        if engine.kind not in self._makers:
            raise EngineError(
                f"{engine.ref} is of a kind that this holddown does not know",
                code="engine.kind",
                seen=f"{engine.kind}; it knows {', '.join(self._makers)}",
                do=f"holddown engine remove {engine.ref}   or use the holddown that registered it",
            )
        if engine.kind not in self._made:
            self._made[engine.kind] = self._makers[engine.kind]()
        return self._made[engine.kind]
