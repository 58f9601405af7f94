"""`holddown status NAME --watch`."""

import json
import sys
from collections import deque

import click
from rich.console import Console
from rich.live import Live as Screen
from rich.text import Text

from holddown import wiring
from holddown.app.live import WINDOW_S, Live, Tick
from holddown.app.up import Doors
from holddown.base.codec import dump
from holddown.base.units import count_text, duration_text
from holddown.cli.views import load_lines
from holddown.explain.drawing import spark
from holddown.explain.figures import figure_text
from holddown.remember.record import Deployment

_EVERY_S = 2.0
_SPEEDS = 40


def watch(deployment: Deployment, doors: Doors, *, as_json: bool) -> Tick:
    """Until it is over, or Ctrl-C ends the view: a document per line, a live display, or plain lines where stdout is no
    terminal."""
    live = Live(deployment, doors.store, wiring.endpoint(deployment.birth), doors.clock)
    speeds: deque[float] = deque(maxlen=_SPEEDS)
    tick = live.tick()
    with Screen(console=Console(highlight=False), auto_refresh=False) as screen:
        try:
            while True:
                if tick.recent_tok_s is not None:
                    speeds.append(tick.recent_tok_s)
                if as_json:
                    click.echo(json.dumps(dump(tick), ensure_ascii=False))
                elif sys.stdout.isatty():
                    screen.update(Text("\n".join(tick_lines(tick, tuple(speeds)))), refresh=True)
                else:
                    click.echo("\n".join(tick_lines(tick, ())))
                if tick.is_over:
                    return tick
                doors.clock.sleep(_EVERY_S)
                tick = live.tick()
        except KeyboardInterrupt:
            return tick


def tick_lines(tick: Tick, speeds: tuple[float, ...]) -> list[str]:
    """speeds: the last ones, oldest first; none for a view without a curve."""
    why = f": {tick.why}" if tick.why else ""
    lines = [f"{tick.name} is {tick.state} for {duration_text(tick.for_s)}{why}"]
    if tick.starts > 1:
        lines.append(f"  restart   start {tick.starts}; holddown status {tick.name} tells what the others ended of")
    if tick.answers is None:
        return lines
    lines += load_lines(tick.load)
    if tick.output_tokens is None:
        lines.append("  tokens    the engine does not count them for us")
    else:
        recent = "-" if tick.recent_tok_s is None else figure_text(tick.recent_tok_s)
        lines.append(f"  tok/s     {recent} over the last {WINDOW_S:.0f} s  {spark(speeds)}".rstrip())
        mean = f", {figure_text(tick.mean_tok_s)} tok/s since it serves" if tick.mean_tok_s is not None else ""
        lines.append(f"  tokens    {count_text(tick.output_tokens)}{mean}")
    lines.append(f"  health    {'it answers' if tick.answers else 'it does NOT answer /health'}")
    return lines
