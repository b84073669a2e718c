"""Terms by expression: the grammar, `[[term]]` in robot files, units, and what is refused where."""

from __future__ import annotations

import re

import numpy as np
import pytest

from gough.core.errors import InvalidInput, InvalidMechanism
from gough.engine import Model, random_motion
from gough.mechanism import JointTerm, Mechanism, parse_robot, robot_text
from gough.mechanism.added_terms import term_table, term_text, with_term_text
from gough.mechanism.expression import evaluate, parse, unit_powers
from gough.mechanism.terms import Constant, JointState

FILE = robot_text("five_bar")[0]
TERM = """
[[term]]
name = "mine"
expression = "sign(qd) * exp(-abs(qd) / speed)"
constants = { speed = "0.1 rad/s" }
"""


def robot(term: str = TERM, terms: str = '"ia", "fv", "fs", "mine"') -> Mechanism:
    return parse_robot(
        FILE.replace('terms = ["ia", "fv", "fs"]', f"terms = [{terms}]") + term, "five_bar.toml"
    )


def number(text: str) -> float:
    return float(evaluate(parse(text), lambda node: {"x": 3.0, "pi": np.pi}[node.value], np))


@pytest.mark.parametrize(
    "text",
    [
        "1 + 2 * 3",
        "2 * 3 + 1",
        "(1 + 2) * 3",
        "-2^2",
        "2^-2",
        "2^3^2",
        "8 / 4 / 2",
        "8 - 4 - 2",
        "-x * -x",
        "+x - -x",
        "1e3 * .5",
        "sin(x) * cos(2 * pi * x)",
        "min(x, 2) - max(x, 5)",
        "sqrt(abs(-x))",
        "floor(x / 2) + tanh(log(x))",
    ],
)
def test_expressions_mean_what_they_mean_in_python(text: str) -> None:
    names = {
        name: getattr(np, name) for name in ("sin", "cos", "sqrt", "floor", "tanh", "log", "pi")
    }
    names |= {"x": 3.0, "abs": abs, "min": min, "max": max}
    assert number(text) == pytest.approx(eval(text.replace("^", "**"), names))  # the oracle


@pytest.mark.parametrize(
    ("text", "position", "words"),
    [
        ("qd +", 5, "expected a number, a name or (, found the end"),
        ("(qd", 4, "expected ), found the end"),
        ("qd qd", 4, "'qd' is not expected"),
        ("2 * sine(q)", 5, "no function 'sine'; did you mean 'sin'"),
        ("sin(q, q)", 1, "sin takes 1 arguments, found 2"),
        ("qd $ 2", 4, "'$' is not expected"),
        ("spee * qd", 1, "no name 'spee'; did you mean 'speed'"),
        ("mine * qd", 1, "leave the coefficient out"),
        ("lag(lag(sign(qd), '1 s'), '1 s')", 1, "a lag inside a lag"),
        ("lag(sign(qd), 2)", 15, "a time or a distance"),
        ("qd / (2 - 2)", 4, "divides by zero"),
        ("9^9^9^9 * q", 4, "has no value"),
        ("qd * log(-1)", 6, "has no value"),
        ("lag(abs(effort), '1 s')", 1, "a lag of the effort"),
        ("elbow.effort", 1, "did you mean 'effort'"),
        ("q * qdd^2", 8, "acceleration can only be a factor"),
        ("qdd * (q + elbow.qdd)", 5, "can only be a factor"),
        ("abs(qdd)", 1, "can only be a factor"),
        ("q / qdd", 3, "can only be a factor"),
        ("lag(qd, '1 kilo')", 10, "'kilo' is not known"),
        ("", 1, "found the end"),
        ("(" * 40 + "qd" + ")" * 40, 31, "nested deeper than 30"),
        ("-" * 90 + "qd", 31, "nested deeper than 30"),
        ("__import__('os')", 1, "no function '__import__'"),
        ("qd.__class__", 1, "no name 'qd.__class__'"),
    ],
)
def test_what_is_no_expression_is_refused_with_its_position(
    text: str, position: int, words: str
) -> None:
    with pytest.raises(InvalidInput, match=re.escape(words)) as caught:
        JointTerm(
            name="mine", label="mine", expression=text, constants={"speed": Constant(value=1.0)}
        )
    assert caught.value.numbers["position"] == position


