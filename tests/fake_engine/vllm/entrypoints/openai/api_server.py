"""`python -m vllm.entrypoints.openai.api_server`: the API server process of the stand-in."""

import argparse
import json
import os
import queue
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import uuid
from dataclasses import dataclass, field
from pathlib import Path

from vllm._version import __version__
from vllm.entrypoints.launchers.cli_args import make_parser
from vllm.fake import cues as cues_module
from vllm.fake.log import Log, raw, traceback_text
from vllm.fake.server import ENGINE_DEAD, Server, Service, key_from
from vllm.model_executor.models.registry import _VLLM_MODELS

TERM, READY, DEAD = "term", "ready", "dead"
SOCKETS = 3
log = Log("APIServer")
_ENTRY = "vllm/entrypoints/launchers/api_server/entry.py"


class StartFailed(Exception):
    """The last line of the traceback that the process ends with."""


@dataclass(slots=True)
class ApiServer:
    """inbox: TERM from a signal, READY and DEAD from the EngineCore's status pipe."""

    cues: cues_module.Cues
    args: argparse.Namespace
    inbox: "queue.SimpleQueue[str]" = field(default_factory=queue.SimpleQueue)
    core: "subprocess.Popen[bytes] | None" = None
    sockets: list[socket.socket] = field(default_factory=list)

    def wait(self, phase: str) -> None:
        """Takes the phase's time. Raises: StartFailed, KeyboardInterrupt on SIGTERM."""
        seconds = None if self.cues.hang_at == phase else self.cues.load_seconds * cues_module.SHARES[phase]
        try:
            what = self.inbox.get(timeout=seconds)
        except queue.Empty:
            what = ""
        if what == TERM:
            raise KeyboardInterrupt("terminated")
        if what == DEAD:
            raise StartFailed(f"vllm.v1.engine.exceptions.EngineDeadError: {ENGINE_DEAD}")
        if self.cues.crash_at == phase:
            fallback = {
                "config": "pydantic_core._pydantic_core.ValidationError: 1 validation error for ModelConfig\n"
                "  Value error, the fake engine was told to refuse this configuration",
                "server": "jinja2.exceptions.TemplateSyntaxError: unexpected '}'",
            }[phase]
            raise StartFailed(self.cues.crash_message or fallback)

    def resolve(self) -> dict[str, object]:
        """Reads the checkpoint's config.json. Raises: StartFailed."""
        args = self.args
        path = Path(args.model) / "config.json"
        try:
            config = json.loads(path.read_text())
        except (OSError, ValueError) as error:
            raise StartFailed(f"OSError: Can't load the configuration of '{args.model}': {error}") from error
        names = config.get("architectures") or []
        known = next((name for name in names if name in _VLLM_MODELS), None)
        if known is None:
            raise StartFailed(
                "pydantic_core._pydantic_core.ValidationError: 1 validation error for ModelConfig\n"
                f"  Value error, Model architectures {names} are not supported for now. "
                f"Supported architectures: {_VLLM_MODELS.keys()}"
            )
        heads, tp = config.get("num_attention_heads", 1), args.tensor_parallel_size
        if heads % tp:
            raise StartFailed(
                "pydantic_core._pydantic_core.ValidationError: 1 validation error for VllmConfig\n"
                f"  Value error, Total number of attention heads ({heads}) must be divisible by "
                f"tensor parallel size ({tp})."
            )
        length = args.max_model_len or config.get("max_position_embeddings") or 2048
        log.info("model.py:733", f"Resolved architecture: {known}")
        log.info("model.py:2152", f"Using max model len {length}")
        if args.enforce_eager:
            log.warning(
                "vllm.py:1703", "Enforce eager set, disabling torch.compile, CUDAGraphs, and JIT kernel warmup."
            )
        dtype = config.get("torch_dtype", "bfloat16") if args.dtype == "auto" else args.dtype
        return {**vars(args), "max_model_len": length, "dtype": dtype}

    def leave_sockets(self) -> None:
        """As vLLM's message queues do, they stay in TMPDIR for ever. Raises: StartFailed for a path too long."""
        folder = Path(tempfile.gettempdir())
        for _ in range(SOCKETS):
            path = folder / str(uuid.uuid4())
            end = socket.socket(socket.AF_UNIX)
            try:
                end.bind(str(path))
            except OSError as error:
                raise StartFailed(f'zmq.error.ZMQError: ipc path "{path}" is longer than 107 characters') from error
            self.sockets.append(end)
        (folder / f"vllm_dist_{uuid.uuid4().hex}").touch()

    def start_core(self, resolved: dict[str, object]) -> None:
        """Raises: StartFailed when the engine core ends before it is ready, KeyboardInterrupt on SIGTERM."""
        read, write = os.pipe()
        command = [sys.executable, "-S", "-m", "vllm.fake.engine_core", str(write), json.dumps(resolved)]
        self.core = subprocess.Popen(command, stdin=subprocess.DEVNULL, pass_fds=[write])
        os.close(write)
        threading.Thread(target=self._listen, args=(read,), daemon=True).start()
        what = self.inbox.get()
        if what == TERM:
            raise KeyboardInterrupt("terminated")
        if what == DEAD:
            raise StartFailed(
                "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}"
            )

    def _listen(self, read: int) -> None:
        with os.fdopen(read, "rb") as pipe:
            for _ in pipe:
                self.inbox.put(READY)
        self.inbox.put(DEAD)

    def stop_core(self) -> None:
        """SIGTERM, and after two seconds SIGKILL."""
        if self.core is None:
            return
        self.core.terminate()
        try:
            self.core.wait(timeout=2)
        except subprocess.TimeoutExpired:
            log.warning("utils.py:653", f"[shutdown] Process manager: force killing EngineCore pid {self.core.pid}")
            self.core.kill()
            self.core.wait()


