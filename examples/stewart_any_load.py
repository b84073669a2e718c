"""Any load of a Gough-Stewart platform: off its centre, with products of inertia, exchanged in
mid-run.

    python examples/stewart_any_load.py [--seeds 20] [--json]

Beyond S20, which knows the load's mass and that it sits above the centre. The virtual robot runs on
the MuJoCo plant (a free body under leg forces, which shares no equations with the estimator) under
PID and hydraulics, with position noise of 20 um and effort noise of 5 N. Shown for each motion,
over recordings that differ in noise: how often the 95 % intervals of `gough payload` hold the
truth, how wide they are, and what the motion does not show.

1. Translations only, and with rotations of 6 deg: one load, off the centre, with products of
inertia.
2. The same with the model of the unloaded robot identified from a log of its own: its errors count.
3. No load at all: zero within its interval.
4. Another load from mid-run on: noticed, dated, both found.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from second_order_drive import SecondOrderDrive

from gough import (
    Model,
    PayloadResult,
    Recording,
    Simulation,
    identify,
    load_robot,
    payload,
    record,
    simulate,
)
from gough.core.arrays import FloatArray
from gough.core.names import INERTIAL
from gough.core.trajectory import Fourier
from gough.mechanism.types import Payload
from gough.virtual import PID

OFF_CENTRE = np.array([500.0, 40.0, -25.0, 150.0, 75.0, 3.0, 80.0, -13.0, 9.0, 35.0])
LIGHTER = np.array([350.0, -20.0, 10.0, 90.0, 45.0, 1.0, 40.0, 4.0, -2.0, 20.0])
LAW = PID(kp=1.3e5, kd=4e3, ki=3.3e5, velocity_feedforward=True)  # stable with and without a load
DRIVE = SecondOrderDrive(frequency=60.0, damping=0.7)
MOTIONS = {"translations only": 0.0, "with rotations of 6 deg": 6.0}


def motion(model: Model, rotation: float, seed: int = 0) -> Fourier:
    """Return four random harmonics of 0.2 Hz within 7 cm and a rotation. [deg]"""
    names, rng = model.mechanism.task, np.random.default_rng(seed)
    joints = [model.mechanism.joint(name) for name in names]
    mu, nu = rng.uniform(-1, 1, (2, 4, 6))
    kw = 0.4 * np.pi * np.arange(1, 5)[:, None]
    size = np.sqrt(((mu / kw) ** 2 + (nu / kw) ** 2).sum(axis=0))
    reach = np.array([0.07 if joint.unit == "m" else np.deg2rad(rotation) for joint in joints])
    home = np.array([model.home[model.mechanism.coordinates.index(name)] for name in names])
    return Fourier(
        coordinates=names,
        units=tuple(joint.unit for joint in joints),
        frequency=0.2,
        offset=home,
        mu=mu * reach / size,
        nu=nu * reach / size,
    )


def run(
    model: Model, load: FloatArray | None, rotation: float, seed: int = 0, periods: int = 3
) -> Simulation:
    """Return a run with a load, or without."""
    name = None if load is None else "any"
    if load is not None:
        body = Payload(
            name="any", body=model.load_body, values=dict(zip(INERTIAL, load.tolist())), known=()
        )
        model = Model(replace(model.mechanism, payloads=(body,)))
    return simulate(
        model,
        motion(model, rotation, seed),
        controller=LAW,
        actuator=DRIVE,
        payload=name,
        periods=periods,
        plant="mujoco",
    )


def log(simulation: Simulation, seed: int) -> Recording:
    """Return a noisy recording that does not say what it carries."""
    return replace(record(simulation, seed=seed), payload=None)


def exchanged(
    first: Simulation, second: Simulation, seed: int, share: float = 0.55
) -> tuple[Recording, float]:
    """Return a recording whose load is another one after a share of the time, and when that is.

    [s]
    """
    one, other = log(first, seed), log(second, seed)
    at = round(share * len(one))
    assert one.effort is not None
    assert other.effort is not None
    both = replace(
        one,
        effort=np.concatenate([one.effort[:at], other.effort[at:]]),
        position=np.concatenate([one.position[:at], other.position[at:]]),
    )
    return both, float(one.time[at])


@dataclass(frozen=True, kw_only=True, eq=False)
class Coverage:
    """Loads found in recordings that differ in noise.

    Args:
        held: How often the 95 % intervals of what was observed hold the truth, (10,).
        observed: How often it was observed, (10,).
        std: Median standard deviation where it was, (10,).
        rms_z: Of error / standard deviation, (10,).
        changes: Changes of the load seen, in all.
        physical: How often it was called possible.
    """

    held: FloatArray
    observed: FloatArray
    std: FloatArray
    rms_z: FloatArray
    changes: int
    physical: float


def coverage(
    find: Callable[[int], PayloadResult], seeds: Sequence[int], truth: FloatArray
) -> Coverage:
    """Return how often intervals hold."""
    found = [find(seed) for seed in seeds]
    seen = np.array([result.load.observed for result in found])
    low, high = np.array([result.estimate.interval() for result in found]).transpose(2, 0, 1)
    std = np.array([result.estimate.std for result in found])
    error = np.array([result.estimate.values for result in found]) - truth
    count = np.maximum(seen.sum(axis=0), 1)
    return Coverage(
        held=(seen & (low <= truth) & (truth <= high)).sum(axis=0) / count,
        observed=seen.mean(axis=0),
        std=np.median(std, axis=0),
        rms_z=np.sqrt(((error / std) ** 2).mean(axis=0)),
        changes=sum(len(result.changes) for result in found),
        physical=float(np.mean([result.load.physical for result in found])),
    )


def identified_first(
    model: Model, unloaded: Simulation, loaded: Simulation, seed: int
) -> PayloadResult:
    """Return the load found with a model identified from a log of the unloaded robot."""
    return payload(model, [log(loaded, seed)], result=identify(model, [log(unloaded, 1000 + seed)]))


def table(found: dict[str, Coverage], truth: FloatArray) -> list[str]:
    """Return coverage and standard deviations beside the truth."""
    lines = [
        f"{'':16s}" + "".join(f" | {name:^34s}" for name in found),
        f"{'':8s}{'true':>8s}"
        + "".join(f" | {'held':>8s}{'observed':>11s}{'sigma':>15s}" for _ in found),
    ]
    for i, name in enumerate(INERTIAL):
        cells = "".join(
            f" | {100 * c.held[i]:6.0f} %{100 * c.observed[i]:9.0f} %{c.std[i]:15.4g}"
            for c in found.values()
        )
        lines.append(f"{name:8s}{truth[i]:8.1f}{cells}")
    return lines


def report(seeds: int) -> tuple[str, dict[str, Any]]:
    """Run everything; return the tables as text and as numbers."""
    model, every = Model(load_robot("stewart")), range(seeds)
    loaded = {name: run(model, OFF_CENTRE, degrees) for name, degrees in MOTIONS.items()}
    empty = {name: run(model, None, degrees, seed=3) for name, degrees in MOTIONS.items()}
    exact = {
        name: coverage(lambda seed, s=s: payload(model, [log(s, seed)]), every, OFF_CENTRE)
        for name, s in loaded.items()
    }
    own = {
        name: coverage(
            lambda seed, name=name, s=s: identified_first(model, empty[name], s, seed),
            every,
            OFF_CENTRE,
        )
        for name, s in loaded.items()
    }
    none = {
        name: coverage(lambda seed, s=s: payload(model, [log(s, seed)]), every, np.zeros(10))
        for name, s in empty.items()
    }
    lighter = run(model, LIGHTER, 6.0)
    times: list[bool] = []

    def exchange(seed: int) -> PayloadResult:
        recording, at = exchanged(loaded["with rotations of 6 deg"], lighter, seed)
        result = payload(model, [recording])
        times.append(
            len(result.changes) == 1
            and abs(result.changes[0].time - at) <= result.changes[0].within
        )
        return result

    after = coverage(exchange, every, LIGHTER)
    dated = sum(times)
    lines = [
        f"Off the centre, with products of inertia; {seeds} recordings each; model of the unloaded "
        f"robot exact",
        *table(exact, OFF_CENTRE),
        "",
        "The same, model of the unloaded robot identified from a log of its own",
        *table(own, OFF_CENTRE),
        "",
        "No load",
        *table(none, np.zeros(10)),
        "",
        f"Another load from mid-run on: dated rightly in {dated} of {seeds}",
        *table({"after": after}, LIGHTER),
    ]
    numbers = {
        key: {
            name: {"held": c.held.tolist(), "observed": c.observed.tolist(), "std": c.std.tolist()}
            for name, c in group.items()
        }
        for key, group in (
            ("exact", exact),
            ("identified", own),
            ("none", none),
            ("after", {"": after}),
        )
    }
    return "\n".join(lines), numbers | {"dated": dated}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=20, help="recordings of each motion")
    parser.add_argument("--json", action="store_true", help="print numbers for machines")
    chosen = parser.parse_args(arguments)
    text, numbers = report(chosen.seeds)
    print(json.dumps(numbers, indent=1) if chosen.json else text)


if __name__ == "__main__":
    main()
