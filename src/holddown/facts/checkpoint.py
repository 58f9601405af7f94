"""A Hugging Face directory: what its files say, put together into facts and every fault at once."""

from collections import Counter
from dataclasses import dataclass

from holddown.base.errors import CheckpointError
from holddown.base.evidence import Fact, Known, Unknown
from holddown.base.finding import Finding, Severity
from holddown.facts.hf_config import (
    CONFIG,
    QUANT_CONFIG,
    TEMPLATE_JINJA,
    TEMPLATE_JSON,
    TOKENIZER_CONFIG,
    HfConfig,
    chat_template,
    no_config,
    read_config,
    tokenizer_modules,
)
from holddown.facts.json_object import json_object
from holddown.facts.model import CheckpointFormat, Inspection, ModelFacts
from holddown.facts.safetensors import ShardHeader, get_again, size_finding
from holddown.facts.weights import (
    ShardSeen,
    digest,
    dtype_bytes,
    gathered,
    missing_shards,
    numbered_parts,
    safetensors_parameters,
    sum_tallies,
    tail_finding,
)

INDEX = "model.safetensors.index.json"
TEXTS = (CONFIG, QUANT_CONFIG, TEMPLATE_JINJA, TEMPLATE_JSON, TOKENIZER_CONFIG, INDEX)
"""The files to read whole. An index of 200,000 tensors takes 20 MB; none of the others comes near a megabyte."""

_TOKENIZERS = (
    "tokenizer.json",
    "tokenizer.model",
    "vocab.json",
    "vocab.txt",
    "tiktoken.model",
    "tekken.json",
    "spiece.model",
)
_SOME = 3


@dataclass(frozen=True, slots=True)
class TextFile:
    """A small file's text; `fault` where it is there and cannot be read."""

    name: str
    text: str
    fault: str = ""


@dataclass(frozen=True, slots=True)
class WeightMap:
    """model.safetensors.index.json: the tensors, and beside each the shard that should hold it."""

    tensors: tuple[str, ...]
    shards: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class WeightFiles:
    """present: what to read. missing: named by the index or by the numbering. ignored: there, but named by nothing."""

    present: tuple[str, ...]
    missing: tuple[str, ...]
    ignored: tuple[str, ...]
    named_by: str


@dataclass(frozen=True, slots=True)
class DirectorySeen:
    """What was read of a directory. file_names: all regular files in it; texts: those of `TEXTS` that are there."""

    path: str
    file_names: tuple[str, ...]
    texts: tuple[TextFile, ...]
    index: WeightMap | Finding | None
    files: WeightFiles
    shards: tuple[ShardSeen, ...]

    def text(self, name: str) -> str | None:
        """The file's text; None where it is not there or cannot be read."""
        return next((file.text for file in self.texts if file.name == name and not file.fault), None)


def read_index(file: TextFile | None) -> WeightMap | Finding | None:
    """What the index says, or why it cannot be read; None where there is none."""
    if file is None:
        return None
    try:
        if file.fault:
            raise ValueError(file.fault)
        placed = json_object(file.text).get("weight_map")
        if not isinstance(placed, dict) or not set(map(type, placed.values())) <= {str}:
            raise ValueError("it has no weight_map from tensor names to file names")
    except ValueError as error:
        what = f"{INDEX} cannot be read"
        return Finding("index.unreadable", Severity.BLOCK, INDEX, what, str(error), get_again(INDEX))
    return WeightMap(tuple(placed), tuple(placed.values()))


def weight_files(file_names: tuple[str, ...], index: WeightMap | Finding | None) -> WeightFiles:
    """Which safetensors files make up the checkpoint.

    With an index, those that it names: engines load no others. Without one, all there are; Mistral's own
    `consolidated*.safetensors` beside a Hugging Face set hold the same weights once more and are left out.
    """
    there = tuple(sorted(name for name in file_names if name.endswith(".safetensors")))
    if isinstance(index, WeightMap) and index.shards:
        named = set(index.shards)
        present = tuple(name for name in there if name in named)
        ignored = tuple(name for name in there if name not in named)
        return WeightFiles(present, tuple(sorted(named - set(present))), ignored, INDEX)
    ignored = tuple(name for name in there if name.startswith("consolidated"))
    if len(ignored) == len(there):
        ignored = ()
    present = tuple(name for name in there if name not in ignored)
    expected = {part for name in present for part in numbered_parts(name)}
    return WeightFiles(present, tuple(sorted(expected - set(present))), ignored, "the numbering of the others")


