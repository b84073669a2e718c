"""`gough design` and `gough simulate`."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from gough.cli.common import Force, Json, Robot, TieLegs, print_json, progress, say, status, table


class Coordinates(StrEnum):
    """Whose Fourier series a design optimises."""

    task = "task"
    actuated = "actuated"


class Criterion(StrEnum):
    """What a design minimises."""

    d = "d"
    cond = "cond"
    a = "a"
    e = "e"


class ControllerName(StrEnum):
    """Control laws of the virtual robot."""

    pid = "pid"
    pid_plus = "pid+"
    feedforward = "feedforward"
    ctc = "ctc"


class Switch(StrEnum):
    """On or off."""

    on = "on"
    off = "off"


class PlantName(StrEnum):
    """Whose equations the virtual robot obeys."""

    gough = "gough"
    pinocchio = "pinocchio"
    mujoco = "mujoco"


def design_verb(
    robot: Robot,
    harmonics: Annotated[int, typer.Option(help="Harmonics of each coordinate.")] = 5,
    frequency: Annotated[float | None, typer.Option(help="Fundamental [Hz]; from the limits by default.")] = None,
    coordinates: Annotated[Coordinates | None, typer.Option(help="Coordinates of the series.")] = None,
    criterion: Annotated[Criterion, typer.Option(
        help="d: -ln det of the information; cond: condition number; a, e: siblings.")] = Criterion.d,
    tie_legs: TieLegs = False,
    at_rest: Annotated[bool, typer.Option("--at-rest", help="Start and end each period at rest.")] = False,
    optimise_frequency: Annotated[bool, typer.Option("--optimise-frequency", help="Let the frequency vary.")] = False,
    starts: Annotated[int, typer.Option(help="Optimisations from different random trajectories.")] = 4,
    iterations: Annotated[int, typer.Option(help="Most steps of each optimisation.")] = 300,
    seed: Annotated[int, typer.Option(help="Of the random numbers.")] = 0,
    output: Annotated[str | None, typer.Option("-o", "--output", help="Write the trajectory as JSON.")] = None,
    csv: Annotated[str | None, typer.Option(
        help="Write it as a machine runs it: at the controller's rate, from rest to rest, motors too (.csv).")] = None,
    periods: Annotated[int, typer.Option(help="Whole periods at full pace in the CSV.")] = 10,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Design the most informative trajectory inside the robot's limits, verified on a ten times finer grid.

    Example:  gough design five_bar -o trajectory.json
    """
    from gough.study import verbs

    with status(f"designing for {robot}", quiet=as_json) as update:
        result = verbs.design(
            robot=robot, harmonics=harmonics, frequency=frequency, criterion=criterion.value, tie_legs=tie_legs,
            at_rest=at_rest, coordinates=None if coordinates is None else coordinates.value,
            optimise_frequency=optimise_frequency, seed=seed, starts=starts, iterations=iterations, output=output,
            csv=csv, periods=periods, force=force,
            progress=lambda n, value, worst: update(f"step {n}, criterion {value:.4g}, violation {worst:.1e}"))
    if as_json:
        print_json(result.to_dict())
        return
    say(result.summary())
    for path in filter(None, (output, csv)):
        say(f"wrote {path}")


def simulate_verb(
    robot: Robot,
    trajectory: Annotated[str, typer.Option(help="Trajectory of `gough design` (.json), or its table (.csv).")],
    controller: Annotated[ControllerName, typer.Option(help="Control law.")] = ControllerName.ctc,
    plant: Annotated[PlantName, typer.Option(help="gough, or an independent one.")] = PlantName.gough,
    payload: Annotated[str | None, typer.Option(help="Payload of the robot file, or none.")] = None,
    periods: Annotated[int | None, typer.Option(help="Periods to record; 10 of a trajectory that repeats.")] = None,
    noise: Annotated[Switch, typer.Option(help="Sensor noise of the robot file.")] = Switch.on,
    seed: Annotated[int, typer.Option(help="Of the noise.")] = 0,
    output: Annotated[str | None, typer.Option("-o", "--output", help="Write the log (.csv, .csv.gz or .npz).")] = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Run the virtual robot along a trajectory and write the log its controller would have saved.

    Example:  gough simulate five_bar --trajectory trajectory.json -o log.csv
    """
    from gough.study import verbs

    with progress(f"simulating {robot}", quiet=as_json) as update:
        result = verbs.simulate(
            robot=robot, trajectory=trajectory, controller=controller.value, plant=plant.value, periods=periods,
            payload=None if payload in (None, "none") else payload, noise=noise is Switch.on, seed=seed,
            output=output, force=force, progress=update)
    facts = result.to_dict()
    if as_json:
        print_json(facts)
        return
    table(f"{facts['robot']}: {facts['seconds']:.2f} s on the {facts['plant']} plant under {facts['controller']}",
          ["motor", "tracking rms", "tracking max", "unit"],
          [[name, f"{facts['tracking_rms'][name]:.3e}", f"{facts['tracking_max'][name]:.3e}",
            result.model.mechanism.joint(name).unit] for name in facts["tracking_rms"]])
    say(f"loop error {facts['loop_error']:.1e} m or rad, saturated samples {facts['saturated_samples']}")
    if output is not None:
        say(f"wrote {output}")
