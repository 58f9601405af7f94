"""One engine build asked about one checkpoint: whether it can, what it keeps the KV cache in, how fast it would be."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache

from holddown.base.evidence import Fact, Known, Source, SourceKind, Unknown, derived, known_or
from holddown.base.finding import Finding
from holddown.facts.engine import version_key
from holddown.facts.kv_cache import BF16, KvDtype
from holddown.facts.machine import Gpu
from holddown.facts.model import ModelFacts
from holddown.plan.backend_answers import selector_name
from holddown.plan.build_fit import build_findings
from holddown.plan.calibration import calibrated, calibration_of
from holddown.plan.compat import KvAnswer, Wish, kv_choices
from holddown.plan.estimate import Speed
from holddown.plan.fabric import fabric_of
from holddown.plan.fit import UTILIZATION, Fit, Rules, fit_cpu, fit_gpus
from holddown.plan.kernels import ExpertsKernel, experts_kernel
from holddown.plan.limits import Limit, parallel_limits
from holddown.plan.memory import is_second_runner
from holddown.plan.option import Option
from holddown.plan.parallelism import Parallelism
from holddown.plan.parsers import Parsers, parser_settings
from holddown.plan.plan import Rejected, Setting
from holddown.plan.rig import Hardware, named_rig
from holddown.plan.search import LimitsOf, SpeedOf
from holddown.plan.settings import decide, findings_of
from holddown.plan.site import Site
from holddown.plan.speed import predict
from holddown.plan.wishes import Candidate, Wishes, offloaded_bytes, wished
from holddown.plan.work import model_work
from holddown.tables.gpu import FabricRow
from holddown.tables.load import gpu_rows, speed_table
from holddown.tables.named import NoRow, find_row
from holddown.tables.speed import Drafting

_PROFILED = ("vllm", "0.25.1", "9.0")
"""What plan/memory was fitted to: tests/captures/vllm/0.25.1-h200/memory."""
_GRAPHS_IN_SHARE_SINCE = version_key("0.21")
"""The first vLLM that counts CUDA graphs within gpu-memory-utilization. Source: v1/worker/gpu_worker.py."""


@dataclass(frozen=True, slots=True)
class Build:
    """vLLM's planner; see `plan/planners`."""

    model: ModelFacts
    site: Site
    candidate: Candidate
    wishes: Wishes

    def on_cpu(self) -> Fit | tuple[Rejected, ...]:
        refused = self._refused("cpu")
        if refused:
            return refused
        kv = self._kv("cpu", Parallelism())
        stored = kv.chosen.stored if kv.chosen else BF16
        fit = fit_cpu(self.model, self.site.machine, self.wishes, stored)
        if isinstance(fit, str):
            return (Rejected(self.candidate.engine.ref, fit, "memory.ram"),)
        return self._completed(fit, kv, "cpu")

    def on_gpus(self, gpus: tuple[Gpu, ...]) -> Fit | tuple[Rejected, ...]:
        """The best way to use some of them."""
        capability = known_or(gpus[0].compute_capability, "")
        refused = self._refused(capability)
        if refused:
            return refused

        @cache
        def kv_of(split: Parallelism) -> KvAnswer:
            return self._kv(capability, split)

        def stored_of(split: Parallelism) -> KvDtype:
            kv = kv_of(split).chosen
            return kv.stored if kv else BF16

        def limits_of(split: Parallelism) -> Sequence[Limit]:
            unfit = [] if self._wish.kv_cache_dtype else [each for each in kv_of(split).findings if each.blocks]
            experts = self._experts(capability, split).finding
            unfit += [experts] if experts and experts.blocks and not self._moe_backend else []
            of_backend = (Limit(each.code, each.what, each.seen) for each in unfit)
            return (*self.limits(split), *of_backend)

        rules = self.rules(gpus, stored_of, limits_of)
        fit = fit_gpus(self.model, gpus, self.wishes, rules, self._speed_of(gpus))
        if not isinstance(fit, Fit):
            return fit
        fabric = self._fabric(gpus[: len(fit.gpus)])
        hardware = self._hardware(gpus[: len(fit.gpus)])
        rows = hardware.value if isinstance(hardware, Known) else None
        return self._completed(replace(fit, fabric=fabric, hardware=rows), kv_of(fit.parallelism), capability)

    def limits(self, split: Parallelism) -> Sequence[Limit]:
        """The engine's own rules that this split breaks."""
        return parallel_limits(self.model, self.candidate.facts, split)

    def rules(self, gpus: tuple[Gpu, ...], kv_of: Callable[[Parallelism], KvDtype], limits_of: LimitsOf) -> Rules:
        """How this build shares out a GPU's memory."""
        facts = self.candidate.facts
        share = known_or(facts.gpu_memory_utilization, UTILIZATION)
        second = is_second_runner(self.model, facts.version)
        beyond = second or version_key(facts.version) < _GRAPHS_IN_SHARE_SINCE
        profiled = (facts.kind, facts.version, known_or(gpus[0].compute_capability, "")) == _PROFILED
        return Rules(kv_of, share, beyond, second, profiled, limits_of, self._drafting())

    def settings(self, fit: Fit) -> tuple[Setting, ...]:
        return decide(self.model, self.candidate, fit, self.wishes)

    def findings(self, settings: Sequence[Setting], fit: Fit) -> tuple[Finding, ...]:
        return findings_of(self.model, self.candidate, tuple(settings), fit, self.wishes)

    @property
    def _wish(self) -> Wish:
        return Wish(wished(self.wishes, "kv-cache-dtype"), wished(self.wishes, "attention-backend"))

    def _kv(self, capability: str, split: Parallelism) -> KvAnswer:
        return kv_choices(self.model, self.candidate.facts, capability, self._wish, split)

    @property
    def _moe_backend(self) -> str:
        return wished(self.wishes, "moe-backend")

    def _experts(self, capability: str, split: Parallelism) -> ExpertsKernel:
        return experts_kernel(self.model, self.candidate.facts, capability, split, self._moe_backend)

    def _refused(self, capability: str) -> tuple[Rejected, ...]:
        """What no split and no setting of ours can change; what a setting of the user's causes is left to them."""
        findings = [
            each for each in build_findings(self.model, self.candidate.facts, capability) if not self._lets(each)
        ]
        # one rank alone has every head and the whole cache: what does not go there goes nowhere
        if not findings and not self._wish.kv_cache_dtype:
            findings = [each for each in self._kv(capability, Parallelism()).findings if each.blocks]
        ref = self.candidate.engine.ref
        return tuple(Rejected(ref, f"{each.what} ({each.seen})", each.code, do=each.do) for each in findings)

    def _lets(self, finding: Finding) -> bool:
        return self.wishes.any_architecture and finding.code == "compat.architecture"

    def _drafting(self) -> Drafting | None:
        able = self.model.draft_layers and self.candidate.facts.knows_flag("speculative-config")
        decided = any(name.startswith(("speculative-config", "spec-")) for name, _ in self.wishes.settings)
        return speed_table().drafting if able and not decided else None

    def _completed(self, fit: Fit, kv: KvAnswer, capability: str) -> Fit:
        parsers: Parsers = parser_settings(self.model, self.candidate.facts)
        settings = (*((kv.setting,) if kv.setting else ()), *parsers.settings)
        unknown = [each for each in build_findings(self.model, self.candidate.facts, capability) if self._lets(each)]
        experts = self._experts(capability, fit.parallelism)
        of_experts = (experts.finding,) if experts.finding else ()
        fit = replace(
            fit,
            attention_backends=tuple(dict.fromkeys(kv.chosen.backends)) if kv.chosen else (),
            experts_backend=experts.name,
            selector=selector_name(self.candidate.facts) if kv.chosen and kv.chosen.by_selector else "",
        )
        return replace(fit, settings=settings, findings=(*unknown, *kv.findings, *of_experts, *parsers.findings))

    def _fabric(self, gpus: Sequence[Gpu]) -> Fact[FabricRow]:
        return self.site.fabric if isinstance(self.site.fabric, Known) else fabric_of(gpus)

    def _hardware(self, gpus: Sequence[Gpu]) -> Fact[Hardware]:
        row = find_row(gpu_rows(), gpus[0].name)
        if isinstance(row, NoRow):
            return Unknown(f"the table of GPUs has no {gpus[0].name}")
        if row.vendor != "NVIDIA":
            # 12 rows of an MI300X were 2.3 times slower than these constants say
            return Unknown(f"the speed model was fitted on NVIDIA's GPUs alone, and {row.name} is none")
        fabric = self._fabric(gpus)
        if len(gpus) > 1 and isinstance(fabric, Unknown):
            return Unknown(f"how the GPUs reach each other is not known: {fabric.why}")
        between = fabric.value.name if len(gpus) > 1 and isinstance(fabric, Known) else ""
        kind = self.candidate.facts.kind
        return derived(Hardware(row.name, between, kind), f"{row.name}, {between or 'one GPU'}, {kind}")

    def _speed_of(self, gpus: tuple[Gpu, ...]) -> SpeedOf:
        work = model_work(self.model)
        hardware_of = cache(lambda count: self._hardware(gpus[:count]))
        rig_of = cache(named_rig)

        def speed_of(option: Option, concurrency: int) -> Fact[Speed]:
            hardware: Fact[Hardware] = hardware_of(option.parallelism.world_size)
            if isinstance(work, Unknown):
                return work
            if offloaded_bytes(self.wishes):
                return Unknown(
                    "weights in RAM are read over PCIe at every step, which the model of speed does not know"
                )
            if isinstance(hardware, Unknown):
                return hardware
            speed = predict(
                work.value,
                rig_of(hardware.value, option.batch.graphs),
                option.parallelism,
                option.cache.dtype,
                self.wishes.workload,
                concurrency,
                option.kv_cache_tokens,
            )
            by = calibration_of(self.site.calibrations, self.model.digest, hardware.value, option.parallelism)
            if by is None:
                return derived(speed, f"plan/speed for {hardware.source.where}")
            return Known(calibrated(speed, by, concurrency), Source(SourceKind.MEASURED, by.because))

        return speed_of
