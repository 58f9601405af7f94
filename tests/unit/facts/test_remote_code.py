"""Which Python files a checkpoint would run."""

import hashlib

from holddown.facts.model import CodeFile
from holddown.facts.remote_code import Script, code_files


def sha(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def names(named: list[str], scripts: dict[str, str]) -> list[str]:
    found = code_files(named, [Script(name, text.encode()) for name, text in scripts.items()])
    return [file.name for file in found]


def test_hashes_change_with_the_file() -> None:
    """Each file has the hash of its bytes."""
    found = code_files(["modeling_x.py"], [Script("modeling_x.py", b"a = 1")])
    assert found == (CodeFile("modeling_x.py", sha("a = 1")),)


def test_imports_are_followed() -> None:
    """Relative imports of any form, through several files and in circles; other files are left alone."""
    scripts = {
        "modeling_x.py": "def f():\n    from .configuration_x import C\n",
        "configuration_x.py": "from . import helper, absent\nfrom .modeling_x import f\n",
        "helper.py": "import torch\nfrom transformers import x\n",
        "convert.py": "",
    }
    assert names(["modeling_x.py"], scripts) == ["configuration_x.py", "helper.py", "modeling_x.py"]


def test_packages_beside_the_files() -> None:
    """`from .parts.attention import A` names a file in a folder, and a package's own file runs with it."""
    scripts = {
        "modeling_x.py": "from .parts.attention import A\nfrom .layers import norm\n",
        "parts/attention.py": "from ..configuration_x import C\nfrom .rope import R\n",
        "parts/rope.py": "",
        "layers/__init__.py": "",
        "layers/norm.py": "",
        "configuration_x.py": "",
    }
    assert names(["modeling_x.py"], scripts) == sorted(scripts)


def test_a_file_that_is_imported_and_not_there() -> None:
    """It is told, with no hash."""
    found = code_files(["m.py"], [Script("m.py", b"from .gone import x")])
    assert found[0] == CodeFile("gone.py", "")


def test_code_that_cannot_be_parsed() -> None:
    """Where it cannot be told what a file imports, all files there count."""
    assert names(["m.py"], {"m.py": "def (", "other.py": "", "z.py": "\0"}) == ["m.py", "other.py", "z.py"]
