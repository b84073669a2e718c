"""From accepted explanations to named faults: what happened, how sure, what to do."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gough.core.arrays import TINY, FloatArray
from gough.core.display import rounded
from gough.core.notices import Level
from gough.identification.diagnosis import NamedFault, length, size_text
from gough.verdict.discrete_faults import DiscreteFault
from gough.verdict.evidence import Evidence
from gough.verdict.explanation import Explanation
from gough.verdict.faults import EFFORT_SCALE, Fault, rotated, tilt_axes

# Factors by which units differ. Their inverses are known too.
UNIT_FACTORS: dict[str, float] = {
    "milli or kilo": 1000.0,
    "degrees for radians": 180 / np.pi,
    "turns for radians": 2 * np.pi,
    "per minute for per second": 60.0,
    "kilopond for newton": 9.80665,
    "per cent": 100.0,
    "micro or mega": 1e6,
}
SIGN_TOLERANCE = 0.2  # relative: a factor so near to -1 is a flipped sign
# relative: a factor so near to that of a unit is called by it
UNIT_TOLERANCE = 0.02
# effort scales beyond it are errors of the log, not of its accuracy
GROSS_FACTOR = 1.5
MAX_EQUIVALENTS = 4  # that are listed


def unit_of(factor: float) -> str:
    """Return the confusion of units that a factor looks like, or an empty string."""
    for name, number in UNIT_FACTORS.items():
        for known in (number, 1 / number):
            if abs(np.log(abs(factor) / known)) < np.log(1 + UNIT_TOLERANCE):
                return name
    return ""


def name_fault(group: Sequence[Explanation], evidence: Evidence) -> NamedFault:
    """Return the fault that a group of explanations names, with its equivalents."""
    best = group[0]
    equivalents: list[str] = []
    for other in group[1:]:
        if _is_another_shape(other, best):
            continue
        text = _text(other, evidence)
        if other.logs != best.logs:
            names = _log_names(other, evidence)
            text = f"in {', '.join(names) or 'all logs'}: {text}"
        if text not in equivalents:
            equivalents.append(text)
    if len(equivalents) > MAX_EQUIVALENTS:
        count = len(equivalents) - MAX_EQUIVALENTS
        equivalents = [*equivalents[:MAX_EQUIVALENTS], f"{count} others like these"]
    gains = best.gain.blocks[best.gain.scope]
    gains = gains[np.isfinite(gains)]
    size = best.size
    if best.name == EFFORT_SCALE:
        size = 1 + size
    return NamedFault(
        name=_name(best),
        place=best.place,
        logs=_log_names(best, evidence),
        size=tuple(np.atleast_1d(size).tolist()),
        std=tuple(np.atleast_1d(best.std).tolist()),
        unit=_unit(best, evidence),
        text=_text(best, evidence),
        advice=_advice(best, evidence),
        level=_level(best),
        before=best.gain.before,
        after=best.gain.after,
        better_blocks=(int((gains > 0).sum()), len(gains)),
        equivalents=tuple(equivalents),
        gravity=_gravity(best, evidence),
    )


def without_other_causes(groups: Sequence[Sequence[Explanation]]) -> list[list[Explanation]]:
    """Return groups of explanations without those that are first in another group.

    What is named as a further cause is no alternative to the others.
    """
    separate = []
    for k, group in enumerate(groups):
        others = [other[0] for j, other in enumerate(groups) if j != k]
        kept = [group[0]]
        for member in group[1:]:
            if not any(member.same_as(other) for other in others):
                kept.append(member)
        separate.append(kept)
    return separate


def _is_another_shape(other: Explanation, best: Explanation) -> bool:
    """Return whether two faults differ only in a constant that their words do not contain."""
    if not isinstance(other.fault, Fault) or not isinstance(best.fault, Fault):
        return False
    return other.fault.text == best.fault.text and other.same_as(best)


def describe_size(explanation: Explanation, evidence: Evidence) -> tuple[str, str]:
    """Return a fault with its size in words, and what to change in which file."""
    return _text(explanation, evidence), _advice(explanation, evidence)


def _log_names(explanation: Explanation, evidence: Evidence) -> tuple[str, ...]:
    """Return the names of the logs a fault is in; none if it is in all."""
    if len(explanation.logs) == len(evidence.logs):
        return ()
    return tuple(evidence.logs[k].name for k in explanation.logs)


def _is_sign(explanation: Explanation) -> bool:
    """Return whether an effort scale is a flipped sign."""
    if explanation.name != EFFORT_SCALE:
        return False
    return bool(abs(explanation.size[0] + 2) < SIGN_TOLERANCE)


def _name(explanation: Explanation) -> str:
    return "effort sign" if _is_sign(explanation) else explanation.name


def _level(explanation: Explanation) -> Level:
    """Return the level: logs that make sense only with a sign, channel or unit changed are errors.

    The result is then wrong.
    """
    if explanation.discrete or _is_sign(explanation):
        return "error"
    if explanation.name == EFFORT_SCALE:
        factor = 1 + explanation.size[0]
        if factor < 0 or abs(np.log(factor)) > np.log(GROSS_FACTOR):
            return "error"
    return "warning"


def _unit(explanation: Explanation, evidence: Evidence) -> str:
    fault = explanation.fault
    if isinstance(fault, DiscreteFault):
        return "times" if len(explanation.size) else ""
    if fault.name == EFFORT_SCALE:
        return "times"
    return fault.unit_at(evidence, explanation.place)


def _text(explanation: Explanation, evidence: Evidence) -> str:
    """Return the fault with its size in words."""
    fault = explanation.fault
    if isinstance(fault, DiscreteFault):
        return fault.text
    size = explanation.size
    if _is_sign(explanation):
        return f"the effort of {explanation.place} has the wrong sign"
    if fault.name == EFFORT_SCALE:
        factor, std = rounded(1 + size[0], explanation.std[0])
        text = f"the effort of {explanation.place} is {factor} +- {std} times what it should be"
        unit = unit_of(1 + size[0])
        return f"{text} ({unit})" if unit else text
    unit = fault.unit_at(evidence, explanation.place)
    turn = np.zeros(3)
    if fault.name == "tilt":
        axes = tilt_axes(np.array(evidence.model.mechanism.gravity))
        turn = size @ axes / max(length(size), TINY)
    return fault.text.format(
        place=explanation.place,
        size=size_text(size, explanation.std, unit),
        axis=", ".join(f"{x:.2f}" for x in turn),
    )


def _gravity(explanation: Explanation, evidence: Evidence) -> tuple[float, ...]:
    """Return the gravity that a fault says is right; empty if it is not about gravity."""
    log = evidence.logs[explanation.logs[0]]
    undone = explanation.undone(explanation.logs[0], log, log.signals)
    if np.array_equal(undone.gravity, log.signals.gravity):
        return ()
    return tuple(undone.gravity.tolist())


def _advice(explanation: Explanation, evidence: Evidence) -> str:
    """Return what to change in which file."""
    fault = explanation.fault
    if isinstance(fault, DiscreteFault):
        return fault.advice
    assert isinstance(fault, Fault)
    size = explanation.size
    place = explanation.place
    if _is_sign(explanation):
        return f"put scale = -1 for the effort of {place} in the description"
    pitch = 0.0
    if "{pitch" in fault.advice:
        pitch = 1 / max(evidence.logs[0].ripples[place].frequency, TINY)
    gravity: FloatArray = np.array(evidence.model.mechanism.gravity)
    if fault.name == "tilt":
        gravity = rotated(gravity, size @ tilt_axes(gravity))
    return fault.advice.format(
        place=place,
        size=size[0],
        less=-size[0],
        factor=1 + size[0],
        inverse=1 / (1 + size[0]) if size[0] != -1 else np.inf,
        ms=1e3 * size[0],
        unit=fault.unit_at(evidence, place),
        pitch=pitch,
        gravity=", ".join(f"{component:.4g}" for component in gravity),
    )
