"""`gough robots` and `gough check`."""

from __future__ import annotations

from typing import Annotated

import typer

from gough.cli.common import Json, Robot, TieLegs, print_json, progress, say, table
from gough.mechanism import bundled_robots


def robots_verb(as_json: Json = False) -> None:
    """List the bundled robots.

    Example:  gough robots
    """
    found = bundled_robots()
    if as_json:
        print_json([{"name": name, "title": title} for name, title in found])
        return
    table("", ["robot", "what it is"], [[name, title] for name, title in found])


def check_verb(
    robot: Robot,
    trajectory: Annotated[str | None, typer.Option(help="Trajectory file: what will this motion tell?")] = None,
    log: Annotated[str | None, typer.Option(help="The same for the motion of a log.")] = None,
    description: Annotated[str | None, typer.Option(help="TOML that says which column of the log is which.")] = None,
    periods: Annotated[int, typer.Option(help="Repetitions of the motion to reckon with.")] = 10,
    tie_legs: TieLegs = False,
    as_json: Json = False,
) -> None:
    """Assemble a robot and say what can be identified: mobility, closure, singularities, base parameters.

    With a trajectory or a log also what that motion will tell: sigma of every parameter, weak directions, and how large
    a mistake (delay, offset, tilt, ...) has to be to be noticed.

    Example:  gough check five_bar
    """
    from gough.study import verbs

    with progress(f"checking {robot}", quiet=as_json) as update:
        result = verbs.check(robot=robot, tie_legs=tie_legs)
        update(0.3)
        ahead = None
        if trajectory is not None or log is not None:
            ahead = verbs.foresee(robot=robot, trajectory=trajectory, log=log, description=description,
                                  periods=periods, tie_legs=tie_legs)
    if as_json:
        print_json(result.to_dict() | ({} if ahead is None else {"experiment": ahead.to_dict()}))
        return
    if ahead is not None:
        say(ahead.summary())
        return
    say(f"{result.robot}: {result.title}" if result.title else result.robot)
    say(f"  degrees of freedom    {result.degrees_of_freedom}")
    say(f"  motors                {len(result.actuated)}: {', '.join(result.actuated)}")
    say(f"  coordinates           {len(result.coordinates)}" +
        (f", of which task: {', '.join(result.task)}" if result.task else ""))
    say("  at home [m or rad]    " + ", ".join(f"{name} = {result.home[name]:.4g}"
                                               for name in dict.fromkeys((*result.actuated, *result.task))))
    say(f"  closure residual      {result.closure_residual:.1e} m or rad at home")
    type1 = "no platform" if result.type1_margin is None else f"{result.type1_margin:.3f}"
    say(f"  singularity margins   type 1 {type1}, type 2 {result.type2_margin:.3f} (0 singular, 1 best)")
    say(f"  standard parameters   {result.standard_parameters}" + (" (legs tied)" if result.tied else ""))
    say(f"  base parameters       {len(result.base)} (singular value gap {result.base.gap:.0e})")
    for name, formula in result.base.regrouping().items():
        say(f"    {name} = {formula}" if name != formula else f"    {name}")
