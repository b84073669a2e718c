"""Drive gains of a serial arm, rehearsed: currents of the independent plant with and without a payload that is known.

BG13 closes with such arms (TX40, RX90, KR270). Payloads of arms must hang on the flange, wherever rotors are.
"""

from __future__ import annotations

import numpy as np
import pytest

from gough import Model, design, identify, load_robot, record, simulate
from gough.core.names import Parameter
from gough.excitation.design import Run

pytest.importorskip("pinocchio")

@pytest.mark.slow
def test_gains_of_a_serial_arm_are_found_within_their_sigmas() -> None:
    model = Model(load_robot("serial6"))
    names = [Parameter.gain(joint) for joint in model.mechanism.actuated]
    truth = np.array([model.mechanism.joint(joint).gain for joint in model.mechanism.actuated])
    plan = design(model, frequency=0.1, harmonics=4, runs=[Run(periods=2), Run(periods=2, payload="weight")], starts=1,
                  seed=0)
    runs = [simulate(model, path, plant="pinocchio", payload=payload, periods=2, controller="ctc", sampling=100.0)
            for path, payload in zip(plan.trajectories, (None, "weight"))]
    off: dict[str, list[np.ndarray]] = {}
    for seed in range(3):
        empty, loaded = (record(run, seed=[seed, k]) for k, run in enumerate(runs))
        for name, found in identify(model, [empty], loaded=[loaded], estimator="tls").estimates.items():
            std = dict(zip(found.parameters, found.std))
            off.setdefault(name, []).append(np.array([(found[n] - t) / std[n] for n, t in zip(names, truth)]))
    for name in ("tls", "gain_ml"):
        assert np.sqrt(np.mean(np.square(off[name]))) < 1.6, name
        assert np.abs(off[name]).max() < 4.5, name
    assert np.abs(np.mean(off["tls_paper"], axis=0))[3:].min() > 3  # as scaled in the paper the wrist comes out low
