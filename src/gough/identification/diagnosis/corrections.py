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
from gough.identification.diagnosis.mistakes import Mistake
from gough.logs.description import FORMAT, Clock, Description, Signal
from gough.logs.recording import JOINT_KINDS
from gough.mechanism.terms import TERMS

EVERY = {"all motors": "", "all motors in m": "m", "all motors in rad": "rad"}  # and the unit they have
TIME_UNITS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}

Change = Callable[[Description, Mistake, Mapping[str, float]], Description | None]


def corrected_description(description: Description, mistakes: Sequence[Mistake],
                          gains: Mapping[str, float] | None = None) -> tuple[Description, tuple[Mistake, ...]]:
    """Return a description under which the logs read as they should, and the mistakes it can express.

    Args:
        description: Of the logs as they are.
        mistakes: From a diagnosis.
        gains: Drive gains by motor, for offsets of efforts that are recorded as currents.
    """
    done = []
    for mistake in mistakes:
        known = mistake.name in CHANGES and not mistake.alike  # what cannot be told apart is not corrected
        fresh = CHANGES[mistake.name](description, mistake, gains or {}) if known else None
        if fresh is not None:
            description = fresh
            done.append(mistake)
    return description, tuple(done)


def _at(signal: Signal, place: str) -> bool:
    if place in EVERY:
        unit = EVERY[place]
        return not unit or signal.unit in (unit, f"{unit}/s")
    return signal.name == place


def _with(description: Description, kinds: Sequence[str], place: str,
          change: Callable[[Signal], Signal]) -> Description:
    """Return a description with the signals of some kinds and a place changed."""
    return replace(description, signals=tuple(
        change(s) if s.kind in kinds and _at(s, place) else s for s in description.signals))


def _scaled(kinds: Sequence[str], plus: float) -> Change:
    """Divide columns by the size of a mistake plus a number."""
    def change(description: Description, mistake: Mistake, gains: Mapping[str, float]) -> Description:
        by = mistake.size[0] + plus
        return _with(description, kinds, mistake.place, lambda s: s._replace(
            factor=s.factor / by, offset=s.offset / by, turn=s.turn / abs(by)))

    return change


def _moved(kinds: Sequence[str], name: str, sign: float) -> Change:
    """Add the size of a mistake, times a sign, to a field of columns; an offset of currents is divided by the gain."""
    def change(description: Description, mistake: Mistake, gains: Mapping[str, float]) -> Description | None:
        recorded = name == "offset" and "current" in kinds and bool(description.of("current"))
        if recorded and mistake.place not in gains:
            return None
        size = sign * mistake.size[0] / (gains[mistake.place] if recorded else 1.0)
        return _with(description, kinds, mistake.place, lambda s: s._replace(**{name: getattr(s, name) + size}))

    return change


def _clock(plus: float) -> Change:
    def change(description: Description, mistake: Mistake, gains: Mapping[str, float]) -> Description:
        slower = mistake.size[0] + plus
        signals = tuple(s._replace(clock=s.clock._replace(factors=tuple(f / slower for f in s.clock.factors)))
                        for s in description.signals)
        period = None if description.period is None else description.period / slower
        rate = None if description.rate is None else description.rate * slower
        return replace(description, signals=signals, period=period, rate=rate)

    return change


def _swap(kinds: Sequence[str]) -> Change:
    """Exchange where the signals of two joints come from."""
    def change(description: Description, mistake: Mistake, gains: Mapping[str, float]) -> Description:
        one, two = mistake.place.split(" and ")
        other, known = {one: two, two: one}, {(s.kind, s.name): s for s in description.signals}
        return replace(description, signals=tuple(
            known[s.kind, other[s.name]]._replace(name=s.name, unit=s.unit)
            if s.kind in kinds and s.name in other else s for s in description.signals))

    return change


def _wrapped(description: Description, mistake: Mistake, gains: Mapping[str, float]) -> Description:
    turn = abs(mistake.size[0])
    return _with(description, ["position"], mistake.place, lambda s: s._replace(turn=turn))


EFFORTS, POSITIONS, MOTION = ("effort", "current"), ("position", "reference"), ("position", "reference", "velocity")
CHANGES: dict[str, Change] = {
    "effort delay": _moved(EFFORTS, "delay", 1.0), "effort offset": _moved(EFFORTS, "offset", -1.0),
    "encoder offset": _moved(POSITIONS, "offset", -1.0), "gain": _scaled(EFFORTS, 1.0),
    "effort unit": _scaled(EFFORTS, 0.0), "effort sign": _scaled(EFFORTS, 0.0),
    "encoder scale": _scaled(MOTION, 1.0), "position unit": _scaled(MOTION, 0.0),
    "position sign": _scaled(MOTION, 0.0), "clock": _clock(1.0), "clock unit": _clock(0.0),
    "swapped efforts": _swap(EFFORTS), "swapped positions": _swap(MOTION), "swapped channels": _swap(EFFORTS + MOTION),
    "wrapped counts": _wrapped}


