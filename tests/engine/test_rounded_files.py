"""Base parameters of robot files with few digits: their number is that of the structure."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from gough.core.names import parameters
from gough.core.parameters import MAX_FORMULA_CHARS, BaseParameters
from gough.engine import Model
from gough.engine.base import RANK_GAP_RATIO, _cut_at_clear_gap, _regroup, base_parameters
from gough.engine.check import check
from gough.mechanism import parse_robot
from gough.mechanism.files import bundled_robots, robot_text
from gough.mechanism.placement import Placement

ROBOTS = [name for name, _ in bundled_robots()]
QUICK = ("serial6", "tx40")  # the others compile for seconds


def rounded(text: str, digits: int) -> str:
    """Return a robot file with its decimal numbers printed with fewer digits."""

    def shorter(match: re.Match[str]) -> str:
        return repr(float(f"{float(match[0]):.{digits}g}"))

    lines = []
    for line in text.splitlines():
        code, mark, comment = line.partition("#")
        code = re.sub(r"(?<![\w.])-?\d+\.\d+(?:[eE][-+]?\d+)?", shorter, code)
        lines.append(code + mark + comment)
    return "\n".join(lines)


@pytest.mark.parametrize("digits", [3, 4, 5])
@pytest.mark.parametrize(
    "name", [n if n in QUICK else pytest.param(n, marks=pytest.mark.long) for n in ROBOTS]
)
def test_a_robot_keeps_its_number_of_base_parameters_if_its_file_is_rounded(
    name: str, digits: int
) -> None:
    text, source = robot_text(name)
    exact = base_parameters(Model(parse_robot(text, source)))
    base = base_parameters(Model(parse_robot(rounded(text, digits), source)))
    assert len(base) == len(exact)
    assert base.gap > RANK_GAP_RATIO
    assert base.finer_count is None


def regrouped(size: float) -> tuple[BaseParameters, list[np.ndarray]]:
    """Base parameters of six columns of which two depend on others but for noise of a size."""
    triangles = []
    for seed in (0, 1, 2):
        rng = np.random.default_rng(seed)
        matrix = rng.standard_normal((40, 6))
        matrix[:, 4] = matrix[:, 0] + matrix[:, 1] + size * rng.standard_normal(40)
        matrix[:, 5] = matrix[:, 2] - matrix[:, 3] + 0.5 * size * rng.standard_normal(40)
        triangles.append(np.linalg.qr(matrix / np.linalg.norm(matrix, axis=0), mode="r"))
    names = parameters([f"link.{kind}" for kind in ("m", "mx", "my", "mz", "Ixx", "Iyy")])
    return _regroup(triangles[-1], np.ones(6), [0, 1, 2, 3, 4], names), triangles


def test_combinations_that_differ_by_rounding_only_are_cut_and_both_counts_kept() -> None:
    base, triangles = regrouped(3e-8)
    assert base.gap < RANK_GAP_RATIO
    cut = _cut_at_clear_gap(base, triangles, np.ones(6))
    assert (len(cut), cut.finer_count) == (4, 5)
    assert cut.gap > 1e5
    assert np.allclose(cut.matrix[:, 4], [1, 1, 0, 0], atol=0.5)


def test_a_clear_number_is_not_changed() -> None:
    base, triangles = regrouped(0.0)
    exact = _regroup(triangles[-1], np.ones(6), [0, 1, 2, 3], base.standard)
    assert _cut_at_clear_gap(exact, triangles, np.ones(6)) is exact


def test_the_check_warns_with_both_counts_and_folds_long_formulas() -> None:
    text, source = robot_text("serial6")
    facts = check(Model(parse_robot(text, source)))
    assert facts.notices == ()
    rounded_file = replace(facts, base=replace(facts.base, finer_count=len(facts.base) + 1))
    (notice,) = rounded_file.notices
    assert notice.level == "warning"
    assert f"{len(facts.base)} are clearly separated" in notice.text
    assert f"{len(facts.base) + 1} if the last digits" in notice.text
    formulas = facts.base.regrouping().items()
    assert max(len(f"{name} = {formula}") for name, formula in formulas) > MAX_FORMULA_CHARS
    lines = facts.summary().splitlines()
    assert max(len(line) for line in lines if line.startswith("    ")) <= MAX_FORMULA_CHARS + 4


@pytest.mark.parametrize("printed", ["1.57", "1.571", "1.5708"])
def test_right_angles_printed_in_radians_keep_the_number_of_base_parameters(printed: str) -> None:
    text, source = robot_text("serial6")
    rounded_text = text.replace("alpha = -90", f'alpha = "-{printed} rad"')
    rounded_text = rounded_text.replace("alpha = 90", f'alpha = "{printed} rad"')
    assert rounded_text.count("rad") >= 4
    exact = base_parameters(Model(parse_robot(text, source)))
    base = base_parameters(Model(parse_robot(rounded_text, source)))
    assert base.names == exact.names


@pytest.mark.parametrize(("angle", "right"), [(1.57, True), (1.6, False), (1.56, False)])
def test_an_angle_is_right_within_its_last_decimal(angle: float, right: bool) -> None:
    placement = Placement((("Rx", angle),))
    assert (placement.idealised.rotation[1, 1] == 0.0) == right
    assert Placement((("Rx", 0.01),)).idealised.rotation[1, 1] != 1.0
