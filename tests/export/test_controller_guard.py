"""How far a motor may move between two calls of the C code before it is called a jump."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from gough.engine import Model
from gough.export.controller import controller_code
from gough.mechanism import load_robot


def constants(source: str, name: str) -> list[float]:
    """Return the numbers of a constant of the C code."""
    found = re.search(rf"\b{name}\[\d+\] = {{ (.*?) }}", source)
    assert found is not None
    return [float(number) for number in found[1].split(",")]


def test_the_guard_allows_noise_a_step_of_the_encoder_and_twice_the_top_speed() -> None:
    mechanism = load_robot("five_bar")
    noise = replace(mechanism.noise, position=2e-5, resolution=3e-4)
    model = Model(replace(mechanism, noise=noise))
    source, _ = controller_code(model)
    assert constants(source, "noise") == pytest.approx([10 * 2e-5 + 3e-4] * 2)
    limits = [joint.limits.velocity for joint in mechanism.joints if joint.actuated]
    assert all(limits)
    assert constants(source, "fastest") == pytest.approx([2 * limit for limit in limits])