def directory_facts(seen: DirectorySeen) -> Inspection:
    """Raises: CheckpointError when neither config.json nor any weight file tells what this is."""
    if not seen.files.present and not seen.files.missing:
        raise CheckpointError(
            f"{seen.path} holds no safetensors or GGUF weights",
            code="checkpoint.no-weights",
            seen=_listing(seen.file_names),
            do="name the directory that holds config.json and *.safetensors, or a .gguf file",
        )
    config, config_findings = _config(seen)
    headers = [shard.header for shard in seen.shards if isinstance(shard.header, ShardHeader)]
    tallies = sum_tallies(tally for header in headers for tally in header.by_dtype)
    quantized = isinstance(config.quantization, Known) and config.quantization.value != "none"
    modules, code_findings = _remote_code(seen, config)
    template = chat_template(seen.text(TEMPLATE_JINJA), seen.text(TEMPLATE_JSON), seen.text(TOKENIZER_CONFIG))
    model = ModelFacts(
        path=seen.path,
        format=CheckpointFormat.SAFETENSORS,
        digest=digest(seen.shards, seen.text(CONFIG) or ""),
        architectures=config.architectures,
        model_type=config.model_type,
        parameters=_parameters(seen, safetensors_parameters(tallies, quantized)),
        weights_bytes=sum(tally.size_bytes for tally in tallies),
        by_dtype=dtype_bytes(tallies),
        shards=len(seen.files.present) + len(seen.files.missing),
        dtype=config.dtype,
        quantization=config.quantization,
        max_position_embeddings=config.max_position_embeddings,
        num_hidden_layers=config.num_hidden_layers,
        hidden_size=config.hidden_size,
        num_attention_heads=config.num_attention_heads,
        num_key_value_heads=config.num_key_value_heads,
        head_dim=config.head_dim,
        vocab_size=config.vocab_size,
        chat_template=template,
        remote_code_files=modules,
        latent_kv_dim=config.latent_kv_dim,
        mixed_attention=config.mixed_attention,
    )
    findings = (
        *config_findings,
        *_shard_findings(seen),
        *_index_findings(seen, headers),
        *code_findings,
        *_tokenizer(seen),
    )
    return Inspection(model, gathered(findings))


def _parameters(seen: DirectorySeen, of_readable: Fact[int]) -> Fact[int]:
    unread = len(seen.files.missing) + sum(isinstance(shard.header, Finding) for shard in seen.shards)
    if unread:
        return Unknown(f"{unread} weight files are missing or have no readable header")
    return of_readable


def _config(seen: DirectorySeen) -> tuple[HfConfig, tuple[Finding, ...]]:
    file = next((file for file in seen.texts if file.name == CONFIG), None)
    if file is None:
        what = f"there is no {CONFIG}: no engine can tell what model this is"
        finding = Finding("config.missing", Severity.BLOCK, CONFIG, what, _listing(seen.file_names), get_again(CONFIG))
        return no_config(f"there is no {CONFIG}"), (finding,)
    try:
        if file.fault:
            raise ValueError(file.fault)
        return read_config(file.text, seen.text(QUANT_CONFIG)), ()
    except ValueError as error:
        what = f"{CONFIG} cannot be read"
        finding = Finding("config.unreadable", Severity.BLOCK, CONFIG, what, str(error), get_again(CONFIG))
        return no_config(f"{what}: {error}"), (finding,)


def _shard_findings(seen: DirectorySeen) -> tuple[Finding, ...]:
    of = len(seen.files.present) + len(seen.files.missing)
    findings = [*missing_shards(seen.files.missing, of, seen.files.named_by)]
    for shard in seen.shards:
        if isinstance(shard.header, Finding):
            findings.append(shard.header)
        elif isinstance(shard.header, ShardHeader):
            findings.extend(found for found in (size_finding(shard.header), tail_finding(shard)) if found is not None)
    findings.extend(
        Finding(
            "shard.not-in-index",
            Severity.WARN,
            name,
            f"{name} is not named by {seen.files.named_by}: engines leave it out",
        )
        for name in seen.files.ignored
        if seen.files.named_by == INDEX
    )
    return tuple(findings)


