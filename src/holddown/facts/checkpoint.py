"""A Hugging Face directory: what its files say, put together into facts and every fault at once."""

from dataclasses import dataclass

from holddown.base.errors import CheckpointError
from holddown.base.evidence import Known, Unknown
from holddown.base.finding import Finding, Severity, some_text
from holddown.facts.beside_config import GENERATION_CONFIG, generation_config, tokenizer_kind
from holddown.facts.from_config import disagreement, no_weights, with_shapes
from holddown.facts.header_groups import header_groups
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
from holddown.facts.model import CheckpointFormat, CodeFile, Inspection, ModelFacts
from holddown.facts.parameters import active_parameters, draft_parameters, total_parameters
from holddown.facts.remote_code import Script, code_files
from holddown.facts.safetensors import ShardHeader, get_again, size_finding
from holddown.facts.shapes import shapes
from holddown.facts.shard_index import INDEX, Index, WeightFiles, index_findings, kinds_once
from holddown.facts.weights import (
    ShardSeen,
    digest,
    dtype_bytes,
    gathered,
    missing_shards,
    tail_finding,
)

TEXTS = (CONFIG, QUANT_CONFIG, TEMPLATE_JINJA, TEMPLATE_JSON, TOKENIZER_CONFIG, GENERATION_CONFIG)
"""The files to read whole, none of which comes near a megabyte."""


@dataclass(frozen=True, slots=True)
class TextFile:
    """A small file's text; `fault` where it is there and cannot be read."""

    name: str
    text: str
    fault: str = ""


@dataclass(frozen=True, slots=True)
class DirectorySeen:
    """What was read of a directory. file_names: all regular files in it; texts: those of `TEXTS` that are there.

    scripts: the Python files, those in folders below too.
    """

    path: str
    file_names: tuple[str, ...]
    texts: tuple[TextFile, ...]
    index: Index
    files: WeightFiles
    shards: tuple[ShardSeen, ...]
    scripts: tuple[Script, ...] = ()

    def text(self, name: str) -> str | None:
        """The file's text; None where it is not there or cannot be read."""
        return next((file.text for file in self.texts if file.name == name and not file.fault), None)


def directory_facts(seen: DirectorySeen) -> Inspection:
    """Raises: CheckpointError when neither config.json nor any weight file tells what this is."""
    config, config_findings = _config(seen)
    model, code_findings = _facts(seen, config)
    config_text = seen.text(CONFIG)
    if seen.files.present or seen.files.missing:
        headers = [shard.header for shard in seen.shards if isinstance(shard.header, ShardHeader)]
        findings = (
            *config_findings,
            *_shard_findings(seen),
            *index_findings(seen.index, headers),
            *(disagreement(config_text, model.weights) if config_text and isinstance(model.parameters, Known) else ()),
            *code_findings,
            *_tokenizer(seen, model),
        )
        return Inspection(model, gathered(findings))
    if CONFIG in seen.file_names and config_findings:
        # nothing else is there to tell what this is: the fault of the one file is the answer
        (fault,) = config_findings
        what = f"{seen.path} holds no weights, and its {CONFIG} cannot be read"
        raise CheckpointError(what, code="config.unreadable", seen=fault.seen, do=fault.do)
    if config_text is None:
        raise _nothing_here(seen, _listing(seen.file_names))
    found = shapes(config_text, seen.text(QUANT_CONFIG))
    if isinstance(found.weights, Unknown):
        raise _nothing_here(seen, f"{CONFIG} alone does not tell them: {found.weights.why}")
    return Inspection(with_shapes(model, found), (no_weights(seen.path, found),))


def _nothing_here(seen: DirectorySeen, why: str) -> CheckpointError:
    return CheckpointError(
        f"{seen.path} holds no safetensors or GGUF weights",
        code="checkpoint.no-weights",
        seen=why,
        do="name the directory that holds config.json and *.safetensors, or a .gguf file",
    )


