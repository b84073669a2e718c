"""Show a robot in the browser, move it, and play a log with measured and predicted efforts beside it.

Example:  gough view five_bar --log run.csv --result result
"""

from __future__ import annotations

from typing import Annotated

import typer

from gough.cli.common import say
from gough.identification.result import load_identification
from gough.mechanism import load_robot
from gough.study.data import read_logs
from gough.view.playback import playback
from gough.view.posture import Posture
from gough.view.window import Window


def view(
    robot: Annotated[str, typer.Argument(help="Name of a bundled robot or path of a robot file.")],
    log: Annotated[list[str] | None, typer.Option(help="A log to play; may be given again.")] = None,
    result: Annotated[str | None, typer.Option(
        help="Folder that `gough identify -o` wrote: its logs, or its prediction of `--log`.")] = None,
    description: Annotated[str | None, typer.Option(help="TOML that says which column of a log is which.")] = None,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port; the next free one if it is taken.")] = 8080,
) -> None:
    """Show a robot until Ctrl-C."""
    posture = Posture(load_robot(robot))
    found = None if result is None else load_identification(result)
    if log and posture.model is not None:
        recordings = read_logs(log, description, posture.model)
        fits = [playback(posture.model, recording, found) for recording in recordings]
    else:
        fits = [] if found is None else list(found.fits)
    window = Window(posture, fits, host=host, port=port)
    if posture.problem:
        say(posture.problem)
    say(f"'{robot}' is at {window.address} (Ctrl-C to end)")
    window.run()
