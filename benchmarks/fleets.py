"""Fleets in ordinary motion whose robots are not those of the robot file: false alarms and power.

    python benchmarks/fleets.py [--fleets 200] [--seed N] [--robot five_bar] [--jobs 2] [--small]

The robots pick and place, with a rest at each place. The kind deviates from its robot file by 15 % (standard deviation of each parameter), robots from the
kind by 1 % (inertia) and 10 % (friction), friction depends on temperature. Each seed makes two
fleets from the same logs: one in which all is well, which counts false alarms, and one with a robot
for each fault: Coulomb friction that drifts by 20 %, an effort that is recorded 1.1 times, an
encoder off by 3 % of its range, an undeclared payload on two days, and the log of another robot.
Of the fleets in which all is well it also counts how many 95 % intervals of the mean of the kind
contain the mean of the robots' true parameters.
The first seed is a number of the commit's hash; it and its successors are shared by `--jobs`
processes. Ctrl-C ends with the table of the fleets so far.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path

import numpy as np

from gough.core.arrays import FloatArray
from gough.core.executors import WorkSettings
from gough.engine import Model, base_parameters
from gough.fleets.alerts import Alert
from gough.fleets.fleet import Fleet, fleet
from gough.fleets.history import FleetLog
from gough.mechanism import load_robot
from gough.virtual.fleet_logs import FleetFaults, VirtualFleet
from verdict import seed_of_commit

KIND_SCATTER = 0.15
DRIFT = 0.2
GAIN = 1.1
ENCODER_FRACTION = 0.03  # of the range of the motor
PROGRESS_FLEETS = 10  # after so many a line says how many are done
NORMAL_95 = 1.96  # half of a 95 % interval [standard errors]
FIRST_DAY = 20000  # days since 1970
FAULTS = ("drift", "gain", "encoder", "payload", "other robot's log")


@dataclass(frozen=True)
class Planned:
    """Faults of a fleet, by robot."""

    faults: FleetFaults
    robots: Mapping[str, int]  # robot of each fault
    motor: str  # that has it
    payload_days: tuple[int, ...]
    wrong_day: int  # of the log of another robot
    wrong_from: int  # the robot that recorded it


def planned(model: Model, robots: int, days: int, seed: int) -> Planned:
    """Draw faults, each for a robot of its own."""
    rng = np.random.default_rng([seed, 99])
    motors = model.mechanism.actuated
    motor = str(rng.choice(motors))
    chosen = rng.permutation(robots)
    by_fault = {name: int(chosen[k]) for k, name in enumerate(FAULTS)}
    low, high = model.mechanism.joint(motor).limits.position or (-1.0, 1.0)
    payload_days = tuple(sorted(int(day) for day in rng.choice(days, 2, replace=False)))
    faults = FleetFaults(
        drift={by_fault["drift"]: (motor, DRIFT)},
        gain={by_fault["gain"]: (motor, GAIN)},
        encoder={by_fault["encoder"]: (motor, ENCODER_FRACTION * (high - low))},
        payload={by_fault["payload"]: payload_days} if model.mechanism.payloads else {},
    )
    return Planned(faults, by_fault, motor, payload_days, int(rng.integers(days)), int(chosen[-1]))


def write_logs(virtual: VirtualFleet, robots: int, folder: Path) -> dict[tuple[int, int], str]:
    """Write a log of each robot and day; returns their paths."""
    folder.mkdir()
    paths = {}
    for robot in range(robots):
        for day in range(virtual.days):
            path = virtual.record(robot, day).save(folder / f"r{robot:02d}-{day:02d}.npz")
            paths[robot, day] = str(path)
    return paths


def analysed(
    name: str, virtual: VirtualFleet, paths: Mapping[tuple[int, int], str], factors: Path
) -> Fleet:
    """Return the analysis of a fleet."""
    logs = []
    for (robot, day), path in paths.items():
        logs.append(
            FleetLog(
                path=path,
                robot=f"r{robot:02d}",
                time=86400.0 * (FIRST_DAY + day),
                temperature=virtual.temperature(robot, day),
            )
        )
    return fleet(name, logs, factors=str(factors))


def named(plan: Planned, alerts: Sequence[Alert], days: int) -> dict[str, bool]:
    """Return of each fault whether an alert names robot, fault, place and days."""
    first = np.datetime64("1970-01-01") + FIRST_DAY
    words = {
        "drift": (f"{plan.motor}.fs changes",),
        "gain": (f"effort of {plan.motor}",),
        "encoder": (f"position of {plan.motor}",),
        "payload": tuple(str(first + day) for day in plan.payload_days),
        "other robot's log": (str(first + plan.wrong_day), f"r{plan.wrong_from:02d}"),
    }
    answers = {}
    for fault, robot in plan.robots.items():
        texts = [" ".join([a.text, *a.days]) for a in alerts if a.robot == f"r{robot:02d}"]
        if fault == "payload":
            texts = [text for text in texts if "payload" in text]
        answers[fault] = any(all(word in text for word in words[fault]) for text in texts)
    return answers


def errors_of_mean(found: Fleet, virtual: VirtualFleet, robots: int) -> FloatArray:
    """Return the errors of the mean of the kind over their standard errors, (p,)."""
    base = base_parameters(virtual.model)
    names = virtual.model.mechanism.standard.names
    columns = [names.index(name) for name in base.standard]
    truth = []
    for robot in range(robots):
        for day in range(virtual.days):
            truth.append(base.values(virtual.truth(robot, day)[columns]))
    assert found.parameters == base.names
    error = found.common.common - np.mean(truth, axis=0)
    return np.asarray(error / found.common.common_std)


@dataclass(frozen=True)
class Studied:
    """What was said about the fleets of one seed."""

    clean: Sequence[Alert]  # alerts of the fleet in which all is well
    beside: Sequence[Alert]  # alerts of robots without a fault in the fleet with faults
    answers: Mapping[str, bool]  # whether each fault was named
    alerts: Sequence[Alert]  # of the fleet with faults
    plan: Planned
    mean_errors: FloatArray  # of the mean of the kind, over their standard errors, (p,)


@cache
def model_of(name: str) -> Model:
    """Return the model of a robot, compiled once."""
    return Model(load_robot(name))


def studied(name: str, robots: int, days: int, seed: int) -> Studied:
    """Analyse a fleet in which all is well, and one with faults."""
    model = model_of(name)
    plan = planned(model, robots, days, seed)
    with tempfile.TemporaryDirectory() as folder:
        clean = VirtualFleet(model=model, days=days, seed=seed, kind_scatter=KIND_SCATTER)
        faulty = VirtualFleet(
            model=model, days=days, seed=seed, kind_scatter=KIND_SCATTER, faults=plan.faults
        )
        factors = Path(folder) / "factors"
        paths = write_logs(clean, robots, Path(folder) / "clean")
        well = analysed(name, clean, paths, factors)
        paths = write_logs(faulty, robots, Path(folder) / "faulty")
        wrong = faulty.record(plan.wrong_from, plan.wrong_day)
        robot = plan.robots["other robot's log"]
        wrong.save(paths[robot, plan.wrong_day])
        # the robot that recorded it has another log of that day
        del paths[plan.wrong_from, plan.wrong_day]
        alerts = analysed(name, faulty, paths, factors).alerts
    faulty_robots = {f"r{robot:02d}" for robot in plan.robots.values()}
    beside = [alert for alert in alerts if alert.robot not in faulty_robots]
    mean_errors = errors_of_mean(well, clean, robots)
    return Studied(well.alerts, beside, named(plan, alerts, days), alerts, plan, mean_errors)


@dataclass
class Table:
    """Counts over all seeds so far."""

    fleets: int = 0
    false_clean: int = 0  # fleets in which all is well, with an alert
    false_beside: int = 0  # fleets with faults, with an alert of another robot
    named: dict[str, int] = field(default_factory=lambda: dict.fromkeys(FAULTS, 0))
    mean_errors: list[FloatArray] = field(default_factory=list)

    def add(self, study: Studied) -> None:
        """Count the fleets of one seed."""
        self.fleets += 1
        self.false_clean += bool(study.clean)
        self.false_beside += bool(study.beside)
        self.mean_errors.append(study.mean_errors)
        for fault in FAULTS:
            self.named[fault] += study.answers[fault]

    def lines(self) -> Iterator[str]:
        """Yield the table."""
        n = self.fleets
        yield (
            f"false alarms | in {self.false_clean} of {n} clean fleets and in "
            f"{self.false_beside} of {n} with faults"
        )
        for fault in FAULTS:
            yield f"{fault} | named in {self.named[fault]} of {n}"
        if n:
            errors = np.concatenate(self.mean_errors)
            inside = np.abs(errors) < NORMAL_95
            yield (
                f"mean of the kind | {100 * inside.mean():.1f} % of {len(errors)} intervals contain "
                f"the truth, rms error {np.sqrt(np.mean(errors**2)):.2f} standard errors"
            )


def surprises(seed: int, study: Studied) -> Iterator[str]:
    """Yield a line for each false alarm, and for faults that were not named what was said."""
    for alert in (*study.clean, *study.beside):
        yield f"  seed {seed}: false alarm, {alert.robot}: {alert.text}"
    for fault, robot in study.plan.robots.items():
        if study.answers[fault]:
            continue
        texts = [alert.text for alert in study.alerts if alert.robot == f"r{robot:02d}"]
        yield f"  seed {seed}: {fault} of r{robot:02d} not named; {'; '.join(texts) or 'no alert'}"


def main() -> None:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--fleets", type=int, default=200)
    parser.add_argument("--seed", type=int, default=seed_of_commit(), help="the first one")
    parser.add_argument("--robot", default="five_bar")
    parser.add_argument("--robots", type=int, default=8)
    parser.add_argument("--days", type=int, default=8)
    parser.add_argument("--jobs", type=int, default=1, help="processes that share the work")
    parser.add_argument("--small", action="store_true")
    words = parser.parse_args()
    n_fleets = 1 if words.small else words.fleets
    days = 5 if words.small else words.days
    print(f"{words.robots} {words.robot}, {days} days, a log of 5 s a day, seed {words.seed}")
    table = Table()
    seeds = range(words.seed, words.seed + n_fleets)
    study_of = partial(studied, words.robot, words.robots, days)
    try:
        for k, study in WorkSettings(workers=words.jobs).executor.run(study_of, seeds):
            if isinstance(study, Exception):
                raise study
            table.add(study)
            for line in surprises(seeds[k], study):
                print(line, flush=True)
            if table.fleets % PROGRESS_FLEETS == 0:
                print(f"  {table.fleets} of {n_fleets} done", flush=True)
    except KeyboardInterrupt:
        print("interrupted")
    for line in table.lines():
        print(line)
    used = processor_time() / max(table.fleets, 1)
    print(f"processor time of two fleets | {used:.1f} s")


def processor_time() -> float:
    """Return the processor time of this process and of those that it started and ended. [s]"""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


if __name__ == "__main__":
    main()