def _facts(seen: DirectorySeen, config: HfConfig) -> tuple[ModelFacts, tuple[Finding, ...]]:
    """All facts, weights as the headers have them; and what there is to say of the checkpoint's own code."""
    kinds = kinds_once(shard.header for shard in seen.shards if isinstance(shard.header, ShardHeader))
    grouping = header_groups(kinds, config.storage, config.draft_layers)
    unknown = _unread(seen) or grouping.unknown
    code, code_findings = _remote_code(seen, config)
    model = ModelFacts(
        path=seen.path,
        format=CheckpointFormat.SAFETENSORS,
        digest=digest(seen.shards, seen.text(CONFIG) or ""),
        architectures=config.architectures,
        model_type=config.model_type,
        parameters=total_parameters(grouping.groups, unknown, "the shapes in the headers, packed weights unpacked"),
        weights_bytes=sum(kind.tensors * kind.size_bytes for kind in kinds),
        by_dtype=dtype_bytes((kind.dtype, kind.tensors, kind.size_bytes) for kind in kinds),
        shards=len(seen.files.present) + len(seen.files.missing),
        dtype=config.dtype,
        quantization=config.storage.method,
        max_position_embeddings=config.max_position_embeddings,
        num_hidden_layers=config.num_hidden_layers,
        hidden_size=config.hidden_size,
        num_attention_heads=config.num_attention_heads,
        num_key_value_heads=config.num_key_value_heads,
        vocab_size=config.vocab_size,
        chat_template=chat_template(seen.text(TEMPLATE_JINJA), seen.text(TEMPLATE_JSON), seen.text(TOKENIZER_CONFIG)),
        weights=grouping.groups,
        attention=config.attention,
        moe=config.moe,
        active_parameters=active_parameters(grouping.groups, config.moe, unknown),
        draft_layers=grouping.draft_layers,
        draft_parameters=draft_parameters(grouping.groups),
        weight_block=config.storage.weight_block,
        group_size=config.storage.group_size,
        kv_cache_quantization=config.storage.kv_cache,
        rope_scaling=config.rope_scaling,
        generation_config=generation_config(seen.text(GENERATION_CONFIG)),
        tokenizer=tokenizer_kind(seen.file_names),
        remote_code=code,
    )
    return model, code_findings


def _unread(seen: DirectorySeen) -> str:
    """Why what the headers sum to is not the whole model; empty where it is."""
    unread = len(seen.files.missing) + sum(isinstance(shard.header, Finding) for shard in seen.shards)
    return f"{unread} weight files are missing or have no readable header" if unread else ""


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


def _remote_code(seen: DirectorySeen, config: HfConfig) -> tuple[tuple[CodeFile, ...], tuple[Finding, ...]]:
    """The Python files that `trust_remote_code` would run."""
    named = set(config.remote_modules)
    findings: list[Finding] = []
    tokenizer_config = seen.text(TOKENIZER_CONFIG)
    if tokenizer_config is not None:
        try:
            named.update(tokenizer_modules(tokenizer_config))
        except ValueError as error:
            what, do = f"{TOKENIZER_CONFIG} cannot be read", get_again(TOKENIZER_CONFIG)
            findings.append(Finding("tokenizer.unreadable", Severity.BLOCK, TOKENIZER_CONFIG, what, str(error), do))
    files = code_files(named, seen.scripts)
    for file in files:
        # `org/repo--modeling_x.py` is fetched by the engine from another repository
        if not file.sha256 and "--" not in file.name:
            by = "auto_map names" if file.name in named else "the checkpoint's own code imports"
            what = f"{by} {file.name}, which is not there"
            findings.append(Finding("remote-code.missing", Severity.WARN, file.name, what, "", get_again(file.name)))
    return files, tuple(findings)


def _tokenizer(seen: DirectorySeen, model: ModelFacts) -> tuple[Finding, ...]:
    if isinstance(model.tokenizer, Known):
        return ()
    what = "there is no tokenizer file: engines can take token ids only, or none at all"
    do = get_again("tokenizer.json")
    return (Finding("tokenizer.missing", Severity.WARN, "tokenizer.json", what, _listing(seen.file_names), do),)


def _listing(names: tuple[str, ...]) -> str:
    return f"files there: {some_text(names)}" if names else "the directory is empty"
