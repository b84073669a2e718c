"""Verbs that make motions and logs: designed trajectories, virtual robots, virtual fleets."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated

from gough.app.studies.run import FORMAT
from gough.app.studies.verbs import Done, Force, Progress, Robot, from_file, to_file
from gough.core.documents import toml_text
from gough.core.errors import InvalidInput
from gough.core.files import require_free, require_free_folder, write_text
from gough.core.options import About
from gough.core.trajectory import Fourier, Sampled, load_trajectory
from gough.engine import as_model
from gough.excitation import Design, DesignSettings, design as design_trajectory
from gough.excitation.design import Run
from gough.excitation.ramps import sample_with_ramps
from gough.mechanism import Noise
from gough.virtual import SimulateSettings, Simulation, record, simulate as simulate_robot
from gough.virtual.fleet_logs import VirtualFleet, Wrong

PERIODS = 10  # of a trajectory that repeats, unless asked for
# of the virtual fleet:
FIRST = datetime(2026, 3, 2, 6, tzinfo=UTC)
DRIFT = 0.2  # relative change of dry friction over the whole time
GAIN = 1.1  # of a drive that is wrong
HOMED = 0.03  # error of an encoder that was homed wrongly, as part of the range of its motor


def design(
    robot: Robot,
    settings: DesignSettings,
    *,
    output: Annotated[str | None, to_file("Write the trajectory (.json).")] = None,
    csv: Annotated[
        str | None,
        from_file(
            "Write it as a machine runs it: at the controller's rate, from rest to rest, motors "
            "too (.csv)."
        ),
    ] = None,
    periods: Annotated[int, About(help="Whole periods at full pace in that table.", least=1)] = 10,
    resume: Annotated[
        str | None, from_file("Go on from this trajectory (.json); it may be the one to write.")
    ] = None,
    force: Force = False,
    progress: Progress | None = None,
) -> Design:
    """Do what `gough design` does; see `VERBS`."""
    require_free(output, force or output == resume)
    require_free(csv, force)
    if output is not None and csv is not None and Path(output).resolve() == Path(csv).resolve():
        raise InvalidInput(f"JSON and CSV cannot both go to '{output}'; choose two names")
    model = as_model(robot)
    runs = None
    if resume is not None:
        earlier = load_trajectory(resume, robot=model.mechanism.name)
        if not isinstance(earlier, Fourier):
            raise InvalidInput(
                f"'{resume}' is no trajectory of `gough design`, which has a frequency and "
                f"harmonics"
            )
        runs = [Run(start=earlier)]
    steps = settings.starts * settings.iterations
    result = design_trajectory(
        model,
        settings,
        runs=runs,
        progress=None
        if progress is None
        else (lambda step, value, worst: progress(min(step / steps, 1.0))),
    )
    if output is not None:
        result.save(output)
    if csv is not None:
        sample_with_ramps(model, result.trajectory, periods).to_csv(csv, model.mechanism.noise.rate)
    return result


def simulate(
    robot: Robot,
    settings: SimulateSettings,
    *,
    trajectory: Annotated[
        str, from_file("Trajectory of `gough design` (.json), or its table (.csv).")
    ],
    noise: Annotated[bool, About(help="Sensor noise of the robot file.")] = True,
    seed: Annotated[int, About(help="Seed of the noise.", least=0)] = 0,
    output: Annotated[str | None, to_file("Write the log (.csv, .csv.gz, .npz or .mcap).")] = None,
    force: Force = False,
    progress: Progress | None = None,
) -> Simulation:
    """Do what `gough simulate` does; see `VERBS`."""
    require_free(output, force)
    model = as_model(robot)
    path = load_trajectory(trajectory, robot=model.mechanism.name)
    if isinstance(path, Sampled):  # a table for a controller holds the platform and the motors
        task = model.loops.names("task")
        path = path.only(
            task if task and set(task) <= set(path.coordinates) else model.mechanism.actuated
        )
    if settings.periods is None and path.period:
        settings = replace(settings, periods=PERIODS)
    simulation = simulate_robot(model, path, settings, progress=progress)
    if output is not None:
        record(simulation, noise=None if noise else Noise(), seed=seed).save(
            output, settings={**settings.to_dict(), "noise": noise, "seed": seed}
        )
    return simulation


def generate(
    robot: Robot,
    *,
    output: Annotated[str, to_file("Folder for everything it makes.")] = "fleet",
    robots: Annotated[int, About(help="How many robots.", least=3)] = 50,
    days: Annotated[int, About(help="Days, a log each.", least=2)] = 30,
    drifting: Annotated[int, About(help="Robots whose dry friction drifts.", least=0)] = 4,
    seed: Annotated[int, About(help="Seed of the random generator.", least=0)] = 0,
    force: Force = False,
    progress: Progress | None = None,
) -> Done:
    """Do what `gough generate` does; see `VERBS`."""
    if drifting + 3 > robots:
        raise InvalidInput(
            f"{drifting} drifting robots and three more that are wrong do not fit among {robots}"
        )
    folder = require_free_folder(output, force)
    mechanism = (model := as_model(robot)).mechanism
    motors, step = mechanism.actuated, max(1, robots // (drifting + 3))
    low, high = mechanism.joint(motors[0]).limits.position or (-1.0, 1.0)
    second, day_loaded = motors[1 % len(motors)], days // 2
    off, unit = HOMED * (high - low), mechanism.joint(motors[0]).unit
    drift = {
        k * step: (motors[k % len(motors)], DRIFT * (1 if k % 2 else -1)) for k in range(drifting)
    }
    # the three that are wrong: a gain, a load that no log mentions, an encoder
    strange, loaded, homed = ((drifting + k) * step for k in range(3))
    wrong = Wrong(
        drift=drift,
        gain={strange: (second, GAIN)},
        encoder={homed: (motors[0], off)},
        load={loaded: (day_loaded,)} if mechanism.payloads else {},
    )
    virtual = VirtualFleet(model=model, days=days, seed=seed, wrong=wrong)
    names = [f"r{k:0{len(str(robots - 1))}d}" for k in range(robots)]
    table = ["log,robot,time,temperature"]
    (folder / "logs").mkdir(parents=True, exist_ok=True)
    for k, name in enumerate(names):
        for day in range(days):
            log = f"logs/{name}-day{day:02d}.npz"
            virtual.record(k, day).save(folder / log)
            when = (FIRST + timedelta(days=day, minutes=k)).isoformat()
            table.append(f"{log},{name},{when},{virtual.temperature(k, day):.2f}")
        if progress is not None:
            progress((k + 1) / robots)
    truth = [
        "robot,kind,text",
        *(
            f"{names[k]},drift,dry friction of {motor} changes by {100 * size:+.0f} %"
            for k, (motor, size) in drift.items()
        ),
        f"{names[strange]},mistake,effort of {second} is recorded {GAIN:g} times",
        f"{names[homed]},mistake,position of {motors[0]} is recorded {off:+.3g} {unit} off",
        *(
            f"{names[k]},mistake,carries a load on day {day_loaded} that no log mentions"
            for k in wrong.load
        ),
    ]
    fleet = {
        "format": FORMAT,
        "robot": robot,
        "logs": "logs.csv",
        "tie_legs": bool(mechanism.ties),
        "factors": "factors",
    }
    texts = {
        "logs.csv": "\n".join(table) + "\n",
        "fleet.toml": toml_text(fleet),
        "truth.csv": "\n".join(truth) + "\n",
    }
    for name, text in texts.items():
        write_text(folder / name, text)
    return Done([folder / name for name in texts])
