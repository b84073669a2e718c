"""Drive gains of a robot with more motors than degrees of freedom, from Python: motors share the load of a row."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from gough.engine import Model, base_parameters
from gough.estimation.gain_problem import gain_problem
from gough.estimation.gains import MaximumLikelihoodGains
from gough.mechanism import load_robot
from gough.mechanism.types import Payload
from gough.processing import process, regression
from gough.virtual import record, simulate
from tests_support import fourier

GAINS = np.array([0.9, 1.1, 1.3])  # [N m per unit of current]


def test_gains_of_a_redundant_robot_are_found_with_a_weighed_payload() -> None:
    plain = Model(load_robot("redundant"))
    disc = Payload(name="disc", body=plain.load_body, values={"m": 1.5}, known=("m",))
    model = Model(replace(plain.mechanism, payloads=(disc,)))
    base = base_parameters(model, payloads=("disc",))
    robot = [n for n in base.names if not n.startswith("payload.")]
    parts, currents, maps = [], [], []
    for seed, load in enumerate((None, "disc")):
        log = record(simulate(model, fourier(model, 0.4, 0.5, harmonics=5), periods=5, payload=load), seed=seed)
        assert log.effort is not None
        done = process(model, log)
        part = regression(model, done, base)
        names = robot if load is None else list(base.names)
        parts.append(replace(part.select(names), replicates=None, covariance=None, row_units=("A",) * len(part.rows),
                             group=np.arange(len(part)) * 10 // len(part)))
        currents.append(done.effort / GAINS)
        maps.append(model.kinematics.closure_map(done.motion.q)[:, list(model.actuated)].transpose(0, 2, 1))
    known = {n: 1.5 for n in base.names if n == "payload.disc.m"}
    problem = gain_problem(parts[0], parts[1], known, effort_units="N m", motors=model.mechanism.actuated,
                           currents=(currents[0], currents[1]), effort_map=(maps[0], maps[1]))
    found = MaximumLikelihoodGains().fit(problem)
    gains = np.array([found[f"{motor}.gain"] for motor in model.mechanism.actuated])
    std = np.array([found.std[found.parameters.index(f"{motor}.gain")] for motor in model.mechanism.actuated])
    assert gains == pytest.approx(GAINS, rel=0.03)
    assert (np.abs(gains - GAINS) < 4 * std).all()
    assert (std < 0.02 * GAINS).all()
