"""What must be known of a payload to find drive gains of a serial arm (BG13 4.3), with coverage
over 20 recordings.

    python examples/serial_payload.py [--seeds 20] [--json]

Currents of the arm `serial6`, on the independent plant, without and with a weight clamped off the
axis of its flange. The gains by maximum likelihood (a) knowing all ten parameters of the weight,
(b) its mass only, as BG13 advises, (c) the mass only, the loaded motion being the unloaded one
again, (d) the mass only, stated 2 % too large, (e) all ten, the mass stated 2 % too large. (d)
cannot be seen in any log: currents are the same if robot, weight and gains are 2 % larger. In (e)
the mass contradicts the other nine: the gains are between, and their intervals wrong.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from gough import Model, Simulation, design, identify, load_robot, record, simulate
from gough.core.names import INERTIAL, Parameter
from gough.excitation.design import Run

PAYLOAD, WRONG = "weight", 1.02


def runs(model: Model, plant: str = "pinocchio") -> dict[str, Simulation]:
    """Design a motion without and one with the weight; run both, and the first with the weight
    too.
    """
    plan = design(
        model,
        frequency=0.1,
        harmonics=4,
        runs=[Run(periods=2), Run(periods=2, payload=PAYLOAD)],
        starts=1,
        seed=0,
    )
    empty, loaded = plan.trajectories
    return {
        name: simulate(model, path, plant=plant, payload=payload, periods=2, sampling=100.0)
        for name, path, payload in (
            ("empty", empty, None),
            ("loaded", loaded, PAYLOAD),
            ("same", empty, PAYLOAD),
        )
    }


def cases(model: Model) -> dict[str, tuple[str, str]]:
    """Return by label: which loaded run, and what is said of the weight."""
    known = model.mechanism.payload(PAYLOAD).values
    wrong = ",".join(f"{p}={(WRONG if p == 'm' else 1.0) * known[p]}" for p in INERTIAL)
    mass = f"{PAYLOAD}:m={known['m']}"
    return {
        "all ten known": ("loaded", PAYLOAD),
        "mass only": ("loaded", mass),
        "mass only, same motion": ("same", mass),
        "mass only, 2 % too large": ("loaded", f"{PAYLOAD}:m={WRONG * known['m']}"),
        "all ten, mass 2 % too large": ("loaded", f"{PAYLOAD}:{wrong}"),
    }


def studied(model: Model, done: dict[str, Simulation], seeds: int) -> dict[str, dict[str, Any]]:
    """Return by case: share of 95 % intervals of gains that hold the truth, mean and typical
    relative error.
    """
    motors = model.mechanism.actuated
    truth = np.array([model.mechanism.joint(name).gain for name in motors])
    found: dict[str, dict[str, Any]] = {}
    for label, (loaded, said) in cases(model).items():
        inside, off = [], []
        for seed in range(seeds):
            logs = [record(done[name], seed=[seed, k]) for k, name in enumerate(("empty", loaded))]
            estimate = identify(
                model, logs[:1], loaded=logs[1:], payload=said, estimator="gain_ml"
            ).estimate
            at = [estimate.parameters.index(Parameter.gain(name)) for name in motors]
            low, high = estimate.interval(0.95)[at].T
            inside.append((low <= truth) & (truth <= high))
            off.append(estimate.values[at] / truth - 1)
        found[label] = {
            "coverage": float(np.mean(inside)),
            "bias": np.mean(off, axis=0).tolist(),
            "rms": np.sqrt(np.mean(np.square(off), axis=0)).tolist(),
        }
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=20, help="recordings of each case")
    parser.add_argument("--json", action="store_true", help="print numbers for machines")
    chosen = parser.parse_args(arguments)
    model = Model(load_robot("serial6"))
    found = studied(model, runs(model), chosen.seeds)
    if chosen.json:
        print(json.dumps(found, indent=1))
        return
    print(
        f"95 % intervals of the six gains, {chosen.seeds} recordings; mean error and rms error by "
        f"motor [%]"
    )
    for label, row in found.items():
        print(f"{label:30s}{100 * row['coverage']:6.1f} % inside")
        for name in ("bias", "rms"):
            print(f"{name:>30s}" + "".join(f"{100 * x:8.2f}" for x in row[name]))


if __name__ == "__main__":
    main()
