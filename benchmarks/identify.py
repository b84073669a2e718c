"""What `identify` costs with defaults: processor time of a second call, of a whole process with one
call (imports and reading included), and the estimate.

    python benchmarks/identify.py [delta] [pendulum] [upv] [emps] [dvrk] [tx40] [panda]
        [--against CHECKOUT] [--small]

Five logs of a Delta of 5 s at 1 kHz whose inertias and frictions differ from its file, and the
measured logs of real robots (if they lie beside the project): four of a double pendulum that its
model fits badly, and if they are named all logs of the others.
`--against` runs the source of another checkout on the same files too, in turn with this one.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

TURNS = 3  # runs of each checkout
DELTA_LOGS = 5
DELTA_SAMPLES = 5000
FREQUENCIES = np.array([0.6, 1.1, 1.9])  # of the motion [Hz]
AMPLITUDE = 0.03  # of each sine [m]
PARAMETER_SPREAD = 0.15  # by which the truth differs from the file
HERE = Path(__file__).resolve().parents[1]
Row = tuple[str, str, str, str]


def write_delta(folder: Path, samples: int) -> None:
    """Write logs of a Delta on random smooth motions."""
    from gough.engine import Model
    from gough.logs.recording import Recording
    from gough.mechanism import load_robot

    model = Model(load_robot("delta"))
    noise = model.mechanism.noise
    rng = np.random.default_rng(1)
    nominal = model.standard_values()
    truth = nominal * (1 + PARAMETER_SPREAD * rng.uniform(-1, 1, len(nominal)))
    task = model.loops.partitions["task"].independent
    time_axis = np.arange(samples) / noise.rate
    w = 2 * np.pi * FREQUENCIES
    for k in range(DELTA_LOGS):
        size = AMPLITUDE * rng.uniform(0.5, 1.0, (len(w), len(task)))
        angle = w * time_axis[:, None]
        angle = angle[:, :, None] + rng.uniform(0, 2 * np.pi, (len(w), len(task)))
        pose = model.home[task] + (size * np.sin(angle)).sum(axis=1)
        velocity = (size * w[:, None] * np.cos(angle)).sum(axis=1)
        acceleration = -(size * w[:, None] ** 2 * np.sin(angle)).sum(axis=1)
        motion = model.kinematics.motion(time_axis, pose, velocity, acceleration, "task")
        effort = model.inverse_dynamics(motion, truth)
        position = motion.q[:, model.actuated]
        Recording(
            joints=model.mechanism.actuated,
            time=time_axis,
            position=position + noise.position * rng.standard_normal(position.shape),
            position_units=("rad",) * position.shape[1],
            effort=effort + noise.effort * rng.standard_normal(effort.shape),
        ).save(folder / f"log{k}.npz")
    (folder / "robot.txt").write_text("delta")


def write_real(folder: Path, robot: str) -> None:
    """Write the measured logs of a real robot, and its robot file."""
    sys.path[:0] = [str(HERE / "tests"), str(HERE / "tests" / "real")]
    import machines

    from gough.logs.readers import read_recording

    text = ""
    if robot == "pendulum":
        text = machines.PENDULUM
        logs = [machines.pendulum_log(name) for name in machines.PENDULUM_LOGS[:4]]
    elif robot == "emps":
        text = machines.EMPS
        logs = [machines.emps_log()]
    elif robot == "tx40":
        text = machines.tx40_text()
        logs = [machines.tx40_log()]
    elif robot == "upv":
        logs = [machines.upv_log(run) for run in machines.UPV_RUNS]
    elif robot == "panda":
        text = (machines.DATA / "panda_2019" / "panda.toml").read_text()
        logs = [read_recording(machines.DATA / "panda_2019" / "train.csv.gz")]
    else:
        folder_of_logs = machines.DATA / "dvrk_psm1"
        text = (folder_of_logs / "psm3.toml").read_text()
        logs = [read_recording(folder_of_logs / f"psm1_{k}.csv.gz") for k in range(1, 5)]
    for k, log in enumerate(logs):
        log.save(folder / f"log{k}.npz")
    file = folder / f"{robot}.toml"
    if text:
        file.write_text(text)
    (folder / "robot.txt").write_text(str(file) if text else robot)


def run(folder: Path, profile: str = "") -> None:
    """Identify twice; print processor times and the estimate. Runs with older versions too."""
    import gough

    robot = gough.load_robot((folder / "robot.txt").read_text())
    logs = [gough.read_recording(str(path)) for path in sorted(folder.glob("log*.npz"))]
    gough.identify(robot, logs)
    whole_process = time.process_time()
    result = gough.identify(robot, logs)
    second_call = time.process_time() - whole_process
    if profile:
        import cProfile
        import pstats

        watch = cProfile.Profile(time.process_time)
        watch.runcall(gough.identify, robot, logs)
        pstats.Stats(watch, stream=sys.stderr).sort_stats(profile).print_stats(80)
    estimate = result.estimate
    print(whole_process, second_call)
    print(*estimate.values.tolist())
    print(*estimate.std.tolist())


class Measured(NamedTuple):
    """What a run took and gave."""

    process: float  # processor time from the start of Python to the first result [s]
    second: float  # of a second call
    values: tuple[float, ...]
    std: tuple[float, ...]


def measure(folder: Path, checkout: Path) -> Measured:
    """Identify in a new process with the source of a checkout; bytecode is kept in the folder."""
    environment = dict(os.environ)
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    environment["PYTHONPYCACHEPREFIX"] = str(folder / "bytecode")
    environment["PYTHONPATH"] = str(checkout / "src")
    done = subprocess.run(
        [sys.executable, __file__, "run", str(folder)],
        check=True,
        capture_output=True,
        text=True,
        env=environment,
    )
    seconds, values, std = done.stdout.splitlines()
    process, second = map(float, seconds.split())
    return Measured(
        process, second, tuple(map(float, values.split())), tuple(map(float, std.split()))
    )


def compared(name: str, folder: Path, other: Path | None, turns: int) -> Row:
    """Return a row: what, this version, the other one, remark."""
    ours = []
    theirs = []
    for _ in range(turns):
        ours.append(measure(folder, HERE))
        if other is not None:
            theirs.append(measure(folder, other))
    second = min(run.second for run in ours)
    process = min(run.process for run in ours)
    here = f"{second:.2f} s ({process:.2f} s a process with one call)"
    if not theirs:
        return name, here, "-", f"{len(ours[0].values)} parameters"
    their_second = min(run.second for run in theirs)
    their_process = min(run.process for run in theirs)
    peer = (
        f"{their_second:.2f} s ({their_process:.2f} s): {their_second / second:.2f} "
        f"({their_process / process:.2f}) times as long"
    )
    remark = "other parameters"
    if len(ours[0].values) == len(theirs[0].values):
        shift = np.abs(np.subtract(ours[0].values, theirs[0].values)) / np.array(ours[0].std)
        remark = f"estimates differ by at most {shift.max():.2g} standard errors"
    return name, here, peer, remark


def main(
    samples: int = DELTA_SAMPLES,
    other: Path | None = None,
    turns: int = TURNS,
    robots: Sequence[str] = ("delta", "pendulum"),
) -> list[Row]:
    """Return rows: what, this version, the other one, remark."""
    return list(_rows(samples, other, turns, robots))


def _rows(samples: int, other: Path | None, turns: int, robots: Sequence[str]) -> Iterator[Row]:
    for robot in robots:
        name = f"`identify` of {robot} logs, second call"
        command = [sys.executable, __file__, "write_real"]
        if robot == "delta":
            name = f"`identify` of delta logs of {samples} samples, second call"
            command[-1] = "write_delta"
        elif not (HERE.parent / "shared/data").is_dir():
            continue
        with tempfile.TemporaryDirectory() as folder:
            what = str(samples) if robot == "delta" else robot
            subprocess.run([*command, folder, what], check=True)
            yield compared(name, Path(folder), other, turns)


if __name__ == "__main__":
    if sys.argv[1:2] == ["write_delta"]:
        write_delta(Path(sys.argv[2]), int(sys.argv[3]))
    elif sys.argv[1:2] == ["write_real"]:
        write_real(Path(sys.argv[2]), sys.argv[3])
    elif sys.argv[1:2] == ["run"]:
        run(Path(sys.argv[2]), *sys.argv[3:])
    else:
        words = sys.argv[1:]
        other = None
        if "--against" in words:
            place = words.index("--against")
            other = Path(words[place + 1]).resolve()
            del words[place : place + 2]
        small = "--small" in words
        named = [word for word in words if word != "--small"] or ["delta", "pendulum"]
        for row in _rows(1000 if small else DELTA_SAMPLES, other, 1 if small else TURNS, named):
            print(" | ".join(row), flush=True)
