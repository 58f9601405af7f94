"""Log lines in SGLang's shape: `[2026-05-04 10:00:00 TP0] text`."""

import time

from vllm.fake.log import raw


def say(text: str, who: str = "") -> None:
    stamp = time.strftime("%Y-%m-%d %H:%M:%S")
    raw(f"[{stamp}{' ' + who if who else ''}] {text}\n")
