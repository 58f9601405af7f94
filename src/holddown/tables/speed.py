"""The constants of the speed model. What is fitted, on what, and how far off it was on what it had not seen."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Constants:
    """What every prediction uses.

    dense_bandwidth, expert_bandwidth, kv_bandwidth, activation_bandwidth: share of the DRAM's peak that streaming
    these reaches. compute: share of the tensor cores' dense peak in large matrix products. kernel_us: one small kernel
    in a CUDA graph; eager_kernel_us: launched by itself, as passes with prompt tokens do. collective: of the fabric's
    all-reduce curve; context_collective, exchange: the same for a divided context and for tokens on the way to experts.
    step_us, sequence_us: host work per step, and per sequence in it. tile_rows: to which an expert's tokens are padded.
    ep_spread: by how much the busiest expert parallel rank exceeds the mean, as a share of what balls in bins give.
    routing_evenness: n tokens touch the experts that n to this power would touch at random. stage_hop_us: from one
    pipeline stage to the next. kernel_growth: what each doubling of the sequences adds to a decode step's kernels.
    request_us, prompt_stretch, prompts_ahead: the first token comes after so much host work, the prompt's own passes
    times the stretch (others decode in them), and the passes of this share of the other prompts.
    """

    dense_bandwidth: float
    expert_bandwidth: float
    kv_bandwidth: float
    activation_bandwidth: float
    compute: float
    kernel_us: float
    eager_kernel_us: float
    kernel_growth: float
    collective: float
    context_collective: float
    exchange: float
    step_us: float
    sequence_us: float
    tile_rows: float
    ep_spread: float
    routing_evenness: float
    stage_hop_us: float
    request_us: float
    prompt_stretch: float
    prompts_ahead: float
    prefill_chunk_tokens: int
    source: str


@dataclass(frozen=True, slots=True)
class Kernels:
    """How many kernels a layer of each kind launches in a decode step, everything of it but the quantisation of
    activations, which is `activation_quantization` for each linear layer that wants it."""

    attention: float
    latent_attention: float
    indexer: float
    delta_net: float
    mamba: float
    dense_mlp: float
    experts: float
    shared_expert: float
    activation_quantization: float
    step: float
    source: str


@dataclass(frozen=True, slots=True)
class Factor:
    """Multiplies one constant where it applies; an empty condition applies always.

    term: name of the constant, or `latent_compute` for compute in decoding with MLA, `expert_kernels` for what Kernels
    has of experts, `prefill` for the time of passes with prompt tokens. generation: major number of the compute
    capability. format: of the weights.
    """

    term: str
    engine: str
    generation: str
    format: str
    value: float
    source: str


@dataclass(frozen=True, slots=True)
class Band:
    """How measured / predicted speed spreads on configurations that were not fitted: 10th and 90th percentile.

    figure: `few-users` (up to `few_users` at once), `many-users`, or `ttft`. where: `nvlink`, `pcie`, `one-gpu`, or
    `unmeasured` for an engine or a GPU generation that is not among the measurements.
    """

    figure: str
    where: str
    low: float
    high: float
    source: str


@dataclass(frozen=True, slots=True)
class Drafting:
    """What drafting with the checkpoint's own MTP layer multiplies the decode speed of one stream by."""

    layers: int
    factor: float
    low: float
    high: float
    source: str


@dataclass(frozen=True, slots=True)
class SpeedTable:
    """measured_generations: major compute capabilities that are among the measurements; for others, and for engines
    that are not in `measured_engines`, the band is that of the unmeasured."""

    few_users: int
    measured_engines: tuple[str, ...]
    measured_generations: tuple[str, ...]
    constants: Constants
    kernels: Kernels
    factors: tuple[Factor, ...]
    bands: tuple[Band, ...]
    drafting: Drafting
