"""Rows about families of models: what their architecture implies and config.json does not say."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Family:
    """Models of one architecture that are served alike. Parsers are vLLM's names, empty where there is none.

    model_types: empty where the architecture is enough. template_has, template_lacks: what the chat template must
    contain, or not, to be of this row and not of another with the same architecture; empty for any. reasoning_needs:
    what it must contain for the reasoning parser to be used; empty for always. attention_sinks: its attention has them.
    expert_routing, expert_activation: how its router scores experts and what they compute, in vLLM's words
    (`RoutingMethodType`, `MoEActivation`); empty where there are no experts or it is not known.
    """

    name: str
    architectures: tuple[str, ...]
    source: str
    model_types: tuple[str, ...] = ()
    template_has: str = ""
    template_lacks: str = ""
    tool_parser: str = ""
    reasoning_parser: str = ""
    reasoning_needs: str = ""
    attention_sinks: bool = False
    expert_routing: str = ""
    expert_activation: str = ""


@dataclass(frozen=True, slots=True)
class Families:
    families: tuple[Family, ...]
