"""The smallest faults that logs show: noticed at the printed limit, not far below it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import binom

from gough.engine import Model
from gough.identification.diagnosis import Limit
from gough.logs.recording import Recording
from gough.mechanism import parse_robot
from gough.verdict import faults
from gough.verdict.detectable import LIMIT_MARGIN, detection_limits, limits_notice
from gough.verdict.diagnose import DiagnoseSettings, evidence_from
from gough.verdict.evidence import Evidence
from gough.verdict.faults import Fault
from gough.verdict.screen import Screen
from gough.verdict.search import Search
from tests_support import axis_file
from trials import repeated


def limits_of(evidence: Evidence) -> dict[tuple[str, str], Limit]:
    search = Search(evidence, with_discrete=False)
    screen = Screen(search.first, search.faults, search.single_logs)
    limits = detection_limits(screen, screen.trials)
    return {(limit.name, limit.place): limit for limit in limits}


@pytest.fixture(scope="module")
def limits(clean: Evidence) -> dict[tuple[str, str], Limit]:
    return limits_of(clean)


def noisy_and_delayed(log: Recording, delay: float, seed: int) -> Recording:
    """Return a log with more noise, and with efforts delayed by a Fourier series."""
    assert log.effort is not None
    frequency = np.fft.rfftfreq(len(log), log.time[1] - log.time[0])
    turn = np.exp(-2j * np.pi * frequency * delay)
    effort = np.fft.irfft(np.fft.rfft(log.effort, axis=0) * turn[:, None], len(log), axis=0)
    noise = 0.5 * np.random.default_rng(seed).standard_normal(effort.shape)
    return replace(log, effort=effort + noise)


def test_a_delay_of_the_limit_is_noticed_and_a_third_of_it_is_not(
    five_bar: Model, logs: tuple[Recording, Recording]
) -> None:
    def evidence_with(delay: float, seed: int) -> Evidence:
        spoilt = []
        for k, log in enumerate(logs):
            spoilt.append(noisy_and_delayed(log, delay, 10 * seed + k))
        return evidence_from(five_bar, spoilt, (), DiagnoseSettings())[0]

    limit = limits_of(evidence_with(0.0, 0))["effort delay", "all motors"].size
    for seed in (1, 2, 3):
        for fraction, noticed in ((1.0, True), (1 / 3, False)):
            evidence = evidence_with(fraction * limit, seed)
            groups, _ = Search(evidence, with_discrete=False).run()
            assert bool(groups) == noticed, (seed, fraction)


def spoilt_log(log: Recording, fault: str, amount: float) -> Recording:
    """Return a log with a fault of the clock or of the first motor."""
    assert log.effort is not None
    effort = log.effort.copy()
    position = log.position.copy()
    time = log.time
    if fault == "effort scale":
        effort[:, 0] *= 1 + amount
    elif fault == "effort offset":
        effort[:, 0] += amount
    elif fault == "clock":
        time = time * (1 + amount)
    else:
        position[:, 0] += amount
    noise = 0.1 * np.random.default_rng(int(1e6 * abs(effort[0, 0]))).standard_normal(effort.shape)
    return replace(log, time=time, effort=effort + noise, position=position)


@repeated(2, 20)
@pytest.mark.parametrize(
    ("fault", "place"),
    [
        ("effort scale", "left.motor"),
        ("effort offset", "left.motor"),
        ("encoder offset", "left.motor"),
        ("clock", "clock"),
    ],
)
def test_a_fault_is_noticed_at_its_limit(
    five_bar: Model, make_log: Callable[..., Recording], fault: str, place: str, trials: int
) -> None:
    def evidence_with(amount: float, noise_seed: int) -> Evidence:
        both = [make_log(0, noise_seed=noise_seed), make_log(1, noise_seed=noise_seed)]
        spoilt = [spoilt_log(log, fault, amount) for log in both]
        return evidence_from(five_bar, spoilt, (), DiagnoseSettings())[0]

    limit = limits_of(evidence_with(0.0, 100))[fault, place].size
    unseen = limit / LIMIT_MARGIN / 3
    n_noticed = 0
    for noise_seed in range(trials):
        groups, _ = Search(evidence_with(limit, noise_seed), with_discrete=False).run()
        n_noticed += bool(groups)
        assert not Search(evidence_with(unseen, noise_seed), with_discrete=False).run()[0]
    assert binom.cdf(n_noticed, trials, 0.95) > 0.01


def test_a_fault_without_effect_has_no_limit(limits: dict[tuple[str, str], Limit]) -> None:
    """Tilted about the horizontal axis in its plane, a planar robot keeps its efforts."""
    assert limits["tilt", "base"].size == np.inf
    assert np.isfinite(limits["effort delay", "all motors"].size)
    assert np.isfinite(limits["payload", "log 0"].size)


@pytest.mark.parametrize("order", [1, -1])
def test_the_limit_of_a_tilt_is_that_about_the_axis_which_is_seen_worst(
    order: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A slide along x shows a tilt about y and none about x, whichever comes first."""
    axes = faults.tilt_axes
    monkeypatch.setattr(faults, "tilt_axes", lambda gravity: axes(gravity)[::order])
    slide = Model(parse_robot(axis_file('terms = ["fv", "fs"]'), "axis"))
    time = np.arange(10000) / 500.0
    phase = np.outer(time, [1.6, 3.5, 5.7])
    velocity = np.cos(phase) @ [1.6, 3.5, 5.7]
    acceleration = -np.sin(phase) @ [2.56, 12.25, 32.5]
    noise = np.random.default_rng(0).standard_normal(len(time))
    log = Recording(
        joints=("slide",),
        time=time,
        position=np.sin(phase).sum(axis=1)[:, None],
        position_units=("m",),
        effort=(10 * acceleration + 5 * velocity + 20 * np.sign(velocity) + noise)[:, None],
    )
    evidence = evidence_from(slide, [log], (), DiagnoseSettings())[0]
    assert limits_of(evidence)["tilt", "base"].size == np.inf