def _index_findings(seen: DirectorySeen, headers: list[ShardHeader]) -> tuple[Finding, ...]:
    """Where the index and the headers disagree about the tensors."""
    owners: dict[str, str] = {}
    for header in headers:
        owners.update(dict.fromkeys(header.tensor_names, header.name))
    findings = []
    if sum(len(header.tensor_names) for header in headers) > len(owners):
        counted = Counter(name for header in headers for name in header.tensor_names)
        twice = [name for name, count in counted.items() if count > 1]
        what = f"{_tensors(twice)} in more than one file: which of them is loaded depends on the engine"
        findings.append(Finding("tensor.duplicate", Severity.WARN, twice[0], what, _some(twice)))
    if seen.index is None:
        return tuple(findings)
    if isinstance(seen.index, Finding):
        return (*findings, seen.index)
    placed = dict(zip(seen.index.tensors, seen.index.shards, strict=True))
    if placed == owners:
        return tuple(findings)
    readable = {header.name for header in headers}
    gone = [name for name, shard in placed.items() if name not in owners and shard in readable]
    if gone:
        what = f"{_tensors(gone)} listed in {INDEX} and in no weight file"
        findings.append(
            Finding("tensor.missing", Severity.BLOCK, gone[0], what, _some(gone), get_again(placed[gone[0]]))
        )
    moved = [name for name, shard in placed.items() if shard in readable and owners.get(name, shard) != shard]
    if moved:
        what = f"{_tensors(moved)} in another file than {INDEX} says"
        findings.append(Finding("tensor.misplaced", Severity.WARN, moved[0], what, _some(moved)))
    unlisted = [name for name in owners if name not in placed]
    if unlisted:
        what = f"{_tensors(unlisted)} in the weight files but not in {INDEX}"
        findings.append(Finding("tensor.not-in-index", Severity.WARN, unlisted[0], what, _some(unlisted)))
    return tuple(findings)


def _remote_code(seen: DirectorySeen, config: HfConfig) -> tuple[tuple[str, ...], tuple[Finding, ...]]:
    """The Python files that `trust_remote_code` would run: those named, and what lies beside them for import."""
    named = set(config.remote_modules)
    tokenizer_config = seen.text(TOKENIZER_CONFIG)
    if tokenizer_config is not None:
        try:
            named.update(tokenizer_modules(tokenizer_config))
        except ValueError as error:
            what = f"{TOKENIZER_CONFIG} cannot be read"
            return (), (
                Finding(
                    "tokenizer.unreadable",
                    Severity.BLOCK,
                    TOKENIZER_CONFIG,
                    what,
                    str(error),
                    get_again(TOKENIZER_CONFIG),
                ),
            )
    if not named:
        return (), ()
    there = {name for name in seen.file_names if name.endswith(".py")}
    gone = sorted(name for name in named - there if "--" not in name)
    findings = tuple(
        Finding(
            "remote-code.missing",
            Severity.WARN,
            name,
            f"auto_map names {name}, which is not there",
            "",
            get_again(name),
        )
        for name in gone
    )
    return tuple(sorted(named | there)), findings


def _tokenizer(seen: DirectorySeen) -> tuple[Finding, ...]:
    if any(name in _TOKENIZERS or name.endswith(".tiktoken") for name in seen.file_names):
        return ()
    what = "there is no tokenizer file: engines can take token ids only, or none at all"
    return (
        Finding(
            "tokenizer.missing",
            Severity.WARN,
            "tokenizer.json",
            what,
            _listing(seen.file_names),
            get_again("tokenizer.json"),
        ),
    )


def _listing(names: tuple[str, ...]) -> str:
    return f"files there: {_some(list(names))}" if names else "the directory is empty"


def _tensors(names: list[str]) -> str:
    return "1 tensor is" if len(names) == 1 else f"{len(names)} tensors are"


def _some(names: list[str]) -> str:
    shown = ", ".join(name[:100] for name in names[:_SOME])
    return shown + (f", and {len(names) - _SOME} more" if len(names) > _SOME else "")
