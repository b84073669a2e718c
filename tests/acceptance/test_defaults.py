"""Virtual robots with defaults everywhere: short logs, a wrong effort, noise in the loop."""

from __future__ import annotations

from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import numpy as np
import pytest

SPEC = spec_from_file_location(
    "coverage_benchmark", Path(__file__).parents[2] / "benchmarks" / "coverage.py"
)
assert SPEC is not None
assert SPEC.loader is not None
benchmark = module_from_spec(SPEC)
SPEC.loader.exec_module(benchmark)

pytestmark = pytest.mark.long


def test_drive_gains_of_short_logs_are_unbiased_and_their_intervals_hold() -> None:
    _, z, held = benchmark.gain_errors(6)
    assert np.abs(z.mean(axis=0)).max() < 1.0
    assert held.mean() >= 0.85


def test_one_effort_that_is_wrong_costs_as_much_as_it_is_wrong() -> None:
    clean, *wrong = benchmark.delta_results((1.0, 1.05, 1.10, 1.15))
    errors = [result.validation.relative.max() for result in (clean, *wrong)]
    for result in wrong:
        assert result.estimate.n_valid.sum() == pytest.approx(clean.estimate.n_valid.sum(), rel=0.2)
    steps = np.diff(errors)
    assert (steps > 0).all()
    assert steps.max() < 2.5 * steps.min()


def test_noise_that_the_controller_feeds_back_does_not_mislead() -> None:
    kinds, z, held = benchmark.loop_errors(4)
    assert np.sqrt((z**2).mean()) <= 1.3
    for kind in dict.fromkeys(kinds):
        assert held[:, [k == kind for k in kinds]].mean() >= 0.85, kind
