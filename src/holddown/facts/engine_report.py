"""What a running engine itself says that it resolved at its start."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class KvGroup:
    """Layers that share a block table. kind: of their cache, as the engine names it. page_bytes: one block of one
    layer, 0 where it is not said."""

    kind: str
    layers: int
    block_size: int
    page_bytes: int
    dtype: str


@dataclass(frozen=True, slots=True)
class EngineReport:
    """attention, experts: the backends that were chosen. kv_blocks, kv_bytes: of one rank; 0 where it is not said.
    kv_groups: how they are used. config: what the engine made of its settings, by its own names."""

    attention: tuple[str, ...] = ()
    experts: tuple[str, ...] = ()
    kv_blocks: int = 0
    kv_bytes: int = 0
    kv_groups: tuple[KvGroup, ...] = ()
    config: tuple[tuple[str, str], ...] = ()

    def setting(self, name: str) -> str:
        """Empty where it is not said."""
        return dict(self.config).get(name, "")


def read_report(texts: Iterable[str | bytes]) -> EngineReport | None:
    """texts: one file of each of the engine's processes. None where none says anything; what cannot be read says
    nothing: the log has the rest."""
    found = EngineReport()
    for text in texts:
        try:
            said = json.loads(text)
            found = _with(found, said if isinstance(said, dict) else {})
        except (ValueError, RecursionError):
            continue
    return found if found != EngineReport() else None


def _with(so_far: EngineReport, said: Mapping[str, Any]) -> EngineReport:
    kv = said.get("kv_cache")
    kv = kv if isinstance(kv, dict) else {}
    config = said.get("config")
    groups = kv.get("groups")
    return EngineReport(
        attention=_joined(so_far.attention, said.get("attention")),
        experts=_joined(so_far.experts, said.get("experts")),
        kv_blocks=_count(kv.get("blocks")) or so_far.kv_blocks,
        kv_bytes=_count(kv.get("bytes")) or so_far.kv_bytes,
        kv_groups=tuple(map(_group, groups)) if isinstance(groups, list) and groups else so_far.kv_groups,
        config=tuple((_text(name), _text(value)) for name, value in config.items())
        if isinstance(config, dict) and config
        else so_far.config,
    )


def _joined(so_far: tuple[str, ...], more: object) -> tuple[str, ...]:
    names = map(_text, more) if isinstance(more, list) else ()
    return tuple(dict.fromkeys((*so_far, *names)))


def _group(said: object) -> KvGroup:
    row = said if isinstance(said, dict) else {}
    return KvGroup(
        _text(row.get("kind", "")),
        _count(row.get("layers")),
        _count(row.get("block_size")),
        _count(row.get("page_bytes")),
        _text(row.get("dtype", "")),
    )


def _count(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0


def _text(value: object) -> str:
    """As text that a record can hold: a lone surrogate of JSON's is none."""
    return str(value)[:200].encode("utf-8", "replace").decode()