def test_a_long_expression_is_refused() -> None:
    with pytest.raises(InvalidInput, match="501 characters is too long"):
        parse("q" * 501)


@pytest.mark.parametrize("expression", ["1 / (sign(qd) - 1)", "qd / (qd - qd)"])
def test_a_term_that_divides_by_zero_at_a_reversal_can_be_defined(expression: str) -> None:
    """Its jump there is not finite: it counts as none."""
    assert JointTerm(name="pole", label="pole", expression=expression).coulomb == 0.0


def test_a_term_of_the_file_is_a_column_like_any_other() -> None:
    model = Model(robot())
    motion = random_motion(model, 12)
    qd = motion.qd[:, motion.column("left.motor")]
    expected = np.sign(qd) * np.exp(-np.abs(qd) / 0.1)
    np.testing.assert_allclose(
        model.regressor(motion, ["left.motor.mine"])[:, 0, 0], expected, atol=1e-14
    )
    assert model.unit("left.motor.mine") == "N m"
    assert model.mechanism.has_coulomb(model.mechanism.joint("left.motor"))


def test_a_term_may_see_another_joint_of_its_leg() -> None:
    text = (
        FILE.replace('terms = ["fv"]', 'terms = ["fv", "mine"]', 1)
        + """
[[term]]
name = "mine"
expression = "tanh(motor.qd * '1 s') * sin(q)"
"""
    )
    model = Model(parse_robot(text, "five_bar.toml"))
    motion = random_motion(model, 12)
    for leg in ("left", "right"):
        own, other = (motion.column(f"{leg}.{name}") for name in ("elbow", "motor"))
        value = np.tanh(motion.qd[:, other]) * np.sin(motion.q[:, own])
        lever = model.kinematics.closure_map(motion.q)[:, own, :]
        np.testing.assert_allclose(
            model.regressor(motion, [f"{leg}.elbow.mine"])[:, :, 0],
            lever * value[:, None],
            atol=1e-12,
        )


def test_a_list_of_expressions_is_a_family_that_shares_its_constants() -> None:
    mechanism = robot(
        """
[[term]]
name = "wave"
expression = ["sin(q / pitch)", "cos(q / pitch)"]
constants = { pitch = { start = "10 deg", low = "5 deg", high = "20 deg" } }
""",
        '"ia", "fv", "fs", "wave"',
    )
    assert mechanism.joint("left.motor").terms[3:] == ("wave_1", "wave_2")
    assert list(mechanism.constants) == ["wave.pitch"]
    constant = mechanism.constants["wave.pitch"]
    assert constant.fit
    np.testing.assert_allclose(
        [constant.value, constant.low, constant.high], np.radians([10, 5, 20])
    )
    other = mechanism.with_constants({"wave.pitch": 0.3})
    assert [term.constants["pitch"].value for term in other.terms.values() if term.constants] == [
        0.3,
        0.3,
    ]
    with pytest.raises(InvalidInput, match=r"no constant 'wave\.pich'; did you mean 'wave\.pitch'"):
        mechanism.with_constants({"wave.pich": 0.3})


