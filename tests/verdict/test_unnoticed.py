"""Exchanged channels and factors of time: said where the logs do not show them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from gough.engine import Model
from gough.logs.recording import Recording
from gough.mechanism import load_robot
from gough.verdict.detectable import limits_notice
from gough.verdict.diagnose import DiagnoseSettings, evidence_from
from gough.verdict.evidence import Evidence
from gough.verdict.search import Search
from gough.verdict.stage import Stage
from gough.verdict.unnoticed import unnoticed_faults
from tests_support import fourier

RATE = 100.0  # [Hz]


def texts(evidence: Evidence) -> list[str]:
    search = Search(evidence, with_discrete=False)
    return [fault.text for fault in unnoticed_faults(evidence, search.labels, 1000)]


@pytest.fixture(scope="module")
def delta_log() -> tuple[Model, Recording]:
    """A Delta whose legs differ by a tenth."""
    model = Model(load_robot("delta"))
    time = np.arange(400) / RATE
    trajectory = fourier(model, 0.7, 0.5, seed=3, harmonics=5)
    motion = model.kinematics.motion(time, *trajectory.at(time), "task")
    names = model.mechanism.standard.names
    rng = np.random.default_rng(0)
    values = model.values(names) * np.exp(0.1 * rng.standard_normal(len(names)))
    effort = model.inverse_dynamics(motion, values)
    effort = effort + 0.005 * effort.std() * rng.standard_normal(effort.shape)
    log = Recording(
        joints=model.mechanism.actuated,
        time=time,
        position=motion.q[:, list(model.actuated)],
        position_units=("rad", "rad", "rad"),
        effort=effort,
    )
    return model, log


def test_exchanged_legs_of_a_delta_are_its_mirror_image(delta_log: tuple[Model, Recording]) -> None:
    """The model fits a log with two legs exchanged as well as the right one, to 1 %."""
    model, log = delta_log
    order = [1, 0, 2]
    assert log.effort is not None
    mirrored = replace(log, position=log.position[:, order], effort=log.effort[:, order])
    errors = []
    for each in (log, mirrored):
        evidence, _ = evidence_from(model, [each], (), DiagnoseSettings())
        assert "the channels of leg1.motor and leg2.motor are swapped" in texts(evidence)
        labels = Search(evidence, with_discrete=False).labels
        errors.append(Stage(evidence, labels).error)
    assert errors[1] == pytest.approx(errors[0], rel=0.01)


def test_a_clock_at_half_the_rate_may_not_show_but_exchanged_channels_do(
    clean: Evidence, make_log: Callable[..., Recording], five_bar: Model
) -> None:
    """At twice the pace other inertias explain a slow motion, but not a fast one."""
    clock = ["times are 2 times too long", "times are 2 times too short"]
    assert texts(clean) == clock
    log = make_log(2)
    slow = replace(log, time=2 * log.time)
    evidence, _ = evidence_from(five_bar, [slow], (), DiagnoseSettings())
    assert texts(evidence) == clock


def test_the_notice_lists_what_would_not_be_noticed() -> None:
    (notice,) = limits_notice([], unnoticed=["the channels of a and b are swapped"])
    assert notice.text.endswith(
        "one factor on all efforts; that the channels of a and b are swapped"
    )
