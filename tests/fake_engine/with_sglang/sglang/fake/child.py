"""A child of the server: the scheduler loads the model, the detokenizer only lives.

Run as `python -m sglang.fake.child TITLE STATUS_FD JSON_ARGS`. A scheduler that fails prints its traceback, tells its
parent by SIGQUIT, and ends.
"""

import json
import os
import signal
import sys
import threading

from vllm.fake import cues as cues_module
from vllm.fake.log import raw, traceback_text
from vllm.fake.title import set_title

from sglang.fake.log import say

_CRASHES = {
    "weights": "safetensors_rust.SafetensorError: Error while deserializing header: incomplete metadata",
    "kv-cache": (
        "RuntimeError: Not enough memory. Please try to increase --mem-fraction-static. "
        "Current value: self.server_args.mem_fraction_static=0.5"
    ),
}


class Failed(Exception):
    """The last line of the traceback."""


def pause(cues: cues_module.Cues, phase: str, share: float = 1.0) -> None:
    """Takes the phase's time, or for ever when cued to hang. Raises: Failed."""
    if cues.hang_at == phase:
        threading.Event().wait()
    threading.Event().wait(cues.load_seconds * cues_module.SHARES[phase] * share)
    if cues.crash_at == phase:
        raise Failed(cues.crash_message or _CRASHES[phase])


def load(cues: cues_module.Cues, args: dict[str, object], who: str) -> None:
    say("Init torch distributed begin.", who)
    say("Init torch distributed ends. mem usage=0.00 GB", who)
    say("Load weight begin. avail mem=15.20 GB", who)
    for shard in range(cues.shards + 1):
        share = shard * 100 // cues.shards
        done = f"{share:3d}% Completed | {shard}/{cues.shards} [00:00<00:00,  2.78it/s]"
        raw(f"\rLoading safetensors checkpoint shards: {done}\n")
        if shard < cues.shards:
            pause(cues, "weights", 1 / cues.shards)
    say(
        "Load weight end. elapsed=0.15 s, type=LlamaForCausalLM, avail mem=15.00 GB, mem usage=0.20 GB.",
        who,
    )
    pause(cues, "kv-cache")
    tokens = args["max_total_tokens"] or 8192
    say(f"KV Cache is allocated. dtype: torch.bfloat16, #tokens: {tokens}, K size: 0.10 GB, V size: 0.10 GB", who)
    say("Memory pool end. avail mem=14.80 GB", who)
    say(
        f"max_total_num_tokens={tokens}, chunked_prefill_size=4096, max_prefill_tokens=16384, "
        f"max_running_requests={args['max_running_requests'] or 2048}, context_len={args['context_length']}, "
        "available_cpu_mem=14.80 GB",
        who,
    )


def main() -> int:
    title, status, args = sys.argv[1], int(sys.argv[2]), json.loads(sys.argv[3])
    set_title(title)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    cues = cues_module.read()
    if "scheduler" in title:
        who = title.rpartition("_")[2]
        try:
            load(cues, args, who)
        except Failed as error:
            frame = ("sglang/srt/managers/scheduler.py", 2981, "run_scheduler_process", "scheduler = Scheduler(")
            say(f"Scheduler hit an exception: {traceback_text([frame], str(error))}\n", who)
            os.kill(os.getppid(), signal.SIGQUIT)
            return 1
    os.write(status, b"ready\n")
    os.close(status)
    # the server holds the other end: when it is gone, so are we
    sys.stdin.buffer.read()
    return 0


if __name__ == "__main__":
    sys.exit(main())
