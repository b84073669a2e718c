"""What a diagnosis found, written into a description of the logs or into a robot file."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from gough.core.names import inside_leg
from gough.engine import Model
from gough.identification.diagnosis.mistakes import Mistake
from gough.logs.description import FORMAT, Description, Group
from gough.logs.recording import JOINT_KINDS
from gough.mechanism.terms import TERMS

EVERY = {"all motors": "", "all motors in m": "m", "all motors in rad": "rad"}  # and the unit they have
TIME_UNITS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}


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
        change = CHANGES.get(mistake.name)
        if change is None:
            continue
        fresh = change(description, mistake, gains or {})
        if fresh is not None:
            description = fresh
            done.append(mistake)
    return description, tuple(done)


Change = Callable[[Description, Mistake, Mapping[str, float]], Description | None]


def _columns(group: Group, place: str) -> list[int]:
    if place in EVERY:
        unit = EVERY[place]
        return [k for k, own in enumerate(group.units) if not unit or own in (unit, f"{unit}/s")]
    return [group.names.index(place)] if place in group.names else []


def _signals(description: Description) -> tuple[str, ...]:
    return tuple(g.kind for g in description.groups if g.kind in ("effort", "current"))


def _with(description: Description, kinds: Sequence[str], change: Callable[[Group], Group]) -> Description:
    return replace(description, groups=tuple(change(g) if g.kind in kinds else g for g in description.groups))


def _filled(values: Sequence[float], count: int) -> list[float]:
    return list(values) if values else [0.0] * count


def _scaled(kinds: Callable[[Description], Sequence[str]], factor: Callable[[Mistake], float]) -> Change:
    """Divide columns by a factor."""
    def change(description: Description, mistake: Mistake, gains: Mapping[str, float]) -> Description:
        divisor = factor(mistake)

        def scale(group: Group) -> Group:
            which = _columns(group, mistake.place)
            factors = [f / divisor if k in which else f for k, f in enumerate(group.factors)]
            offsets = [o / divisor if k in which else o for k, o in enumerate(group.offsets)]
            turns = [t / abs(divisor) if k in which else t for k, t in enumerate(group.turns)]
            return replace(group, factors=tuple(factors), offsets=tuple(offsets), turns=tuple(turns))

        return _with(description, kinds(description), scale)

    return change


def _moving(description: Description) -> tuple[str, ...]:
    return tuple(g.kind for g in description.groups if g.kind in ("position", "velocity", "reference"))


def _delay(description: Description, mistake: Mistake, gains: Mapping[str, float]) -> Description:
    def shift(group: Group) -> Group:
        delays = _filled(group.delays, len(group.columns))
        for k in _columns(group, mistake.place):
            delays[k] += mistake.size[0]
        return replace(group, delays=tuple(delays))

    return _with(description, _signals(description), shift)


def _encoder_offset(description: Description, mistake: Mistake, gains: Mapping[str, float]) -> Description:
    def move(group: Group) -> Group:
        offsets = _filled(group.offsets, len(group.columns))
        for k in _columns(group, mistake.place):
            offsets[k] -= mistake.size[0]
        return replace(group, offsets=tuple(offsets))

    return _with(description, [k for k in _moving(description) if k != "velocity"], move)


def _effort_offset(description: Description, mistake: Mistake, gains: Mapping[str, float]) -> Description | None:
    if "current" in _signals(description) and mistake.place not in gains:
        return None

    def move(group: Group) -> Group:
        offsets = _filled(group.offsets, len(group.columns))
        for k in _columns(group, mistake.place):
            offsets[k] -= mistake.size[0] / (gains[mistake.place] if group.kind == "current" else 1.0)
        return replace(group, offsets=tuple(offsets))

    return _with(description, _signals(description), move)


def _clock(factor: Callable[[Mistake], float]) -> Change:
    def change(description: Description, mistake: Mistake, gains: Mapping[str, float]) -> Description:
        slower = factor(mistake)

        def run(group: Group) -> Group:
            return replace(group, time=replace(group.time, factors=tuple(f / slower for f in group.time.factors)))

        period = None if description.period is None else description.period / slower
        rate = None if description.rate is None else description.rate * slower
        return replace(_with(description, [g.kind for g in description.groups], run), period=period, rate=rate)

    return change


def _swap(kinds: Callable[[Description], Sequence[str]]) -> Change:
    def change(description: Description, mistake: Mistake, gains: Mapping[str, float]) -> Description:
        one, _, two = mistake.place.partition(" and ")

        def exchange(group: Group) -> Group:
            i, j = group.names.index(one), group.names.index(two)
            order = list(range(len(group.columns)))
            order[i], order[j] = j, i

            def turned(values: tuple[float, ...]) -> tuple[float, ...]:
                return tuple(values[k] for k in order) if values else ()

            return replace(group, columns=tuple(group.columns[k] for k in order), factors=turned(group.factors),
                           offsets=turned(group.offsets), delays=turned(group.delays), turns=turned(group.turns))

        return _with(description, kinds(description), exchange)

    return change


def _wrapped(description: Description, mistake: Mistake, gains: Mapping[str, float]) -> Description:
    def unwrap(group: Group) -> Group:
        turns = _filled(group.turns, len(group.columns))
        for k in _columns(group, mistake.place):
            turns[k] = abs(mistake.size[0])
        return replace(group, turns=tuple(turns))

    return _with(description, ["position"], unwrap)


def _relative(mistake: Mistake) -> float:
    return 1.0 + mistake.size[0]


def _absolute(mistake: Mistake) -> float:
    return mistake.size[0]


CHANGES: dict[str, Change] = {
    "effort delay": _delay, "effort offset": _effort_offset, "gain": _scaled(_signals, _relative),
    "effort unit": _scaled(_signals, _absolute), "effort sign": _scaled(_signals, _absolute),
    "encoder offset": _encoder_offset, "encoder scale": _scaled(_moving, _relative),
    "position unit": _scaled(_moving, _absolute), "position sign": _scaled(_moving, _absolute),
    "clock": _clock(_relative), "clock unit": _clock(_absolute), "swapped efforts": _swap(_signals),
    "swapped positions": _swap(_moving), "swapped channels": _swap(lambda d: (*_signals(d), *_moving(d))),
    "wrapped counts": _wrapped}


def description_text(description: Description) -> str:
    """Return a description as the TOML that `load_description` reads; numbers in SI, scales beside them."""
    lines = ["# written by a diagnosis; the logs are read as corrected", f"format = {FORMAT}",
             f"joints = {json.dumps(list(description.joints))}"]
    if description.payload is not None:
        lines.append(f"payload = {json.dumps(description.payload)}")
    if description.rate is not None:
        lines.append(f'rate = "{description.rate!r} Hz"')
    if description.period is not None:
        lines.append(f'period = "{description.period!r} s"')
    if description.period_samples is not None:
        lines.append(f"period_samples = {description.period_samples}")
    if description.decimal != ".":
        lines.append(f"decimal = {json.dumps(description.decimal)}")
    for group in description.groups:
        lines += ["", f"[{group.kind}]"]
        if group.file is not None:
            lines.append(f"file = {json.dumps(group.file)}")
        if group.kind not in JOINT_KINDS:
            lines.append(f"names = {json.dumps(list(group.names))}")
        lines += [f"columns = {json.dumps(list(group.columns))}", f"units = {json.dumps(list(group.units))}",
                  f"scale = {json.dumps(list(group.factors))}"]
        if any(group.offsets):
            lines.append(f"offset = {json.dumps(list(group.offsets))}")
        if any(group.delays):
            lines.append("delay = [" + ", ".join(f'"{delay!r} s"' for delay in group.delays) + "]")
        if any(group.turns):  # of the numbers in the columns, before they are scaled
            turn = max(t / abs(f) for t, f in zip(group.turns, group.factors))
            lines.append(f"unwrap = {turn!r}")
        if group.interpolation != "linear":
            lines.append(f"interpolation = {json.dumps(group.interpolation)}")
        lines += _time_text(group)
    return "\n".join(lines) + "\n"


def _time_text(group: Group) -> list[str]:
    time = group.time
    scale, units = 1.0, [_time_unit(f) for f in time.factors]
    if any(unit is None for unit in units):
        scale, units = time.factors[0], [_time_unit(f / time.factors[0]) for f in time.factors]
    lines = [f"[{group.kind}.time]", f"columns = {json.dumps(list(time.columns))}",
             f"units = {json.dumps([unit or 's' for unit in units])}"]
    if scale != 1.0:
        lines.append(f"scale = {scale!r}")
    if time.offset:
        lines.append(f'offset = "{time.offset!r} s"')
    return lines


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
