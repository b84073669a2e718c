"""`gough robots` and `gough check`."""

from __future__ import annotations

from gough.cli.common import Json, Robot, TieLegs, print_json, progress, say, table
from gough.mechanism import bundled_robots, load_robot


def robots_verb(as_json: Json = False) -> None:
    """List the bundled robots.

    Example:  gough robots
    """
    found = bundled_robots()
    if as_json:
        print_json([{"name": name, "title": title} for name, title in found])
        return
    table("", ["robot", "what it is"], [[name, title] for name, title in found])


def check_verb(robot: Robot, tie_legs: TieLegs = False, as_json: Json = False) -> None:
    """Assemble a robot and say what can be identified: mobility, closure, singularities, base parameters.

    Example:  gough check five_bar
    """
    from gough.engine import Model, check

    with progress(f"checking {robot}", quiet=as_json) as update:
        model = Model(load_robot(robot))
        update(0.3)
        result = check(model, tie_legs=tie_legs)
    if as_json:
        print_json(result.to_dict())
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
