"""`python -m sglang.launch_server`: the server process of the stand-in."""

import json
import os
import select
import signal
import subprocess
import sys
import threading
from dataclasses import dataclass, field, replace
from pathlib import Path

from vllm.fake import cues as cues_module
from vllm.fake.log import raw
from vllm.fake.server import Handler, Server, Service

from sglang.fake.log import say
from sglang.srt.models.llama import EntryClass
from sglang.srt.server_args import prepare_server_args

NAMES = [each.__name__ for each in EntryClass]


@dataclass
class State:
    """children: scheduler first. ready: the warm-up is over. stopping: SIGTERM came."""

    children: "list[subprocess.Popen[bytes]]" = field(default_factory=list)
    ready: threading.Event = field(default_factory=threading.Event)
    stopping: threading.Event = field(default_factory=threading.Event)

    def kill_tree(self) -> None:
        """As the real one ends, whatever the reason: everybody by SIGKILL, itself last."""
        for child in self.children:
            child.kill()
        os.kill(os.getpid(), signal.SIGKILL)


class SglangHandler(Handler):
    """SGLang's paths beside those that both engines have; answers under any model name."""

    state: State

    def get(self, path: str) -> None:
        up = self.state.ready.is_set() and not self.service.dead.is_set()
        if path in ("/health", "/health_generate", "/ready"):
            self._send(200 if up else 503, b"", "text/plain")
        elif path in ("/get_server_info", "/server_info"):
            self._json(200, {"model_path": self.service.model_path, "max_total_num_tokens": 8192})
        elif path == "/metrics":
            self._send(200, _metrics(self.service).encode(), "text/plain; version=0.0.4")
        else:
            super().get(path)


def _metrics(service: Service) -> str:
    labels = f'{{model_name="{service.names[0]}"}}'
    rows = (
        ("gauge", "sglang:num_running_reqs", service.running),
        ("gauge", "sglang:token_usage", 0),
        ("counter", "sglang:prompt_tokens_total", service.prompt_tokens),
        ("counter", "sglang:generation_tokens_total", service.generated_tokens),
    )
    return "".join(f"# TYPE {name} {kind}\n{name}{labels} {float(value)}\n" for kind, name, value in rows)


def start(state: State, title: str, args: dict[str, object]) -> int:
    """Gives the pipe on which the child says that it is up."""
    read, write = os.pipe()
    command = [sys.executable, "-m", "sglang.fake.child", title, str(write), json.dumps(args)]
    state.children.append(subprocess.Popen(command, stdin=subprocess.PIPE, pass_fds=[write]))
    os.close(write)
    return read


def checked(args: dict[str, object]) -> dict[str, object]:
    config = json.loads((Path(str(args["model_path"])) / "config.json").read_text())
    if not set(config.get("architectures") or []) & set(NAMES):
        raise SystemExit(f"ValueError: Model architectures {config.get('architectures')} are not supported for now.")
    return {**args, "context_length": args["context_length"] or config.get("max_position_embeddings") or 2048}


def main() -> None:
    args = checked(vars(prepare_server_args(sys.argv[1:])))
    cues, state = cues_module.read(), State()
    if cues.answer == "good":
        cues = replace(cues, answer="any-model")

    def failed(*_: object) -> None:
        say("Received sigquit from a child process. It usually means the child failed.")
        state.kill_tree()

    signal.signal(signal.SIGQUIT, failed)
    signal.signal(signal.SIGTERM, lambda *_: state.stopping.set())
    say("Attention backend not specified. Use torch_native backend by default.")
    shown = ", ".join(f"{name}={value!r}" for name, value in args.items())
    say(f"server_args=ServerArgs({shown})")
    pipes = [
        *(start(state, f"sglang::scheduler_TP{rank}", args) for rank in range(int(str(args["tp_size"])))),
        start(state, "sglang::detokenizer", args),
    ]
    for pipe in pipes:
        while not select.select([pipe], [], [], 0.05)[0]:
            if state.stopping.is_set():
                state.kill_tree()
        if not os.read(pipe, 16):
            threading.Event().wait()  # it failed: its signal is on the way
    service = Service(
        cues=cues,
        model_path=str(args["model_path"]),
        names=(str(args["served_model_name"] or args["model_path"]),),
        max_model_len=int(str(args["context_length"])),
        api_key=str(args["api_key"] or ""),
        quiet=frozenset(args["uvicorn_access_log_exclude_prefixes"] or ()),  # type: ignore[call-overload]
        kill_engine=lambda: os.kill(os.getpid(), signal.SIGQUIT),
    )
    server = Server(str(args["host"]), int(str(args["port"])))
    raw(f"INFO:     Started server process [{os.getpid()}]\nINFO:     Waiting for application startup.\n")
    server.open(service, type("Bound", (SglangHandler,), {"state": state}))
    raw("INFO:     Application startup complete.\n")
    # the port is open before the warm-up ends, and /health says so
    threading.Event().wait(cues.load_seconds * cues_module.SHARES["server"])
    state.ready.set()
    say("The server is fired up and ready to roll!")
    state.stopping.wait()
    say("SIGTERM received. signum=15 frame=None. Draining requests and shutting down...")
    say("Gracefully exiting... Remaining number of requests 0. Remaining requests remaining_rids=[].")
    state.kill_tree()


if __name__ == "__main__":
    main()
