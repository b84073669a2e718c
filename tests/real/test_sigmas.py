"""Standard deviations on real logs: parts of an experiment differ by as much as they say."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import machines
import numpy as np
import pytest

from gough import Model, Recording, identify
from gough.fitting.estimate import Estimate

pytestmark = pytest.mark.long


def rms_z(a: Estimate, b: Estimate) -> float:
    """Return the rms difference of two estimates in their joint standard deviations."""
    return float(np.sqrt(np.mean((a.values - b.values) ** 2 / (a.std**2 + b.std**2))))


def estimates(
    model: Model, groups: Sequence[Sequence[Recording]], estimator: str = "auto"
) -> list[Estimate]:
    return [identify(model, group, estimator=estimator).estimate for group in groups]


def says_that_it_does_not_carry(estimate: Estimate) -> bool:
    return any(
        "does not generalise from one motion to another" in str(notice)
        for notice in estimate.notices
    )


@pytest.mark.skipif(not machines.available("staubli_tx40"), reason="the arm's log is not here")
def test_halves_of_the_arm_agree_within_what_they_say() -> None:
    log = machines.tx40_log()
    half = len(log) // 2
    a, b = estimates(machines.tx40(), [[log.take(slice(0, half))], [log.take(slice(half, None))]])
    assert rms_z(a, b) <= 1.3
    by_noise = np.sqrt(np.mean((a.values - b.values) ** 2 / (a.noise_std**2 + b.noise_std**2)))
    assert by_noise > 1.5  # noise alone would mislead
    assert a.uncertainty == b.uncertainty == "blocks"


@pytest.mark.skipif(
    not machines.available("double_pendulum"), reason="the pendulum's logs are not here"
)
@pytest.mark.parametrize(("estimator", "largest"), [("gm", 1.5), ("auto", 2.0)])
def test_pairs_of_pendulum_logs_agree_and_say_that_the_model_does_not_carry(
    estimator: str, largest: float
) -> None:
    """Every way to choose, but for the two logs in which the shoulder's motor is off: they do not
    tell of it. Standard errors do not contain that `auto` selects `ls` for some pairs.
    """
    model, logs = (
        machines.pendulum(),
        [machines.pendulum_log(name) for name in machines.PENDULUM_LOGS],
    )
    pairs = [pair for pair in combinations(range(5), 2) if pair != (3, 4)]
    groups = [[logs[k] for k in pair] for pair in pairs]
    found = dict(zip(pairs, estimates(model, groups, estimator)))
    apart = [rms_z(found[a], found[b]) for a, b in combinations(found, 2) if not set(a) & set(b)]
    assert len(apart) == 12
    assert max(apart) <= largest
    assert np.sqrt(np.mean(np.square(apart))) <= 1.0
    assert all(says_that_it_does_not_carry(estimate) for estimate in found.values())


@pytest.mark.skipif(
    not machines.available("upv_3ups_rpu"), reason="the runs of the UPV robot are not here"
)
def test_each_run_of_the_upv_robot_agrees_with_the_other_two() -> None:
    logs = [machines.upv_log(run) for run in machines.UPV_RUNS]
    for k, log in enumerate(logs):
        a, b = estimates(machines.upv(), [[log], [*logs[:k], *logs[k + 1 :]]])
        assert rms_z(a, b) <= 1.5
