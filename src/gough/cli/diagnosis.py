"""`gough diagnose`."""

from __future__ import annotations

from typing import Annotated

import typer

from gough.cli.common import Force, Json, Robot, TieLegs, print_json, progress, say
from gough.cli.results import Description, Logs


def diagnose_verb(
    robot: Robot,
    logs: Logs,
    validate: Annotated[list[str] | None, typer.Option(help="Logs to judge corrections on.")] = None,
    tie_legs: TieLegs = False,
    description: Description = None,
    limits: Annotated[bool, typer.Option("--limits", help="Also list how large each mistake must be to show.")] = False,
    apply: Annotated[bool, typer.Option(
        "--apply", help="Write a corrected description or robot file beside the old one.")] = False,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Find the usual mistakes in logs and robot file: what, where, how large, and what to change.

    Example:  gough diagnose five_bar log.csv --validate other.csv
    """
    from gough.identification.diagnosis.mistakes import limits_table
    from gough.study import verbs

    with progress(f"diagnosing {robot}", quiet=as_json) as update:
        update(0.1)
        found, written = verbs.diagnose(robot=robot, logs=logs, validate=validate or (), tie_legs=tie_legs,
                                        description=description, apply=apply, force=force)
    if as_json:
        print_json(found.to_dict() | {"written": [str(path) for path in written]})
        return
    say(found.summary())
    if limits:
        say("\n" + limits_table(found.limits))
    for path in written:
        say(f"wrote {path}")
    if apply and not written:
        say("nothing that a description or a robot file can express was found; nothing was written")
