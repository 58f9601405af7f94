"""What the planner says, in the words of a command: its settings are `--set NAME=VALUE`, a command's are options."""

import re
from dataclasses import replace

from holddown.base.finding import Finding

_WISHED = re.compile(r",? yours \(--set [\w.-]+\),?")
_SET = re.compile(r"--set ([\w.-]+)=")


def in_words(text: str) -> str:
    """`--set max-model-len=8192` -> `--max-model-len 8192`."""
    return _WISHED.sub("", _SET.sub(r"--\1 ", text)).replace("--set ", "--")


def as_words(finding: Finding) -> Finding:
    return replace(finding, what=in_words(finding.what), seen=in_words(finding.seen), do=in_words(finding.do))
