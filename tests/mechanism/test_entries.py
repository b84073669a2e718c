"""What the entries of joint terms and closures say of themselves must be so."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import casadi as ca
import numpy as np
import pytest

from gough.core.errors import InvalidInput, InvalidMechanism
from gough.core.units import is_unit
from gough.mechanism import CLOSURES, TERMS, Closure, Frame, JointState, Placement, register_closure
from gough.mechanism.closures import Configuration
from gough.mechanism.expression import unit_powers

PAGE = (Path(__file__).parents[2] / "docs" / "robot-file.md").read_text(encoding="utf-8")


def value(
    term: str, q: float, qd: float, qdd: float = 0.0, lags: tuple[float, ...] | None = None
) -> float:
    return float(
        TERMS[term].value(
            JointState(
                q=q,
                qd=qd,
                qdd=qdd,
                sign=np.sign(qd),
                math=np,
                lags=lags,
                effort=1.0,
                channels={"temperature": 25 + 9 * qdd},
            )
        )
    )


@pytest.mark.parametrize("term", TERMS)
def test_coulomb_is_half_the_jump_where_the_velocity_changes_sign(term: str) -> None:
    slow = 1.0 if term == "fs_smooth" else 1e-24  # which is steep instead
    lags = (0.3,) * len(TERMS[term].lags)
    jumps = [
        value(term, q, slow, lags=lags) - value(term, q, -slow, lags=lags) for q in (-0.7, 0.1, 0.4)
    ]
    np.testing.assert_allclose(jumps, 2 * TERMS[term].coulomb, atol=1e-11)


@pytest.mark.parametrize("term", TERMS)
def test_friction_and_nothing_else_always_takes_energy_out(term: str) -> None:
    states = np.random.default_rng(0).standard_normal((200, 3))
    power = np.array([qd * value(term, q, qd, qdd) for q, qd, qdd in states])
    assert bool((power >= 0).all() and (power > 0).any()) == TERMS[term].dissipative


@pytest.mark.parametrize("term", TERMS)
def test_numbers_and_expressions_are_the_same(term: str) -> None:
    symbols = ca.SX.sym("q"), ca.SX.sym("qd"), ca.SX.sym("qdd")
    state = JointState(
        q=symbols[0],
        qd=symbols[1],
        qdd=symbols[2],
        sign=ca.sign(symbols[1]),
        math=ca,
        effort=1.0,
        channels={"temperature": 25 + 9 * symbols[2]},
    )
    graph = ca.Function("f", list(symbols), [TERMS[term].value(state)])
    for numbers in np.random.default_rng(1).standard_normal((5, 3)):
        assert float(graph(*numbers)) == pytest.approx(value(term, *numbers))
    for unit in TERMS[term].units:
        assert is_unit(unit) or unit_powers(unit) is not None or TERMS[term].channels


def end(placement: Placement) -> SimpleNamespace:
    return SimpleNamespace(rotation=placement.rotation, translation=placement.translation)


def residual(kind: str, a: Placement, b: Placement) -> np.ndarray:
    frames = (
        {}
        if not CLOSURES[kind].frames
        else {"a": Frame(body="x", placement=a), "b": Frame(body="y", placement=b)}
    )
    closure = Closure(
        name="loop",
        kind=kind,
        values=dict.fromkeys(CLOSURES[kind].values, 0.5),
        **frames,
        coefficients={} if frames else {"j": 2.0, "k": -1.0},
        constant=0.0 if frames else 0.3,
    )
    return np.array(
        CLOSURES[kind].residual(closure, Configuration({"j": 0.1, "k": 0.5}, end(a), end(b))),
        dtype=float,
    )


PLACED = Placement.xyz_rpy((0.3, -0.2, 0.5), (0.4, 0.1, -0.8))
SHIFT = {"distance": (0.3, 0.4, 0.0), "parallel": (0.1, 0.7, -0.3)}
TURN = {
    "point": (0.3, 0.2, 0.1),
    "distance": (0.3, 0.2, 0.1),
    "revolute": (0.0, 0.0, 0.9),
    "parallel": (0.0, 0.0, 0.9),
}


@pytest.mark.parametrize("kind", CLOSURES)
def test_a_closure_is_closed_where_its_label_says_and_open_elsewhere(kind: str) -> None:
    """Frame a is at PLACED; b is moved from it as the kind allows, then as it does not."""
    allowed = PLACED.then(
        Placement.xyz_rpy(SHIFT.get(kind, (0.0, 0.0, 0.0)), TURN.get(kind, (0.0, 0.0, 0.0)))
    )
    closed = residual(kind, PLACED, allowed)
    assert closed.shape == (len(CLOSURES[kind].units),)
    np.testing.assert_allclose(
        closed - (0.0 if kind != "coupling" else 2 * 0.1 - 0.5 + 0.3), 0.0, atol=1e-15
    )
    if kind != "coupling":
        beyond = allowed.then(Placement.xyz_rpy((1e-3, 2e-3, 3e-3), (1e-3, 2e-3, 3e-3)))
        assert (np.abs(residual(kind, PLACED, beyond)) > 1e-5).all()


def test_only_a_weld_half_a_turn_apart_is_mistaken() -> None:
    other = PLACED.then(Placement((("Rx", np.pi),)))
    assert np.abs(residual("weld", PLACED, other)).max() < 1e-15
    assert "half a turn" in CLOSURES["weld"].wrong_branch(end(PLACED), end(other))
    assert not CLOSURES["weld"].wrong_branch(end(PLACED), end(PLACED))


def test_entries_use_words_that_their_readers_know() -> None:
    for kind in CLOSURES.values():
        assert set(kind.mjcf or ()) <= {"connect", "weld", "axis", "slider", "rod", "sum", "reel"}
        assert set(kind.pinocchio or ()) <= {"gap", "axis", "turn", "distance", "sum"}


def test_unknown_kinds_and_missing_parts_are_refused() -> None:
    with pytest.raises(InvalidMechanism, match="unknown kind 'pont'; did you mean 'point'"):
        Closure(name="loop", kind="pont")
    with pytest.raises(InvalidInput, match="already a closure kind 'point'"):
        register_closure(replace(CLOSURES["weld"], name="point"))


def test_the_page_lists_every_term_and_closure() -> None:
    """With the number of equations."""
    terms = re.findall(
        r"^\| `(\w+)` \| [^|]+ \| [^|]+ \|$",
        PAGE.split("Joint terms (a joint's effort")[1].split("Passive joints")[0],
        re.MULTILINE,
    )
    closures = re.findall(
        r"^\| `(\w+)` \| (\d) \|", PAGE.split("## `[[closure]]`")[1], re.MULTILINE
    )
    assert terms == list(TERMS)
    assert {name: int(count) for name, count in closures} == {
        k.name: len(k.units) for k in CLOSURES.values()
    }