def banner(args: argparse.Namespace) -> None:
    """The log's first lines: version, model, what was given."""
    logo = "\n".join(["", f"   fake engine  version {__version__}", f"                model   {args.model}", ""])
    log.info("api_utils.py:347", logo)
    default = vars(make_parser().parse_args([]))
    given = {name: value for name, value in vars(args).items() if value != default[name] and name != "model_tag"}
    log.info("api_utils.py:286", f"non-default args: {given}")


def parse(argv: list[str]) -> argparse.Namespace:
    """`--max_model_len` is `--max-model-len`, and the model may come without its flag."""

    def same(arg: str) -> str:
        flag, equals, value = arg.partition("=")
        return flag.replace("_", "-") + equals + value if flag.startswith("--") else arg

    args = make_parser().parse_args([same(arg) for arg in argv])
    args.model = args.model or args.model_tag
    return args


def bring_up(api: ApiServer) -> tuple[Server, Service]:
    """From the parsed flags to an open port. Raises: StartFailed, KeyboardInterrupt."""
    args = api.args
    try:
        server = Server(args.host or "127.0.0.1", args.port)
    except OSError as error:
        raise StartFailed(f"OSError: {error}") from error
    api.wait("config")
    resolved = api.resolve()
    api.leave_sockets()
    resolved.pop("api_key")
    api.start_core(resolved)
    log.info("entry.py:136", "Supported tasks: ['generate']")
    api.wait("server")
    core = api.core
    assert core is not None
    service = Service(
        cues=api.cues,
        model_path=args.model,
        names=tuple(args.served_model_name or [args.model]),
        max_model_len=int(str(resolved["max_model_len"])),
        api_key=key_from(os.environ, args.api_key),
        quiet=frozenset((args.disable_access_log_for_endpoints or "").split(",")),
        kill_engine=lambda: os.kill(core.pid, signal.SIGUSR1),
    )
    host = f"[{args.host}]" if ":" in (args.host or "") else args.host or "127.0.0.1"
    log.info("entry.py:140", f"Starting vLLM server on http://{host}:{args.port}")
    log.info("launcher.py:186", "Available routes are:")
    for route, method in (("/health", "GET"), ("/v1/models", "GET"), ("/v1/chat/completions", "POST")):
        log.info("launcher.py:195", f"Route: {route}, Methods: {method}")
    raw(f"INFO:     Started server process [{os.getpid()}]\nINFO:     Waiting for application startup.\n")
    server.open(service)
    raw("INFO:     Application startup complete.\n")
    return server, service


def flood(size: int) -> None:
    line = "the engine has much to say about nothing in particular, and says it again and again"
    for number in range(size // 130 + 1):
        log.info("loggers.py:335", f"{number:09d} {line}")


def run(api: ApiServer) -> int:
    """Serves until told to stop or until the engine dies; gives the exit code."""
    _, service = bring_up(api)
    if api.cues.log_flood_bytes:
        threading.Thread(target=flood, args=(api.cues.log_flood_bytes,), daemon=True).start()
    what = api.inbox.get()
    if what == DEAD:
        service.dead.set()
        frame = ("vllm/v1/engine/async_llm.py", 849, "output_handler", "outputs = await engine_core.get_output_async()")
        text = traceback_text([frame], f"vllm.v1.engine.exceptions.EngineDeadError: {ENGINE_DEAD}")
        log.error("async_llm.py:906", "AsyncLLM output_handler failed.\n" + text)
        # the requests in flight get their 500 before the process goes
        threading.Event().wait(0.3)
    log.info("launcher.py:254", "[shutdown] API server: shutdown triggered")
    log.info("launcher.py:270", "[shutdown] API server: stopping engine client mode=abort timeout=0s")
    api.stop_core()
    raw("INFO:     Shutting down\nINFO:     Application shutdown complete.\n")
    if what == DEAD and api.cues.exit_code is not None:
        return api.cues.exit_code
    return 0


def main() -> int:
    args = parse(sys.argv[1:])
    cues_module.only_for(args.served_model_name or [args.model])
    api = ApiServer(cues_module.read(), args)
    if api.cues.ignore_term:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    else:
        signal.signal(signal.SIGTERM, lambda *_: api.inbox.put(TERM))
        signal.signal(signal.SIGINT, lambda *_: api.inbox.put(TERM))
    banner(args)
    if api.cues.crash_log:
        raw(Path(api.cues.crash_log).read_text())
        return 1 if api.cues.exit_code is None else api.cues.exit_code
    try:
        return run(api)
    except StartFailed as error:
        api.stop_core()
        frames = [
            (_ENTRY, 177, "run_server", "await run_server_worker(listen_address, sock, args, **uvicorn_kwargs)"),
            (_ENTRY, 61, "build_async_engine_client", "async with build_async_engine_client_from_engine_args("),
        ]
        raw(traceback_text(frames, str(error)) + "\n")
        return 1 if api.cues.exit_code is None else api.cues.exit_code
    except KeyboardInterrupt as error:
        api.stop_core()
        raw(f"KeyboardInterrupt: {error}\n")
        return 130


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    # request threads may still hold connections: the process goes without them, as uvicorn's does
    os._exit(code)