def listed(name: str, words: str) -> Fault:
    """Return a fault that the notice lists."""
    return Fault(name=name, places=lambda evidence: (), text="", advice="", unnoticed=words)


LISTED = (
    listed("effort scale", "a wrong gain of one motor"),
    listed("effort delay", "a delay of the efforts"),
    listed("tilt", "a tilt of the base"),
)


def test_the_notice_names_the_place_where_a_fault_is_worst_seen() -> None:
    def limit(name: str, place: str, unit: str, size: float) -> Limit:
        return Limit(name=name, place=place, unit=unit, size=size)

    limits = [
        limit("effort scale", "left", "1", 0.02),
        limit("effort scale", "right", "1", 0.05),
        limit("effort delay", "left", "s", 5e-3),
        limit("effort delay", "all motors", "s", 1e-3),
        limit("tilt", "base", "rad", np.inf),
    ]
    (notice,) = limits_notice(limits, LISTED)
    assert (notice.rule, notice.level) == ("not noticed", "info")
    assert notice.text == (
        "these logs may not show: one factor on all efforts; a wrong gain of one motor "
        "below 5 %; a delay of the efforts below 1 ms; a tilt of the base"
    )
    assert notice.numbers == {"effort scale": 0.05, "effort delay": 1e-3}
    (beside_a_delay,) = limits_notice(limits, LISTED, {"effort delay"})
    assert "delay" not in beside_a_delay.text


def test_an_offset_that_would_have_to_exceed_the_effort_has_no_limit(
    five_bar: Model, logs: tuple[Recording, Recording]
) -> None:
    """Noise of 20 N m hides an offset of any plausible size."""
    sizes = []
    for noise in (0.05, 20.0):
        noisy = []
        for k, log in enumerate(logs):
            assert log.effort is not None
            rng = np.random.default_rng(k)
            effort = log.effort + noise * rng.standard_normal(log.effort.shape)
            noisy.append(replace(log, effort=effort))
        limits = limits_of(evidence_from(five_bar, noisy, (), DiagnoseSettings())[0])
        for (name, place), limit in limits.items():
            if name != "effort offset":
                continue
            j = five_bar.mechanism.actuated.index(place)
            rms = max(float(np.sqrt(np.mean(log.effort[:, j] ** 2))) for log in noisy)
            sizes.append((noise, limit.size, rms))
    assert all(size < rms or size == np.inf for _, size, rms in sizes)
    assert any(size == np.inf for _, size, _ in sizes)
    assert any(np.isfinite(size) for _, size, _ in sizes)
