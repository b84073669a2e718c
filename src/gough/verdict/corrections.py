"""What a diagnosis found, written into a description of the logs or into a robot file."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import isfinite
from typing import Any, NamedTuple

from gough.core.documents import toml_text
from gough.core.names import inside_leg
from gough.engine import Model
from gough.identification.diagnosis import NamedFault
from gough.logs.description import (
    DESCRIPTION_FORMAT,
    Clock,
    Description,
    Signal,
)
from gough.logs.recording import JOINT_KINDS, KINDS
from gough.mechanism.terms import TERMS
from gough.verdict.faults import ALL_MOTORS, add_term_advice

EFFORTS = ("effort", "current")
POSITIONS = ("position", "reference")
MOTION = ("position", "reference", "velocity")
TIME_UNITS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}


def _divided(signal: Signal, by: float) -> Signal:
    return signal._replace(
        factor=signal.factor / by,
        offset=signal.offset / by,
        turn=signal.turn / abs(by),
    )


def _clocked(signal: Signal, slower: float) -> Signal:
    factors = tuple(factor / slower for factor in signal.clock.factors)
    return signal._replace(clock=signal.clock._replace(factors=factors))


def _moved(signal: Signal, size: float) -> Signal:
    return signal._replace(offset=signal.offset - size)


class Correction(NamedTuple):
    """How the descriptions of signals are changed so that a log is read without a fault."""

    kinds: Sequence[str]  # of the signals that the fault is about
    # a signal, corrected by the size of the fault
    change: Callable[[Signal, float], Signal]


CORRECTIONS: dict[str, Correction] = {}
"""By the name of the fault."""


def register_correction(
    fault: str, kinds: Sequence[str], change: Callable[[Signal, float], Signal]
) -> None:
    """Make known how `--apply` corrects a fault.

    Args:
        fault: Its name.
        kinds: Of the signals that it is about: position, velocity,
            effort, current, ...
        change: Function of a signal of the description and the size of
            the fault.
    """
    CORRECTIONS[fault] = Correction(kinds, change)


register_correction(
    "effort delay", EFFORTS, lambda signal, size: signal._replace(delay=signal.delay + size)
)
register_correction("effort offset", EFFORTS, _moved)
register_correction("encoder offset", POSITIONS, _moved)
register_correction("effort scale", EFFORTS, _divided)
register_correction("effort sign", EFFORTS, _divided)
register_correction("encoder scale", MOTION, lambda signal, size: _divided(signal, 1 + size))
register_correction("position unit", MOTION, _divided)
register_correction("position sign", MOTION, _divided)
register_correction("clock", KINDS, lambda signal, size: _clocked(signal, 1 + size))
register_correction("clock unit", KINDS, _clocked)
SWAPS = {
    "swapped efforts": EFFORTS,
    "swapped positions": MOTION,
    "swapped channels": EFFORTS + MOTION,
}


def corrected_description(
    description: Description,
    faults: Sequence[NamedFault],
    gains: Mapping[str, float] | None = None,
) -> tuple[Description, tuple[NamedFault, ...]]:
    """Return a description under which the logs read as they should, and the faults it can
    express.

    Args:
        faults: From a diagnosis; what cannot be distinguished is not
            corrected.
        gains: Drive gains by motor, for offsets of efforts that are
            recorded as currents.
    """
    done = []
    for fault in faults:
        name = fault.name
        place = fault.place
        if fault.equivalents or name not in (*CORRECTIONS, *SWAPS):
            continue
        if name in SWAPS:
            signals = _exchanged(description.signals, SWAPS[name], place)
        else:
            amount = -1.0 if name == "effort sign" else fault.size[0]
            if name == "effort offset" and description.of("current"):
                if place not in (gains or {}):
                    continue
                amount /= (gains or {})[place]
            signals = _changed(description.signals, name, place, amount)
        if place == "clock":
            slower = fault.size[0] + (name == "clock")
            period = description.period
            rate = description.rate
            description = replace(
                description,
                period=None if period is None else period / slower,
                rate=None if rate is None else rate * slower,
            )
        description = replace(description, signals=signals)
        done.append(fault)
    return description, tuple(done)


def description_text(description: Description) -> str:
    """Return a description as the TOML that `load_description` reads; numbers in SI, scales beside
    them.
    """
    whole: dict[str, Any] = {
        "format": DESCRIPTION_FORMAT,
        "joints": description.joints,
        "payload": description.payload,
        "rate": None if description.rate is None else f"{description.rate!r} Hz",
        "period": None if description.period is None else f"{description.period!r} s",
        "period_samples": description.period_samples,
        "decimal": None if description.decimal == "." else description.decimal,
        "thousands": description.thousands or None,
        "skip": description.skip or None,
        "start": f"{description.start!r} s" if description.start else None,
        "stop": f"{description.stop!r} s" if isfinite(description.stop) else None,
    }
    for kind in dict.fromkeys(s.kind for s in description.signals):
        own = description.of(kind)
        turns = [s.turn / abs(s.factor) for s in own]  # of the numbers in the columns
        whole[kind] = _given(
            {
                "files": [s.file for s in own] if own[0].file else None,
                "names": None if kind in JOINT_KINDS else [s.name for s in own],
                "columns": [s.column for s in own],
                "units": [s.unit for s in own],
                "scale": [s.factor for s in own],
                "offset": [s.offset for s in own] if any(s.offset for s in own) else None,
                "delay": [f"{s.delay!r} s" for s in own] if any(s.delay for s in own) else None,
                "unwrap": max(turns) if any(turns) else None,
                "interpolation": own[0].interpolation,
                "time": _time(own[0].clock),
            }
        )
    return "# written by a diagnosis; the logs are read as corrected\n" + toml_text(_given(whole))


def _given(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def _exchanged(signals: Sequence[Signal], kinds: Sequence[str], place: str) -> tuple[Signal, ...]:
    """Return signals with the columns of two joints exchanged; `place` is `one and two`."""
    one, two = place.split(" and ")
    other = {one: two, two: one}
    by_name = {(signal.kind, signal.name): signal for signal in signals}
    exchanged = []
    for signal in signals:
        if signal.kind in kinds and signal.name in other:
            source = by_name[signal.kind, other[signal.name]]
            signal = source._replace(name=signal.name, unit=signal.unit)
        exchanged.append(signal)
    return tuple(exchanged)


def _changed(
    signals: Sequence[Signal], fault: str, place: str, amount: float
) -> tuple[Signal, ...]:
    """Return signals with a fault undone where it is; all of them for faults of the clock."""
    kinds, change = CORRECTIONS[fault]
    changed = []
    for signal in signals:
        of_unit = f"{ALL_MOTORS} in {signal.unit.removesuffix('/s')}"
        if signal.kind in kinds and place in (signal.name, ALL_MOTORS, of_unit, "clock"):
            signal = change(signal, amount)
        changed.append(signal)
    return tuple(changed)


def _time(clock: Clock) -> dict[str, Any]:
    if not clock.columns:
        return {}
    scale = 1.0
    units = [_time_unit(factor) for factor in clock.factors]
    if None in units:
        scale = clock.factors[0]
        units = [_time_unit(factor / scale) for factor in clock.factors]
    return _given(
        {
            "columns": clock.columns,
            "units": [unit or "s" for unit in units],
            "scale": scale if scale != 1.0 else None,
            "file": clock.file or None,
            "offset": f"{clock.offset!r} s" if clock.offset else None,
        }
    )


def _time_unit(factor: float) -> str | None:
    for name, seconds in TIME_UNITS.items():
        if abs(factor / seconds - 1) < 1e-12:
            return name
    return None


def corrected_robot(
    text: str, model: Model, faults: Sequence[NamedFault]
) -> tuple[str, tuple[NamedFault, ...]]:
    """Return the text of a robot file with gravity and joint terms corrected, and the faults it
    can express.
    """
    done = []
    terms = {}
    for name, term in TERMS.items():
        advice = add_term_advice(term.label, name)
        terms[advice.split(" to the terms")[0]] = name
    for fault in faults:
        fresh: str | None = None
        if fault.gravity and not fault.equivalents:
            fresh = _with_gravity(text, fault.gravity)
        elif fault.name == "missing term" and not fault.equivalents:
            advised = fault.advice.split(" to the terms")[0]
            if advised in terms:
                fresh = _with_term(text, model, fault.place, terms[advised])
        if fresh is not None:
            text = fresh
            done.append(fault)
    return text, tuple(done)


def _with_gravity(text: str, gravity: Sequence[float]) -> str:
    line = f"gravity = [{', '.join(repr(float(g)) for g in gravity)}]"
    lines = text.splitlines()
    first_table = 0
    while first_table < len(lines) and not lines[first_table].lstrip().startswith("["):
        first_table += 1
    for k in range(first_table):
        if re.match(r"\s*gravity\s*=", lines[k]):
            return "\n".join([*lines[:k], line, *lines[k + 1 :]]) + "\n"
    return "\n".join([*lines[:first_table], line, "", *lines[first_table:]]) + "\n"


def _with_term(text: str, model: Model, joint: str, term: str) -> str | None:
    """Return the text with a term among those of a joint; in a leg's template that is the joint of
    all such legs.
    """
    name = inside_leg(joint, model.mechanism.joint(joint).leg)
    lines = text.splitlines()
    in_joint_table = False
    is_the_joint = False
    for k, line in enumerate(lines):
        if re.match(r"\s*\[\[?[\w.]+\]\]?", line):
            in_joint_table = re.match(r"\s*\[\[([\w]+\.)?joint\]\]", line) is not None
            is_the_joint = False
        elif not in_joint_table:
            continue
        elif re.match(rf"\s*name\s*=\s*[\"']{re.escape(name)}[\"']", line):
            is_the_joint = True
        elif is_the_joint:
            entry = re.match(r"(\s*terms\s*=\s*\[)(.*)(\].*)", line)
            if entry is not None:
                terms = [json.dumps(term)]
                if entry[2].strip():
                    terms.insert(0, entry[2].strip())
                lines[k] = f"{entry[1]}{', '.join(terms)}{entry[3]}"
                return "\n".join(lines) + "\n"
    return None
