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
from gough.logs.description import FORMAT, Description, Group, TimeBase
from gough.logs.recording import JOINT_KINDS
from gough.mechanism.terms import TERMS

EVERY = {"all motors": "", "all motors in m": "m", "all motors in rad": "rad"}  # and the unit they have
TIME_UNITS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}

Kinds = Callable[[Description], Sequence[str]]
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


def _columns(group: Group, place: str) -> list[int]:
    if place in EVERY:
        unit = EVERY[place]
        return [k for k, own in enumerate(group.units) if not unit or own in (unit, f"{unit}/s")]
    return [group.names.index(place)] if place in group.names else []


def _efforts(description: Description) -> tuple[str, ...]:
    return tuple(g.kind for g in description.groups if g.kind in ("effort", "current"))


def _positions(description: Description) -> tuple[str, ...]:
    return tuple(g.kind for g in description.groups if g.kind in ("position", "reference"))


def _motion(description: Description) -> tuple[str, ...]:
    return (*_positions(description), "velocity")


def _with(description: Description, kinds: Sequence[str], change: Callable[[Group], Group]) -> Description:
    return replace(description, groups=tuple(change(g) if g.kind in kinds else g for g in description.groups))


def _changed(group: Group, place: str, name: str, change: Callable[[float], float]) -> Group:
    """Return a group with one field of the columns of a place changed; what was not given is zero."""
    values = list(getattr(group, name)) or [0.0] * len(group.columns)
    for k in _columns(group, place):
        values[k] = change(values[k])
    changed: dict[str, Any] = {name: tuple(values)}
    return replace(group, **changed)


def _scaled(kinds: Kinds, plus: float) -> Change:
    """Divide columns by the size of a mistake plus a number."""
    def change(description: Description, mistake: Mistake, gains: Mapping[str, float]) -> Description:
        divisor = mistake.size[0] + plus

        def scale(group: Group) -> Group:
            for name, by in (("factors", divisor), ("offsets", divisor), ("turns", abs(divisor))):
                if getattr(group, name):
                    group = _changed(group, mistake.place, name, lambda value, by=by: value / by)  # type: ignore[misc]
            return group

        return _with(description, kinds(description), scale)

    return change


def _moved(kinds: Kinds, name: str, sign: float) -> Change:
    """Add the size of a mistake, times a sign, to a field of columns; an offset of currents is divided by the gain."""
    def change(description: Description, mistake: Mistake, gains: Mapping[str, float]) -> Description | None:
        recorded = name == "offsets" and "current" in kinds(description)
        if recorded and mistake.place not in gains:
            return None
        size = sign * mistake.size[0] / (gains[mistake.place] if recorded else 1.0)
        return _with(description, kinds(description),
                     lambda group: _changed(group, mistake.place, name, lambda value: value + size))

    return change


def _clock(plus: float) -> Change:
    def change(description: Description, mistake: Mistake, gains: Mapping[str, float]) -> Description:
        slower = mistake.size[0] + plus

        def run(group: Group) -> Group:
            return replace(group, time=replace(group.time, factors=tuple(f / slower for f in group.time.factors)))

        period = None if description.period is None else description.period / slower
        rate = None if description.rate is None else description.rate * slower
        return replace(_with(description, [g.kind for g in description.groups], run), period=period, rate=rate)

    return change


def _swap(kinds: Kinds) -> Change:
    def change(description: Description, mistake: Mistake, gains: Mapping[str, float]) -> Description:
        def exchange(group: Group) -> Group:
            i, j = (group.names.index(name) for name in mistake.place.split(" and "))
            order = list(range(len(group.columns)))
            order[i], order[j] = j, i
            fields = ("columns", "factors", "offsets", "delays", "turns", "files")
            turned: dict[str, Any] = {name: tuple(getattr(group, name)[k] for k in order) for name in fields
                                      if getattr(group, name)}
            return replace(group, **turned)

        return _with(description, kinds(description), exchange)

    return change


def _wrapped(description: Description, mistake: Mistake, gains: Mapping[str, float]) -> Description:
    turn = abs(mistake.size[0])
    return _with(description, ["position"], lambda group: _changed(group, mistake.place, "turns", lambda value: turn))


CHANGES: dict[str, Change] = {
    "effort delay": _moved(_efforts, "delays", 1.0), "effort offset": _moved(_efforts, "offsets", -1.0),
    "encoder offset": _moved(_positions, "offsets", -1.0), "gain": _scaled(_efforts, 1.0),
    "effort unit": _scaled(_efforts, 0.0), "effort sign": _scaled(_efforts, 0.0),
    "encoder scale": _scaled(_motion, 1.0), "position unit": _scaled(_motion, 0.0),
    "position sign": _scaled(_motion, 0.0), "clock": _clock(1.0), "clock unit": _clock(0.0),
    "swapped efforts": _swap(_efforts), "swapped positions": _swap(_motion),
    "swapped channels": _swap(lambda description: (*_efforts(description), *_motion(description))),
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
    for group in description.groups:
        turns = [t / abs(f) for t, f in zip(group.turns, group.factors)]  # of the numbers in the columns
        whole[group.kind] = _given({
            "files": group.files or None, "names": None if group.kind in JOINT_KINDS else group.names,
            "columns": group.columns, "units": group.units, "scale": group.factors,
            "offset": group.offsets if any(group.offsets) else None,
            "delay": [f"{delay!r} s" for delay in group.delays] if any(group.delays) else None,
            "unwrap": max(turns) if any(turns) else None, "interpolation": group.interpolation,
            "time": _time(group.time)})
    return "# written by a diagnosis; the logs are read as corrected\n" + toml_text(_given(whole))


def _given(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def _time(time: TimeBase) -> dict[str, Any]:
    if not time.columns:
        return {}
    scale, units = 1.0, [_time_unit(f) for f in time.factors]
    if None in units:
        scale, units = time.factors[0], [_time_unit(f / time.factors[0]) for f in time.factors]
    return _given({"columns": time.columns, "units": [unit or "s" for unit in units],
                   "scale": scale if scale != 1.0 else None, "file": time.file,
                   "offset": f"{time.offset!r} s" if time.offset else None})


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
