"""Named faults: their words, units, levels, notices and JSON."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from gough.core.documents import plain, restored
from gough.core.notices import Notice
from gough.identification.diagnosis import Diagnosis, Limit, NamedFault, describe, limits_table
from gough.verdict.acceptance import Gain
from gough.verdict.discrete_faults import discrete_faults
from gough.verdict.evidence import Evidence
from gough.verdict.explanation import Explanation
from gough.verdict.faults import Fault, all_faults
from gough.verdict.naming import (
    MAX_EQUIVALENTS,
    UNIT_FACTORS,
    name_fault,
    unit_of,
    without_other_causes,
)

GAIN = Gain(
    blocks=np.array([0.2, 0.1, -0.05, np.nan]),
    scope=np.ones(4, bool),
    mean=0.1,
    t=5.0,
    threshold=3.0,
    logs=np.array([0.1, 0.1]),
    outside=0.0,
    before=0.06,
    after=0.02,
    explained=0.05,
)


def fault_named(evidence: Evidence, name: str) -> Fault:
    return next(fault for fault in all_faults(evidence) if fault.name == name)


def explained(
    evidence: Evidence,
    name: str,
    place: str,
    size: tuple[float, ...],
    logs: tuple[int, ...] = (0, 1),
) -> Explanation:
    return Explanation(
        fault=fault_named(evidence, name),
        place=place,
        logs=logs,
        size=np.array(size),
        std=np.full(len(size), 1e-3),
        gain=GAIN,
    )


@pytest.mark.parametrize(
    ("name", "place", "size", "text", "advice"),
    [
        (
            "effort delay",
            "all motors",
            4e-3,
            "the effort of all motors lags the position by 4.0 +- 1.0 ms",
            'put delay = "4 ms" in the [effort] table of the description, for all motors',
        ),
        (
            "encoder offset",
            "left.motor",
            0.1,
            "the position of left.motor is off by 5.730 +- 0.057 deg",
            "put offset = -0.1 [rad] for its position",
        ),
        (
            "encoder scale",
            "left.motor",
            0.25,
            "the position of left.motor is too large by 25.00 +- 0.10 %",
            "put scale = 0.8 for the position of left.motor",
        ),
        (
            "effort offset",
            "left.motor",
            0.5,
            "the effort of left.motor is off by 0.5000 +- 0.0010 N m",
            "zero the current sensor of left.motor",
        ),
        (
            "clock",
            "clock",
            0.25,
            "times are too long by 25.00 +- 0.10 %",
            "multiply the times by 0.8",
        ),
    ],
)
def test_a_fault_says_its_size_and_what_to_change(
    clean: Evidence, name: str, place: str, size: float, text: str, advice: str
) -> None:
    fault = name_fault([explained(clean, name, place, (size,))], clean)
    assert fault.text == text
    assert advice in fault.advice
    assert (fault.name, fault.place, fault.logs, fault.level) == (name, place, (), "warning")
    assert fault.better_blocks == (2, 3)


@pytest.mark.parametrize(
    ("factor", "name", "level", "text"),
    [
        (-1.05, "effort sign", "error", "has the wrong sign"),
        (1.1, "effort scale", "warning", "is 1.1000 +- 0.0010 times what it should be"),
        (2.35, "effort scale", "error", "is 2.3500 +- 0.0010 times what it should be"),
        (-3.0, "effort scale", "error", "-3.0000 +- 0.0010 times what it should be"),
        (1000.0, "effort scale", "error", "(milli or kilo)"),
    ],
)
def test_an_effort_scale_is_a_sign_a_gain_or_a_unit(
    clean: Evidence, factor: float, name: str, level: str, text: str
) -> None:
    fault = name_fault([explained(clean, "effort scale", "left.motor", (factor - 1,))], clean)
    assert (fault.name, fault.level, fault.unit) == (name, level, "times")
    assert fault.size == (pytest.approx(factor),)
    assert text in fault.text


def test_a_tilt_gives_the_gravity_to_write_down(clean: Evidence) -> None:
    fault = name_fault([explained(clean, "tilt", "base", (0.03, 0.04))], clean)
    before = np.array(clean.model.mechanism.gravity)
    after = np.array(fault.gravity)
    assert np.linalg.norm(after) == pytest.approx(np.linalg.norm(before))
    cosine = before @ after / (before @ before)
    assert np.arccos(cosine) == pytest.approx(0.05, rel=1e-3)
    assert f"gravity = [{', '.join(f'{g:.4g}' for g in after)}]" in fault.advice


def test_a_fault_in_one_log_names_it(clean: Evidence) -> None:
    fault = name_fault([explained(clean, "effort delay", "left.motor", (0.01,), (1,))], clean)
    assert fault.logs == ("log 1",)
    assert fault.notice().where == "log 1: left.motor"


def test_faults_that_predict_alike_are_named_together(clean: Evidence) -> None:
    group = [
        explained(clean, "effort delay", "left.motor", (0.01,)),
        explained(clean, "effort offset", "left.motor", (0.01,)),
        explained(clean, "effort offset", "left.motor", (0.01,)),
    ]
    fault = name_fault(group, clean)
    assert fault.equivalents == ("the effort of left.motor is off by 0.0100 +- 0.0010 N m",)
    assert fault.notice().text.startswith("one of these: the effort of left.motor lags")
    many = [*group[:1], *(replace(group[1], size=np.array([k + 1.0])) for k in range(7))]
    fault = name_fault(many, clean)
    assert len(fault.equivalents) == MAX_EQUIVALENTS + 1
    assert fault.equivalents[-1] == "3 others like these"


def test_an_alternative_in_other_logs_says_in_which(clean: Evidence) -> None:
    group = [
        explained(clean, "encoder offset", "left.motor", (0.1,), (0,)),
        explained(clean, "encoder offset", "left.motor", (-0.1,), (1,)),
        explained(clean, "encoder offset", "left.motor", (0.05,)),
    ]
    assert name_fault(group, clean).equivalents == (
        "in log 1: the position of left.motor is off by -5.730 +- 0.057 deg",
        "in all logs: the position of left.motor is off by 2.865 +- 0.057 deg",
    )


def test_the_same_fault_in_another_shape_is_no_alternative(clean: Evidence) -> None:
    shapes = [fault for fault in all_faults(clean) if "larger at low speed" in fault.text]
    assert len(shapes) > 1
    first = replace(explained(clean, "missing term", "left.motor", (0.1,)), fault=shapes[0])
    other_joint = replace(first, place="right.motor")
    group = [first, replace(first, fault=shapes[1]), other_joint]
    (equivalent,) = name_fault(group, clean).equivalents
    assert "right.motor" in equivalent


def test_what_is_named_by_itself_is_no_alternative(clean: Evidence) -> None:
    left = explained(clean, "encoder offset", "left.motor", (0.1,))
    right = explained(clean, "encoder offset", "right.motor", (0.1,))
    scale = explained(clean, "encoder scale", "left.motor", (0.1,))
    groups = [(left, right, scale), (right, left)]
    assert without_other_causes(groups) == [[left, scale], [right]]


def test_a_discrete_fault_is_an_error_with_its_own_words(clean: Evidence) -> None:
    swap = next(
        fault
        for fault in discrete_faults(clean.model.mechanism)
        if fault.name == "swapped positions"
    )
    explanation = Explanation(
        fault=swap,
        place=swap.place,
        logs=(0, 1),
        size=np.zeros(0),
        std=np.zeros(0),
        gain=GAIN,
    )
    fault = name_fault([explanation], clean)
    assert (fault.level, fault.size, fault.unit) == ("error", (), "")
    assert fault.text == "the positions of left.motor and right.motor are swapped"


@pytest.mark.parametrize(
    ("factor", "expected"),
    [
        (1010.0, "milli or kilo"),
        (-1e-3, "milli or kilo"),
        (1 / 57.3, "degrees for radians"),
        (60.0, "per minute for per second"),
        (3.3, ""),
        (1.0, ""),
    ],
)
def test_a_factor_near_that_of_a_unit_is_called_by_it(factor: float, expected: str) -> None:
    assert unit_of(factor) == expected


def test_every_unit_is_called_by_its_own_name() -> None:
    for name, factor in UNIT_FACTORS.items():
        assert unit_of(factor) == name
        assert unit_of(1 / factor) == name


@pytest.mark.parametrize(
    ("size", "unit", "expected"),
    [
        (2e-3, "s", (2.0, "ms")),
        (1e-3, "m", (1.0, "mm")),
        (np.pi, "rad", (180.0, "deg")),
        (0.1, "1", (10.0, "%")),
        (3.0, "N m", (3.0, "N m")),
    ],
)
def test_sizes_are_said_in_usual_units(size: float, unit: str, expected: tuple[float, str]) -> None:
    number, name = describe(size, unit)
    assert (number, name) == (pytest.approx(expected[0]), expected[1])


def test_a_diagnosis_comes_back_from_json() -> None:
    fault = NamedFault(
        name="effort delay",
        place="leg2",
        size=(1.9e-3,),
        std=(1e-4,),
        unit="s",
        text="the effort of leg2 lags the position by 1.9 +- 0.1 ms",
        advice='put delay = "1.9 ms" there',
        before=0.061,
        after=0.023,
        better_blocks=(15, 16),
        equivalents=("the position of leg2 is off by 3 +- 1 deg",),
    )
    hidden = Limit(name="tilt", place="base", unit="rad", size=np.inf, instead=("leg1.off",))
    limits = (hidden, replace(hidden, size=0.01, instead=()))
    notice = Notice(rule="diagnosis", level="info", text="n")
    diagnosis = Diagnosis(robot="r", faults=(fault,), limits=limits, notices=(notice,))
    again = restored(Diagnosis, json.loads(json.dumps(plain(diagnosis), allow_nan=False)))
    assert again.to_dict() == diagnosis.to_dict()
    json.dumps(diagnosis.to_dict(), allow_nan=False)
    assert fault.sentence == (
        "one of these: the effort of leg2 lags the position by 1.9 +- 0.1 ms; or the position of "
        "leg2 is off by 3 +- 1 deg. Evidence: with it corrected the error of predicting parts left "
        "out falls from 6.1 to 2.3 % of the effort (better in 15 of 16); put delay = "
        '"1.9 ms" there'
    )
    assert diagnosis.level == "warning"
    assert diagnosis.invisible == (hidden,)
    assert "tilt (base)" in diagnosis.summary()
    assert "0.573 deg" in limits_table(limits)
    assert "not detectable" in limits_table(limits)
    document = diagnosis.to_dict()["faults"][0]
    assert (document["size"], document["std"]) == (1.9e-3, 1e-4)


def test_a_headline_names_the_two_clearest_causes_and_counts_the_others() -> None:
    delay = NamedFault(
        name="effort delay", place="a", text="the effort lags", advice="", logs=("x.csv",)
    )
    others = [
        replace(
            delay, text="the effort has the wrong sign", logs=(), equivalents=("something else",)
        ),
        replace(delay, text="not a doubt", level="info"),
        replace(delay, text="a third"),
    ]
    diagnosis = Diagnosis(robot="r", faults=(delay, *others))
    assert diagnosis.causes == [
        "the effort lags (x.csv)",
        "the effort has the wrong sign, or what predicts as well",
        "and 1 more",
    ]
    assert Diagnosis(robot="r").causes == []


def test_a_notice_has_the_numbers_of_its_fault() -> None:
    fault = NamedFault(
        name="tilt",
        place="base",
        size=(0.03, 0.04),
        std=(0.001, 0.002),
        text="t",
        advice="a",
        level="error",
    )
    notice = fault.notice()
    assert (notice.rule, notice.level, notice.where, notice.text) == ("tilt", "error", "base", "t")
    assert notice.numbers == {"size": pytest.approx(0.05), "std": 0.002}
