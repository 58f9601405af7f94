"""The EngineCore process: loads in phases, holds workers and a shared-memory segment, outlives a killed API server.

Run as `python -S -m vllm.fake.engine_core STATUS_FD JSON_ARGS`; writes `ready` to STATUS_FD when it has loaded.
"""

import json
import mmap
import os
import queue
import secrets
import signal
import subprocess
import sys
import threading
from dataclasses import dataclass, field
from pathlib import Path

from vllm.fake import cues as cues_module
from vllm.fake.log import Log, raw, traceback_text
from vllm.fake.title import set_title

TERM, DIE = "term", "die"
SEGMENT_BYTES = 64 * 1024
log = Log("EngineCore")
worker_log = Log("Worker")

_CRASHES = {
    "weights": "safetensors_rust.SafetensorError: Error while deserializing header: incomplete metadata",
    "compile": "torch._inductor.exc.InductorError: CppCompileError: C++ compile error",
    "profile": "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.",
    "kv-cache": (
        "ValueError: To serve at least one request with the model's max seq len ({length}), (8.00 GiB KV cache is "
        "needed, which is larger than the available KV cache memory (1.0 GiB). Based on the available memory, the "
        "estimated maximum model length is {fits}. Try increasing `gpu_memory_utilization` or decreasing "
        "`max_model_len` when initializing the engine."
    ),
}


class EngineFailed(Exception):
    """Loading stopped at a phase, with the message that the traceback ends in."""


