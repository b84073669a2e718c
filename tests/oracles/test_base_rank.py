"""Base parameters against the rank of Pinocchio's regressor along walks of its own, and across
sizes of a robot.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from scaled_robots import POWER, resized

from gough.core.errors import NotConverged
from gough.core.names import INERTIAL_UNITS
from gough.engine import Model, base as engine_base, base_parameters
from gough.mechanism import bundled_robots, load_robot, parse_robot
from tests_support import model_of

pytest.importorskip("pinocchio")
from linkages import LINKAGES, robot
from structural_rank import Walker, structural_rank

FOLDER = Path(__file__).parent / "robots"
UNBUNDLED = [str(path) for path in sorted(FOLDER.glob("*.toml"))]
QUICK = {"five_bar", "serial6", "slider_crank", "geared_five_bar", "hybrid_arm"}
SLOW = {"h4", "all_closures"}


def marks_of(name: str) -> tuple[pytest.MarkDecorator, ...]:
    """Return how long a robot takes: most repeat on more bodies what the others show."""
    if Path(name).stem in QUICK:
        return ()
    return (pytest.mark.slow,) if Path(name).stem in SLOW else (pytest.mark.long,)


ROBOTS = [
    pytest.param(name, id=Path(name).stem, marks=marks_of(name))
    for name in [*(name for name, _ in bundled_robots()), *UNBUNDLED]
]


def geared(ratio: float, limits: str = "") -> Model:
    """The five-bar with rotors behind gears of some ratio, perhaps with limits of its shoulders."""
    text = (FOLDER / "geared_five_bar.toml").read_text(encoding="utf-8")
    for old, new in (
        ("shoulder = -80", f"shoulder = {-ratio}"),
        ("10697.296", f"{133.7162 * ratio}"),
        ("3702.704", f"{46.2838 * ratio}"),
        ('start = "$shoulder"', f'start = "$shoulder"\n{limits}'),
    ):
        assert old in text
        text = text.replace(old, new)
    return Model(parse_robot(text, "geared_five_bar"))


@pytest.mark.parametrize("name", ROBOTS)
def test_their_number_is_the_rank_of_an_independent_regressor(name: str) -> None:
    model = model_of(name)
    fast = {
        j.name: 80.0
        for j in model.mechanism.joints
        if Path(name).stem == "geared_five_bar" and j.actuated
    }
    rank, gap = structural_rank(model.mechanism, model.home, model.loops.length, fast)
    assert gap > 1e6
    assert len(base_parameters(model)) == rank


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(
            name,
            marks=pytest.mark.slow
            if name in ("four_bar", "geared_shoulder", "rssr")
            else pytest.mark.long,
        )
        for name in LINKAGES
    ],
)
def test_their_number_is_the_rank_in_a_hundred_digits(name: str) -> None:
    """Positions and differences of them only, whatever is drawn; see `exact_rank`."""
    exact_rank = pytest.importorskip("exact_rank", exc_type=ImportError)
    model = Model(parse_robot(robot(name), name))
    mechanism, length = model.mechanism, model.loops.length
    walker, rng = Walker(mechanism, model.home, length, {}), np.random.default_rng(3)
    count = int(1.2 * len(mechanism.standard) / model.degrees_of_freedom) + 4
    rank = exact_rank.exact_rank(
        mechanism, np.array([walker.sample(rng)[0] for _ in range(count)]), length
    )
    assert [len(base_parameters(model, seed=seed)) for seed in range(3)] == [rank] * 3


@pytest.mark.parametrize(
    "factor",
    [
        pytest.param(1e-6, id="micrometres"),
        pytest.param(1e-3, id="millimetres", marks=pytest.mark.long),
        pytest.param(100.0, id="a hundred metres", marks=pytest.mark.long),
    ],
)
@pytest.mark.parametrize("name", ROBOTS)
def test_a_robot_of_another_size_has_the_same_ones(name: str, factor: float) -> None:
    """Names and numbers are those of the original; coefficients scale as their units say."""
    mechanism = load_robot(name)
    if any(
        len({j.kind for j in mechanism.joints if j.name in c.coefficients}) > 1
        for c in mechanism.closures
    ):
        pytest.skip("its gears turn angles into lengths")
    original, other = (
        base_parameters(Model(mechanism)),
        base_parameters(Model(resized(mechanism, factor))),
    )
    assert other.names == original.names
    assert other.gap > 1e6
    kinds = [p.kind for p in original.standard]
    for row, column in zip(*np.nonzero(original.matrix)):
        own, regrouped = kinds[original.independent[row]], kinds[column]
        if own in INERTIAL_UNITS and regrouped in INERTIAL_UNITS:
            power = POWER[INERTIAL_UNITS[own]] - POWER[INERTIAL_UNITS[regrouped]]
            assert other.matrix[row, column] == pytest.approx(
                original.matrix[row, column] * factor**power, rel=1e-5
            )


@pytest.mark.parametrize("ratio", [1.0, -80.0, 1000.0])
@pytest.mark.parametrize(
    "limits", ["", "limits = { position = [-20, 200] }"], ids=["no limits", "limits of the joint"]
)
def test_a_gear_hides_no_parameter(ratio: float, limits: str) -> None:
    """Two links, two rotors, elbow, springs and friction on both sides of the gears."""
    base = base_parameters(geared(ratio, limits))
    assert len(base) == 19
    assert base.gap > 1e10
    assert {"left.shoulder.k", "right.shoulder.k", "left.distal.IzzR"} <= set(base.names)


@pytest.mark.parametrize("seed", [1, *(pytest.param(k, marks=pytest.mark.long) for k in (2, 3))])
@pytest.mark.parametrize(
    "name",
    ["five_bar", "orthoglide", str(FOLDER / "planar_3prr.toml"), str(FOLDER / "all_closures.toml")],
    ids=lambda name: Path(name).stem,
)
def test_they_do_not_depend_on_the_draw(name: str, seed: int) -> None:
    model = model_of(name)
    first, other = base_parameters(model), base_parameters(model, seed=seed)
    assert other.names == first.names
    np.testing.assert_allclose(
        other.matrix, first.matrix, rtol=0, atol=1e-5 * np.abs(first.matrix).max()
    )


def test_parameters_that_fade_away_are_counted_alike_by_every_draw() -> None:
    """Draw 2 sees two gaps: twice as many samples see one, before any cut is tried."""
    model = Model(parse_robot(robot("fading"), "fading"))
    assert [len(base_parameters(model, seed=seed)) for seed in range(4)] == [41] * 4


def test_draws_that_disagree_are_not_believed(
    five_bar: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    sampled = engine_base._Draw.regressor
    calls: list[int] = []
    looks: list[int] = []

    def blind(draw, motions):
        """Every second draw sees nothing of one parameter; the first motions closed again are no
        draw.
        """
        W = sampled(draw, motions)
        looks.append(len(W))
        if len(looks) % 3 == 0:
            return W
        calls.append(len(W))
        if len(calls) % 2:
            W[:, :, draw.names.index("left.motor.fv")] = 0.0
        return W

    monkeypatch.setattr(engine_base._Draw, "regressor", blind)
    monkeypatch.setenv("GOUGH_CACHE_DIR", os.devnull)  # base parameters are kept on disk
    with pytest.raises(NotConverged, match=r"distinguish 16, 17, 17.*parameters") as caught:
        base_parameters(Model(five_bar.mechanism))  # a model remembers its own
    assert caught.value.found == [16, 17, 17] * 3
    assert calls == [calls[0]] * 2 + [2 * calls[0]] * 2 + [4 * calls[0]] * 2


def test_the_gap_is_the_one_of_the_scaled_regressor() -> None:
    """A parameter seen a million times less than the others is kept, and the gap tells how sure
    that is.
    """
    rng = np.random.default_rng(0)
    draws = [
        np.concatenate(
            [
                W,
                W[:, :, :1] + 1e-6 * rng.standard_normal((40, 2, 1)),
                W[:, :, :1] - 2 * W[:, :, 1:2],
            ],
            axis=2,
        )
        * [1e-5, 1.0, 1e3, 1.0, 1e4]
        for W in rng.standard_normal((2, 40, 2, 3))
    ]
    parts, scale = engine_base._equilibrate(draws)
    triangle = np.linalg.qr(np.concatenate(parts), mode="r")
    independent = engine_base._independent(triangle, engine_base.COLUMN_ROUNDING)
    assert independent == [0, 1, 2, 3]
    base = engine_base._regroup(
        triangle,
        scale,
        independent,
        tuple(engine_base.Parameter(name, "kg") for name in ("a.m", "b.m", "c.m", "d.m", "e.m")),
    )
    np.testing.assert_allclose(base.matrix[:, 4], [1e9, -2e4, 0, 0], rtol=1e-5, atol=1e-3)
    assert 1e7 < base.gap < 1e11
