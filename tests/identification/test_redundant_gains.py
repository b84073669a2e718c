"""Drive gains of a robot with more motors than degrees of freedom: motors share the load of a
row.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from gough.app.identify import identify
from gough.engine import Model
from gough.identification import Identification
from gough.logs.recording import Recording
from gough.mechanism.types import Payload
from gough.virtual import record, simulate
from tests_support import fourier, model_of

GAINS = np.array([0.9, 1.1, 1.3])  # [N m/A]


def in_amperes(log: Recording) -> Recording:
    return replace(log, effort=None, current=log.effort / GAINS, current_units=("A",) * 3)


pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def experiment() -> tuple[Model, list[Recording]]:
    """The robot with a disc to carry; logs of it without, with, and without on another motion."""
    plain = model_of("redundant")
    disc = Payload(name="disc", body=plain.load_body, values={"m": 1.5}, known=("m",))
    model = Model(replace(plain.mechanism, payloads=(disc,)))
    motion, other = fourier(model, 0.4, 0.5, harmonics=5), fourier(model, 0.4, 0.4, harmonics=4)
    runs = [
        simulate(model, motion, periods=5),
        simulate(model, motion, periods=5, payload="disc"),
        simulate(model, other, periods=2),
    ]
    return model, [in_amperes(record(run, seed=seed)) for seed, run in enumerate(runs)]


@pytest.fixture(scope="module")
def result(experiment: tuple[Model, list[Recording]]) -> Identification:
    model, logs = experiment
    return identify(model, logs[:1], loaded=logs[1:2], estimator="all", held_out=logs[2:])


def test_gains_are_found_with_a_weighed_payload(result: Identification) -> None:
    found = list(result.drive_gains.values())
    gains, std = (np.array([gain[key] for gain in found]) for key in ("value", "std"))
    assert gains == pytest.approx(GAINS, rel=0.03)
    assert (np.abs(gains - GAINS) < 4 * std).all()
    assert (std < 0.02 * GAINS).all()
    best = result.estimate
    assert {unit for name, unit in zip(best.parameters, best.units) if name.endswith(".gain")} == {
        "N m/A"
    }


def test_total_least_squares_stands_beside_and_the_papers_scaling_knows_how_little_it_knows(
    result: Identification,
) -> None:
    paper = result.estimates["tls_paper"]
    for name, true in zip((n for n in result.estimate.parameters if n.endswith(".gain")), GAINS):
        assert result.estimates["tls"][name] == pytest.approx(result.estimate[name], rel=0.1)
        std = paper.std[paper.parameters.index(name)]
        assert abs(paper[name] - true) < 3 * std
        assert std > 20 * result.estimate.std[result.estimate.parameters.index(name)]


def test_the_model_predicts_efforts_it_has_not_seen(result: Identification) -> None:
    assert result.validation.predicts == "good"
    shown = next(fit for fit in result.fits if fit.held_out)
    error = (shown.measured - shown.predicted)[shown.used]
    assert np.sqrt(np.mean(error**2)) < 0.1 * np.sqrt(np.mean(shown.measured[shown.used] ** 2))


def test_efforts_beside_the_currents_do_not_matter(
    experiment: tuple[Model, list[Recording]], result: Identification
) -> None:
    model, logs = experiment
    both = [replace(log, effort=7.0 * log.current) for log in logs[:2]]
    found = identify(model, both[:1], loaded=both[1:], estimator="tls").estimate
    assert found.values == pytest.approx(result.estimates["tls"].values)
