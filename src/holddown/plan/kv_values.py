"""What an engine build makes of a value of `--kv-cache-dtype` before and after it chooses an attention backend."""

from dataclasses import dataclass

from holddown.base.evidence import known_or
from holddown.facts.engine import EngineFacts, version_key
from holddown.facts.kv_cache import KvDtype
from holddown.facts.model import ModelFacts
from holddown.plan.attention_query import is_latent
from holddown.plan.kv_layouts import STORED, stored
from holddown.tables.engine import KvRewrite
from holddown.tables.load import engine_table


@dataclass(frozen=True, slots=True)
class KvValues:
    """One build on one compute capability, with one checkpoint."""

    model: ModelFacts
    facts: EngineFacts
    compute_capability: str

    def words(self) -> tuple[str, ...]:
        """Values worth asking about beside `auto`: of 16-bit floats only the model's own, since 0.33 refuses
        another."""
        own = "float16" if known_or(self.model.dtype, "") == "float16" else "bfloat16"
        others = {"auto", "float16", "bfloat16"} - {own}
        layouts = set() if is_latent(self.model) else {"fp8_ds_mla", "nvfp4_ds_mla"}
        return tuple(word for word in self.facts.kv_cache_dtypes if word in STORED and word not in others | layouts)

    def asked(self, dtype: str) -> str:
        """What a backend is asked for."""
        return self._before(self._followed(dtype))

    def after(self, asked: str, backend: str) -> KvDtype:
        """What the chosen backend's cache holds."""
        name = next((row.becomes for row in self._rewrites(asked) if row.backend == backend), asked)
        return stored(name, self.model)

    def asks_fp8(self) -> bool:
        """Whether the checkpoint does."""
        return known_or(self.model.kv_cache_quantization, "none").startswith("fp8")

    def flag_wins(self) -> bool:
        forced = self.asks_fp8() and self._method() == "compressed-tensors" and not is_latent(self.model)
        return self.facts.kv_flag_wins or not forced

    def _method(self) -> str:
        return known_or(self.model.quantization, "")

    def _followed(self, dtype: str) -> str:
        """What the checkpoint's own wish makes of the value.

        Source: vLLM 0.16.0 to 0.33.0 utils/torch_utils.py get_kv_cache_quant_algo_string (ModelOpt, only for auto);
        model_executor/layers/attention/attention.py (compressed-tensors, not MLA; before 0.25 also against the flag).
        """
        if not self.asks_fp8():
            return dtype
        method = self._method()
        if method.startswith("modelopt") and "modelopt" in self.facts.kv_quantization_followed:
            return "fp8_e4m3" if dtype == "auto" else dtype
        followed = method in self.facts.kv_quantization_followed
        if method == "compressed-tensors" and followed and not is_latent(self.model):
            return "fp8" if dtype == "auto" or not self.facts.kv_flag_wins else dtype
        return dtype

    def _before(self, dtype: str) -> str:
        """What the engine's code for the architecture makes of it before a backend is chosen."""
        names = known_or(self.model.architectures, ())
        return next((row.becomes for row in self._rewrites(dtype) if row.architecture in names), dtype)

    def _rewrites(self, dtype: str) -> tuple[KvRewrite, ...]:
        version = version_key(self.facts.version)
        return tuple(
            row
            for row in engine_table(self.facts.kind).kv_rewrites
            if dtype in row.given
            and (not row.compute_capabilities or self.compute_capability in row.compute_capabilities)
            and version_key(row.since) <= version
            and (not row.until or version <= version_key(row.until))
        )
