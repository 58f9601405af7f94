"""Compose files, Kubernetes manifests and systemd units -> launch commands."""

import pytest

from fakes.lint import GRAMMARS
from holddown.base.errors import UsageError
from holddown.facts.command.launch import LaunchCommand
from holddown.facts.command.read import TextKind, read_commands, text_kind

COMPOSE = """\
x-common: &common
  ipc: host
  environment:
    HF_TOKEN: ${HF_TOKEN}
services:
  big:
    <<: *common
    image: vllm/vllm-openai:v0.19.1
    command: >
      --model org/m
      --tensor-parallel-size ${TP:-4}
  small:
    image: lmsysorg/sglang:v0.5.8
    privileged: true
    shm_size: 16gb
    entrypoint: ["python3", "-m", "sglang.launch_server"]
    command:
      - --model-path
      - /models/m
    environment:
      - SGLANG_X=1
  web:
    image: nginx
"""

KUBERNETES = """\
apiVersion: apps/v1
kind: Deployment
spec:
  template:
    spec:
      containers:
        - name: server
          image: vllm/vllm-openai:v0.16.0
          command: ["/bin/sh", "-c"]
          args:
            - |
              vllm serve org/m \\
                --port 8000
          env:
            - name: VLLM_LOGGING_LEVEL
              value: DEBUG
            - name: HF_TOKEN
              valueFrom: {secretKeyRef: {name: hf, key: token}}
          volumeMounts:
            - mountPath: /dev/shm
              name: shm
"""

UNIT = """\
[Service]
Environment="VLLM_LOGGING_LEVEL=DEBUG" CUDA_VISIBLE_DEVICES=0,1
EnvironmentFile=/etc/vllm
ExecStart=-/opt/vllm/bin/vllm serve /models/m \\
    # the context
    --max-model-len 8192 \\
    --served-model-name "my model" --port %i
"""


def texts(found: LaunchCommand) -> list[str]:
    return [word.text for word in found.arguments]


def test_every_service_of_a_compose_file_is_read() -> None:
    """With merge keys, interpolation with a default, lists and folded texts."""
    big, small = read_commands(COMPOSE, GRAMMARS, "compose.yaml")

    assert (big.where, big.kind, texts(big)) == (
        "compose.yaml, service big",
        "vllm",
        ["--model", "org/m", "--tensor-parallel-size", "4"],
    )
    assert big.container is not None and (big.container.shared_memory, big.container.version) == ("host", "0.19.1")
    assert texts(small) == ["--model-path", "/models/m"]
    assert [word.line for word in small.arguments] == [18, 19]
    assert small.container is not None and (small.container.privileged, small.container.shared_memory) == (True, "16gb")
    assert {each.name for each in small.variables} == {"SGLANG_X"}


def test_a_shell_in_a_manifest_is_looked_into() -> None:
    """Kubernetes: `sh -c` with a block of text; lines are the file's; a secret's value is not known."""
    (found,) = read_commands(KUBERNETES, GRAMMARS, "k.yaml")

    assert texts(found) == ["org/m", "--port", "8000"]
    assert found.arguments[1].line == 13
    assert {each.name: each.value.certain for each in found.variables} == {
        "VLLM_LOGGING_LEVEL": True,
        "HF_TOKEN": False,
    }
    assert found.container is not None and found.container.shared_memory == "mounted"


def test_a_unit_is_read_with_its_continuations_and_environment() -> None:
    """Prefix characters and comments within a continued line do not count; a specifier is uncertain."""
    (found,) = read_commands(UNIT, GRAMMARS, "vllm.service")

    assert texts(found) == ["/models/m", "--max-model-len", "8192", "--served-model-name", "my model", "--port", "%i"]
    assert [word.certain for word in found.arguments][-1] is False
    assert {each.name: each.value.text for each in found.variables} == {
        "VLLM_LOGGING_LEVEL": "DEBUG",
        "CUDA_VISIBLE_DEVICES": "0,1",
    }


@pytest.mark.parametrize(
    ("text", "name", "kind"),
    [
        (UNIT, "", TextKind.UNIT),
        (COMPOSE, "", TextKind.MANIFEST),
        (KUBERNETES, "stdin", TextKind.MANIFEST),
        ("vllm serve m", "", TextKind.SHELL),
        ("vllm serve m", "x.yaml", TextKind.MANIFEST),
        (COMPOSE, "x.sh", TextKind.SHELL),
    ],
)
def test_a_text_is_told_by_its_name_or_its_looks(text: str, name: str, kind: TextKind) -> None:
    """A file's ending decides; without one, what it begins with."""
    assert text_kind(text, name) is kind


def test_an_alias_that_holds_itself_ends() -> None:
    """A manifest may refer to itself; each node is looked at once."""
    assert read_commands("services: &a\n  x: *a\n  y: {command: *a}\n", GRAMMARS, "c.yaml") == []


def test_what_is_no_yaml_is_an_error() -> None:
    """A tab or an open bracket is said, with where."""
    with pytest.raises(UsageError, match="cannot be read as YAML"):
        read_commands("services: [", GRAMMARS, "c.yaml")