def description_text(description: Description) -> str:
    """Return a description as the TOML that `load_description` reads; numbers in SI, scales beside them."""
    whole: dict[str, Any] = {
        "format": FORMAT, "joints": description.joints, "payload": description.payload,
        "rate": None if description.rate is None else f"{description.rate!r} Hz",
        "period": None if description.period is None else f"{description.period!r} s",
        "period_samples": description.period_samples,
        "decimal": None if description.decimal == "." else description.decimal,
        "thousands": description.thousands or None, "skip": description.skip or None,
        "start": f"{description.start!r} s" if description.start else None,
        "stop": f"{description.stop!r} s" if isfinite(description.stop) else None}
    for kind in dict.fromkeys(s.kind for s in description.signals):
        own = description.of(kind)
        turns = [s.turn / abs(s.factor) for s in own]  # of the numbers in the columns
        whole[kind] = _given({
            "files": [s.file for s in own] if own[0].file else None,
            "names": None if kind in JOINT_KINDS else [s.name for s in own],
            "columns": [s.column for s in own], "units": [s.unit for s in own], "scale": [s.factor for s in own],
            "offset": [s.offset for s in own] if any(s.offset for s in own) else None,
            "delay": [f"{s.delay!r} s" for s in own] if any(s.delay for s in own) else None,
            "unwrap": max(turns) if any(turns) else None, "interpolation": own[0].interpolation,
            "time": _time(own[0].clock)})
    return "# written by a diagnosis; the logs are read as corrected\n" + toml_text(_given(whole))


def _given(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def _time(clock: Clock) -> dict[str, Any]:
    if not clock.columns:
        return {}
    scale, units = 1.0, [_time_unit(f) for f in clock.factors]
    if None in units:
        scale, units = clock.factors[0], [_time_unit(f / clock.factors[0]) for f in clock.factors]
    return _given({"columns": clock.columns, "units": [unit or "s" for unit in units],
                   "scale": scale if scale != 1.0 else None, "file": clock.file or None,
                   "offset": f"{clock.offset!r} s" if clock.offset else None})


def _time_unit(factor: float) -> str | None:
    return next((name for name, size in TIME_UNITS.items() if abs(factor / size - 1) < 1e-12), None)


# -- robot files ------------------------------------------------------------------------------------------------------


def corrected_robot(text: str, model: Model, mistakes: Sequence[Mistake]) -> tuple[str, tuple[Mistake, ...]]:
    """Return the text of a robot file with gravity and joint terms corrected, and the mistakes it can express.

    Args:
        text: Of the robot file.
        model: The robot as it is.
        mistakes: From a diagnosis.
    """
    done = []
    labels = {f"missing {term.label}": name for name, term in TERMS.items()}
    for mistake in mistakes:
        fresh: str | None = None
        if mistake.alike:
            continue
        if mistake.gravity:
            fresh = _with_gravity(text, mistake.gravity)
        elif mistake.name in labels:
            fresh = _with_term(text, model, mistake.place, labels[mistake.name])
        if fresh is not None:
            text = fresh
            done.append(mistake)
    return text, tuple(done)


def _with_gravity(text: str, gravity: Sequence[float]) -> str:
    line = f"gravity = [{', '.join(repr(float(g)) for g in gravity)}]"
    lines = text.splitlines()
    head = next((k for k, own in enumerate(lines) if own.lstrip().startswith("[")), len(lines))
    for k in range(head):
        if re.match(r"\s*gravity\s*=", lines[k]):
            return "\n".join([*lines[:k], line, *lines[k + 1:]]) + "\n"
    return "\n".join([*lines[:head], line, "", *lines[head:]]) + "\n"


def _with_term(text: str, model: Model, joint: str, term: str) -> str | None:
    """Return the text with a term among those of a joint; in a leg's template that is the joint of all such legs."""
    own = model.mechanism.joint(joint)
    name = inside_leg(joint, own.leg)
    lines = text.splitlines()
    table, named = -1, False
    for k, line in enumerate(lines):
        if re.match(r"\s*\[\[?[\w.]+\]\]?", line):
            table, named = (k if re.match(r"\s*\[\[([\w]+\.)?joint\]\]", line) else -1), False
        elif table >= 0 and re.match(rf"\s*name\s*=\s*[\"']{re.escape(name)}[\"']", line):
            named = True
        elif table >= 0 and named and (found := re.match(r"(\s*terms\s*=\s*\[)(.*)(\].*)", line)):
            listed = found[2].strip()
            lines[k] = f"{found[1]}{listed}{', ' if listed else ''}{json.dumps(term)}{found[3]}"
            return "\n".join(lines) + "\n"
    return None