def test_constants_of_bundled_terms_are_given_in_the_file() -> None:
    given = """
[[term]]
name = "ripple"
constants = { pitch = "7 deg" }
"""
    mechanism = robot(given, '"ia", "fv", "fs", "ripple", "ripple2"')
    assert mechanism.joint("left.motor").terms[3:] == (
        "ripple_sin",
        "ripple_cos",
        "ripple_sin2",
        "ripple_cos2",
    )
    values = [
        term.constants["pitch"].value
        for term in mechanism.terms.values()
        if term.family == "ripple"
    ]
    np.testing.assert_allclose(values, [np.radians(7)] * 4)
    state = JointState(q=0.1, qd=0.0, qdd=0.0, sign=0.0, math=np)
    assert mechanism.terms["ripple_sin2"].value(state) == pytest.approx(
        np.sin(4 * np.pi * 0.1 / np.radians(7))
    )


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            ("exp(-abs", "expp(-abs"),
            r"\[\[term\]\] 'mine', key 'expression': 'sign.*', character 12: no function 'expp'",
        ),
        (
            ('"0.1 rad/s"', '"0.1 mm/s"'),
            r"'mine', key 'expression': 'sign.*', character 12: exp takes a pure number or an "
            r"angle, found a quantity in m\^-1 \(joint 'left\.motor'\)",
        ),
        (('"0.1 rad/s"', '"0.1 s"'), r"key 'expression': .*: exp takes a pure number"),
        (
            ("exp(-abs(qd) / speed)", "(abs(qd) / speed)^qd"),
            r"character 29: a power is a pure number, found a quant",
        ),
        (
            ("constants", 'unit = "N m s"\nconstants'),
            r"'mine', key 'unit': the coefficient of .* in N m s gives no effort",
        ),
        (
            ('"0.1 rad/s"', '{ start = "1 rad/s", high = "0.5 rad/s" }'),
            r"key 'constants\.speed\.start': starts at 1, outs",
        ),
        (
            ('"0.1 rad/s"', '{ low = "1 rad/s" }'),
            r"key 'constants\.speed\.start': is required but missing",
        ),
        (('"0.1 rad/s"', '"fast"'), r"key 'constants\.speed': 'fast' is not a number with a unit"),
        (("speed = ", "sped = "), r"no name 'speed'; did you mean 'sped'"),
        (("speed = ", "qd = "), r"cannot be called 'qd'"),
        (("constants = { ", "constants = { more = 1, "), r"'more' is not in the expression"),
        (('name = "mine"', 'name = "fv"'), r"cannot be called 'fv'"),
        (('expression = "', 'expresion = "'), r"unknown key; did you mean 'expression'"),
        (("sign(qd) *", "elbo.q * sign(qd) *"), r"no joint 'elbo'; did you mean 'elbow'"),
    ],
)
def test_bad_terms_are_refused_by_file_table_and_key(change: tuple[str, str], words: str) -> None:
    with pytest.raises(InvalidMechanism, match=words) as caught:
        robot(TERM.replace(*change))
    assert str(caught.value).startswith("five_bar.toml: [[")


def test_a_bundled_term_keeps_its_expression_and_asks_for_units() -> None:
    with pytest.raises(
        InvalidMechanism, match=r"key 'constants\.pitch': give a unit: length or angle"
    ):
        robot('[[term]]\nname = "ripple"\nconstants = { pitch = 7 }\n', '"ripple"')
    with pytest.raises(InvalidMechanism, match=r"'7 s' measures time, expected joint position"):
        robot('[[term]]\nname = "ripple"\nconstants = { pitch = "7 s" }\n', '"ripple"')
    with pytest.raises(
        InvalidMechanism, match=r"key 'expression': is required but missing.*did you mean 'ripple"
    ):
        robot('[[term]]\nname = "riple_sin"\nconstants = { pitch = "7 deg" }\n', '"fv"')


def test_a_term_without_a_value_on_the_motion_is_named_with_its_sample() -> None:
    model = Model(
        robot('[[term]]\nname = "mine"\nexpression = "1 / (q - rest)"\nconstants = { rest = 1 }\n')
    )
    motion = random_motion(model, 5)
    there = model.mechanism.with_constants(
        {"mine.rest": float(motion.q[3, motion.column("left.motor")])}
    )
    with pytest.raises(
        InvalidInput, match=r"'1 / \(q - rest\)' of left\.motor\.mine has no value at sample 3"
    ):
        Model(there).regressor(motion, ["left.motor.mine"])


@pytest.mark.parametrize("expression", ["floor(q * 1e308)", "exp(1e6 * q^2)"])
def test_a_term_too_large_to_be_squared_has_no_value(expression: str) -> None:
    model = Model(robot(f'[[term]]\nname = "mine"\nexpression = "{expression}"\n'))
    with pytest.raises(InvalidInput, match="mine has no value at sample 0"):
        model.regressor(random_motion(model, 5), ["left.motor.mine"])


