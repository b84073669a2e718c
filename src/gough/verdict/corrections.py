"""What a diagnosis found, written into a description of the logs or into a robot file."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import isfinite
from typing import Any

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

EFFORTS, POSITIONS, MOTION = (
    ("effort", "current"),
    ("position", "reference"),
    ("position", "reference", "velocity"),
)
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


CHANGES: dict[str, tuple[Sequence[str], Callable[[Signal, float], Signal]]] = {
    "effort delay": (
        EFFORTS,
        lambda signal, size: signal._replace(delay=signal.delay + size),
    ),
    "effort offset": (EFFORTS, _moved),
    "encoder offset": (POSITIONS, _moved),
    "effort scale": (EFFORTS, _divided),
    "effort sign": (EFFORTS, _divided),
    "encoder scale": (MOTION, lambda signal, size: _divided(signal, 1 + size)),
    "position unit": (MOTION, _divided),
    "position sign": (MOTION, _divided),
    "clock": (KINDS, lambda signal, size: _clocked(signal, 1 + size)),
    "clock unit": (KINDS, _clocked),
    "wrapped counts": (
        ("position",),
        lambda signal, size: signal._replace(turn=abs(size)),
    ),
}
"""By fault: kinds of the signals it is about, and how one is corrected by its size."""
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
        faults: From a diagnosis; what cannot be distinguished is not corrected.
        gains: Drive gains by motor, for offsets of efforts that are recorded as currents.
    """
    done = []
    for fault in faults:
        name, place, signals = fault.name, fault.place, description.signals
        if fault.equivalents or name not in (*CHANGES, *SWAPS):
            continue
        if name in SWAPS:  # exchange where the signals of two joints come from
            one, two = place.split(" and ")
            other, known = (
                {one: two, two: one},
                {(s.kind, s.name): s for s in signals},
            )
            signals = tuple(
                known[s.kind, other[s.name]]._replace(name=s.name, unit=s.unit)
                if s.kind in SWAPS[name] and s.name in other
                else s
                for s in signals
            )
        else:
            (kinds, change), size = CHANGES[name], fault.size[0]
            if name == "effort offset" and description.of("current"):
                if place not in (gains or {}):
                    continue
                size /= (gains or {})[place]
            signals = tuple(
                change(s, size)
                if s.kind in kinds
                and place
                in (
                    s.name,
                    ALL_MOTORS,
                    f"{ALL_MOTORS} in {s.unit.removesuffix('/s')}",
                    "clock",
                )
                else s
                for s in signals
            )
        if place == "clock":
            slower, period, rate = (
                fault.size[0] + (name == "clock"),
                description.period,
                description.rate,
            )
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


def _time(clock: Clock) -> dict[str, Any]:
    if not clock.columns:
        return {}
    scale, units = 1.0, [_time_unit(f) for f in clock.factors]
    if None in units:
        scale, units = (
            clock.factors[0],
            [_time_unit(f / clock.factors[0]) for f in clock.factors],
        )
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
    return next(
        (name for name, size in TIME_UNITS.items() if abs(factor / size - 1) < 1e-12),
        None,
    )


def corrected_robot(
    text: str, model: Model, faults: Sequence[NamedFault]
) -> tuple[str, tuple[NamedFault, ...]]:
    """Return the text of a robot file with gravity and joint terms corrected, and the faults it
    can express.
    """
    done = []
    terms = {
        add_term_advice(term.label, name).split(" to the terms")[0]: name
        for name, term in TERMS.items()
    }
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
    head = next(
        (k for k, own in enumerate(lines) if own.lstrip().startswith("[")),
        len(lines),
    )
    for k in range(head):
        if re.match(r"\s*gravity\s*=", lines[k]):
            return "\n".join([*lines[:k], line, *lines[k + 1 :]]) + "\n"
    return "\n".join([*lines[:head], line, "", *lines[head:]]) + "\n"


def _with_term(text: str, model: Model, joint: str, term: str) -> str | None:
    """Return the text with a term among those of a joint; in a leg's template that is the joint of
    all such legs.
    """
    own = model.mechanism.joint(joint)
    name = inside_leg(joint, own.leg)
    lines = text.splitlines()
    table, named = -1, False
    for k, line in enumerate(lines):
        if re.match(r"\s*\[\[?[\w.]+\]\]?", line):
            table, named = (
                (k if re.match(r"\s*\[\[([\w]+\.)?joint\]\]", line) else -1),
                False,
            )
        elif table >= 0 and re.match(rf"\s*name\s*=\s*[\"']{re.escape(name)}[\"']", line):
            named = True
        elif table >= 0 and named and (found := re.match(r"(\s*terms\s*=\s*\[)(.*)(\].*)", line)):
            listed = found[2].strip()
            lines[k] = f"{found[1]}{listed}{', ' if listed else ''}{json.dumps(term)}{found[3]}"
            return "\n".join(lines) + "\n"
    return None