@dataclass(slots=True)
class Core:
    """The state of this process. inbox: what happened, in order: TERM, DIE, or the name of a worker that died.

    workers_ready: a pipe on which each worker writes one byte when it has mapped the segment.
    """

    cues: cues_module.Cues
    args: dict[str, object]
    inbox: "queue.SimpleQueue[str]" = field(default_factory=queue.SimpleQueue)
    workers: list["subprocess.Popen[bytes]"] = field(default_factory=list)
    workers_ready: int = -1
    segment: Path | None = None
    mapping: mmap.mmap | None = None

    def pause(self, phase: str, share: float = 1.0) -> None:
        """Takes the phase's time, or for ever when cued to hang. Raises: EngineFailed, SystemExit on SIGTERM."""
        seconds = None if self.cues.hang_at == phase else self.cues.load_seconds * cues_module.SHARES[phase] * share
        try:
            what = self.inbox.get(timeout=seconds)
        except queue.Empty:
            what = ""
        if what == TERM:
            raise SystemExit(0)
        if what:
            raise EngineFailed(f"RuntimeError: {what}")
        length, room = int(str(self.args["max_model_len"])), self.cues.room_tokens
        if phase == "kv-cache" and 0 < room < length:
            raise EngineFailed(_CRASHES[phase].format(length=length, fits=room))
        if self.cues.crash_at == phase:
            message = self.cues.crash_message or _CRASHES[phase].format(length=length, fits=max(length // 8, 16))
            raise EngineFailed(message)

    def open_segment(self) -> None:
        """Its first bytes are FAKE_OWNER, so that a test can tell its own from another's."""
        self.segment = Path("/dev/shm") / f"psm_fake_{secrets.token_hex(4)}"
        self.segment.write_bytes(self.cues.owner.encode().ljust(SEGMENT_BYTES, b"\0"))
        with self.segment.open("r+b") as file:
            self.mapping = mmap.mmap(file.fileno(), SEGMENT_BYTES)

    def start_workers(self) -> None:
        count = int(str(self.args["tensor_parallel_size"]))
        self.workers_ready, write = os.pipe()
        for rank in range(count):
            name = "VLLM::Worker" if count == 1 else f"VLLM::Worker_TP{rank}"
            command = [sys.executable, "-S", "-m", "vllm.fake.worker", name, str(self.segment), str(write)]
            worker = subprocess.Popen(command, stdin=subprocess.PIPE, pass_fds=[write])
            self.workers.append(worker)
            threading.Thread(target=self._watch, args=(worker, f"VllmWorker-{rank}"), daemon=True).start()
        os.close(write)

    def await_workers(self) -> None:
        """Returns when each has said that it is up, or when all are gone: `serve` then finds their names."""
        for _ in self.workers:
            os.read(self.workers_ready, 1)

    def _watch(self, worker: "subprocess.Popen[bytes]", name: str) -> None:
        worker.wait()
        self.inbox.put(name)

    def close(self) -> None:
        """Ends the workers and removes the segment."""
        for worker in self.workers:
            if worker.stdin:
                worker.stdin.close()
        for worker in self.workers:
            try:
                worker.wait(timeout=1)
            except subprocess.TimeoutExpired:
                worker.kill()
        if self.segment:
            self.segment.unlink(missing_ok=True)


def load(core: Core) -> None:
    """From nothing to ready, saying what vLLM says on the way. Raises: EngineFailed."""
    args, cues = core.args, core.cues
    model, length = args["model"], int(str(args["max_model_len"]))
    log.info(
        "core.py:133",
        f"Initializing a V1 LLM engine (v0.32.0) with config: model='{model}', dtype=torch.{args['dtype']}, "
        f"max_seq_len={length}, load_format={args['load_format']}, "
        f"tensor_parallel_size={args['tensor_parallel_size']}, pipeline_parallel_size=1, quantization=None, "
        f"enforce_eager={args['enforce_eager']}, kv_cache_dtype={args['kv_cache_dtype']}, device_config=cpu",
    )
    core.open_segment()
    core.start_workers()
    world = len(core.workers)
    worker_log.info(
        "parallel_state.py:1906",
        f"world_size={world} rank=0 local_rank=0 distributed_init_method=file://vllm_dist backend=gloo",
    )
    worker_log.info(
        "parallel_state.py:2350", f"rank 0 in world size {world} is assigned as DP rank 0, PP rank 0, TP rank 0"
    )
    worker_log.info("cpu_model_runner.py:68", f"Starting to load model {model}...")
    for shard in range(cues.shards + 1):
        share = shard * 100 // cues.shards
        bar = f"{share:3d}% Completed | {shard}/{cues.shards} [00:00<00:00,  2.78it/s]"
        raw(f"\rLoading safetensors checkpoint shards: {bar}\n")
        if shard < cues.shards:
            core.pause("weights", 1 / cues.shards)
    worker_log.info("default_loader.py:501", f"Loading weights took {cues.load_seconds / 2:.2f} seconds")
    if not args["enforce_eager"] or "compile" in (cues.crash_at, cues.hang_at):
        worker_log.info("cpu_model_runner.py:87", "Warming up model for the compilation...")
        core.pause("compile")
        worker_log.info("monitor.py:91", "[backbone] Initial profiling/warmup run took 0.04 s")
        worker_log.info("cpu_model_runner.py:91", "Warming up done.")
    core.await_workers()
    eaten = bytearray(cues.eat_mib * 1024**2)
    eaten[:: mmap.PAGESIZE] = b"x" * len(range(0, len(eaten), mmap.PAGESIZE))
    core.pause("profile")
    worker_log.info("cpu_worker.py:260", "Explicitly set (1.0/16.84) GiB for KV cache on node 0.")
    core.pause("kv-cache")
    log.info(
        "kv_cache_utils.py:2327",
        f"CPU KV cache size: {8 * length:,} tokens, Maximum concurrency for {length:,} tokens per request: 8.00x",
    )
    took = cues.load_seconds * 0.35
    log.info("core.py:402", f"init engine (profile, create kv cache, warmup model) took {took:.2f} s")


def fail_loading(core: Core, error: EngineFailed) -> None:
    frames = [
        ("vllm/v1/engine/core.py", 1482, "run_engine_core", "engine_core = EngineCoreProc(*args, **kwargs)"),
        ("vllm/v1/engine/core.py", 157, "__init__", "kv_cache_config = self._initialize_kv_caches(vllm_config)"),
    ]
    text = traceback_text(frames, str(error))
    log.error("core.py:1510", "EngineCore failed to start.\n" + text)
    core.close()
    raw("Process EngineCore:\n" + text + "\n")


def serve(core: Core) -> int:
    """Waits for an end, and gives the exit code."""
    try:
        what = core.inbox.get(timeout=core.cues.die_after_ready)
    except queue.Empty:
        what = DIE
    if what == TERM:
        log.info("core.py:1454", "[shutdown] EngineCore: trigger received signal=SIGTERM")
        log.info("core.py:1499", "[shutdown] EngineCore: exiting busy loop")
        core.close()
        log.info("multiproc_executor.py:486", "[shutdown] Executor: all workers exited gracefully")
        return 0
    if what == DIE:
        message = core.cues.crash_message or "RuntimeError: the fake engine was told to die"
        frame = ("vllm/v1/engine/core.py", 1496, "run_busy_loop", "self._process_engine_step()")
        log.error("core.py:1520", "EngineCore encountered a fatal error.\n" + traceback_text([frame], message))
    else:
        log.error("multiproc_executor.py:315", f"Worker proc {what} died unexpectedly, shutting down executor.")
    core.close()
    return 1


def main() -> int:
    status, args = int(sys.argv[1]), json.loads(sys.argv[2])
    set_title("VLLM::EngineCore")
    core = Core(cues_module.read(), args)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if core.cues.ignore_term:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    else:
        signal.signal(signal.SIGTERM, lambda *_: core.inbox.put(TERM))
    signal.signal(signal.SIGUSR1, lambda *_: core.inbox.put(DIE))
    try:
        load(core)
    except EngineFailed as error:
        fail_loading(core, error)
        return 1
    except SystemExit:
        core.close()
        raise
    os.write(status, b"ready\n")
    return serve(core)


if __name__ == "__main__":
    sys.exit(main())