@pytest.mark.parametrize(
    ("unit", "powers"),
    [
        ("N m s2/rad2", (1, 2, 1)),
        ("kg m2", (1, 2, 1)),
        ("N/(m s)", (-1, -1, 1)),
        ("N s0.5/m0.5", (-0.5, 0.5, 1)),
    ],
)
def test_units_are_powers_of_base_units(unit: str, powers: tuple[float, ...]) -> None:
    assert unit_powers(unit) == powers
    assert unit_powers("N/degC") is None


LIMITED = """
[[term]]
name = "cubed"
expression = "qd^3"
validity = { qd = ["-30 deg/s", "60 deg/s"] }
joints = ["left.motor"]
"""


def test_a_term_keeps_its_value_beyond_its_range_of_validity() -> None:
    model = Model(parse_robot(FILE + LIMITED, "five_bar.toml"))
    assert "cubed" in model.mechanism.joint("left.motor").terms
    assert "cubed" not in model.mechanism.joint("right.motor").terms
    low, high = model.mechanism.terms["cubed"].validity["qd"]
    assert (low, high) == pytest.approx((-np.pi / 6, np.pi / 3))
    motion = random_motion(model, 50)
    qd = motion.qd[:, model.mechanism.coordinates.index("left.motor")]
    assert (qd < low).any()
    assert (qd > high).any()
    column = model.mechanism.standard.names.index("left.motor.cubed")
    zero = np.zeros(len(model.mechanism.standard.names))
    without = model.inverse_dynamics(motion, zero)
    zero[column] = 2.0
    effort = model.inverse_dynamics(motion, zero) - without
    np.testing.assert_allclose(effort[:, 0], 2 * np.clip(qd, low, high) ** 3, atol=1e-12)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("left.motor", "left.moter", "no joint 'left.moter'; did you mean 'left.motor'"),
        ('["-30 deg/s", "60 deg/s"]', '["60 deg/s", "-30 deg/s"]', "the lower end first"),
        ('["-30 deg/s", "60 deg/s"]', "[-1, 1]", "give a unit: velocity or angular velocity"),
        ('["-30 deg/s", "60 deg/s"]', '["1 kg", "2 kg"]', "measures mass, expected velocity or"),
        ('["-30 deg/s", "60 deg/s"]', '["1 rad/s"]', "two"),
        ("validity = { qd", "validity = { q", "measures angular velocity, expected length or"),
        ('"qd^3"', '"sign(qd)"', "a range of validity of 'qd' is not possible"),
    ],
)
def test_a_wrong_range_of_validity_is_refused_with_the_reason(
    old: str, new: str, message: str
) -> None:
    with pytest.raises(InvalidMechanism, match=re.escape(message)):
        parse_robot(FILE + LIMITED.replace(old, new), "five_bar.toml")


@pytest.mark.parametrize("name", ["fs_distance", "stribeck", "fv_plus", "fs_load", "fs_time"])
def test_an_added_term_written_to_text_and_read_back_is_the_same(name: str) -> None:
    mechanism = parse_robot(FILE, "five_bar.toml")
    term = mechanism.known_terms[name]
    joint = mechanism.joint("left.motor")
    constants = {f"{term.family}.{word}": 0.123456789 for word in term.constants}
    validity = {word: (-0.1234, 0.9876) for word in term.limited_names}
    table = term_table("added_1", term.label, [term], joint, constants, validity)
    text = term_text([table])
    read = with_term_text(mechanism, text).terms["added_1"]
    assert read == parse_robot(FILE + text, "five_bar.toml").terms["added_1"]
    for key in ("label", "expression", "coulomb", "nonnegative", "dissipative"):
        assert getattr(read, key) == getattr(term, key)
    assert read.validity == validity
    assert {constant.value for constant in read.constants.values()} == set(constants.values())
    assert read.unit("revolute") == term.unit("revolute")
