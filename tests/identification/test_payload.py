"""The load of a robot: intervals that hold, words for what a motion does not show, and input that makes no sense."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from gough.core.errors import InvalidInput
from gough.engine import Model
from gough.identification.payload import payload
from gough.logs.recording import Recording
from gough.mechanism.types import Payload
from gough.virtual import Simulation, record, simulate
from tests_support import fourier


@pytest.fixture(scope="module")
def carrying(five_bar: Model) -> Simulation:
    brick = Payload(name="brick", body=five_bar.load_body, values={"m": 0.7}, known=("m",))
    loaded = Model(replace(five_bar.mechanism, payloads=(brick,)))
    return simulate(loaded, fourier(loaded, 0.4, 0.5, harmonics=5), periods=2, payload="brick")


def log(carrying: Simulation, seed: int) -> Recording:
    return replace(record(carrying, seed=seed), payload=None)


def test_standard_deviations_of_two_repetitions_hold_over_many_noises(five_bar: Model, carrying: Simulation) -> None:
    normalised = []
    for seed in range(25):
        found = payload(five_bar, [log(carrying, seed)]).estimate
        normalised.append((found["payload.load.m"] - 0.7) / found.std[0])
    assert 0.6 < np.sqrt(np.mean(np.square(normalised))) < 1.6


def test_what_a_load_can_be_follows_from_the_mass_seen(five_bar: Model, carrying: Simulation) -> None:
    """A planar tool point does not turn: first moments and inertias stay within those of 0.7 kg within reach."""
    found = payload(five_bar, [log(carrying, 1)], reach=0.2)
    assert set(found.unobserved) == set(found.estimate.parameters[1:])
    np.testing.assert_allclose(found.history.belief.prior_std, 0.7 * 0.2 ** np.array([0, 1, 1, 1, 2, 2, 2, 2, 2, 2]),
                               rtol=0.02)
    np.testing.assert_allclose(found.estimate.std[1:], found.history.belief.prior_std[1:], rtol=0.02)
    free = payload(five_bar, [log(carrying, 1)], mass=100.0, reach=0.2).estimate
    assert free["payload.load.m"] == pytest.approx(found.estimate["payload.load.m"], abs=0.1 * free.std[0])


@pytest.mark.parametrize(("changes", "message"), [
    ({"mass": 0.0}, "mass is 0.0 kg"), ({"mass": -1.0}, "mass is -1.0 kg"),
    ({"mass": np.nan}, "mass is nan kg"), ({"reach": 0.0}, "reach is 0.0 m")])
def test_loads_that_make_no_sense_are_refused(five_bar: Model, carrying: Simulation, changes: dict[str, float],
                                              message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        payload(five_bar, [log(carrying, 1)], **changes)


def test_no_recording_is_an_error(five_bar: Model) -> None:
    with pytest.raises(InvalidInput, match="no recording"):
        payload(five_bar, [])
