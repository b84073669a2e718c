"""Ranges in which joint terms were identified, and logs that leave them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from gough.core.arrays import FloatArray
from gough.core.notices import Notice
from gough.engine import Model
from gough.mechanism.expression import EFFORT_NAME
from gough.mechanism.terms import JointTerm
from gough.mechanism.types import Joint
from gough.processing import ProcessedLog

# A log leaves a range where it is beyond its end by more than this
# fraction of its width.
TOLERATED_EXCESS_FRACTION = 0.05


def observed_range(
    model: Model, logs: Iterable[ProcessedLog], joint: Joint, word: str
) -> tuple[float, float]:
    """Return the range of a quantity of a joint over logs: `q`, `qd`, `effort` or a channel; SI."""
    lows = []
    highs = []
    for log in logs:
        along_log = _quantity(model, log, joint, word)
        lows.append(float(along_log.min()))
        highs.append(float(along_log.max()))
    return min(lows), max(highs)


def _quantity(model: Model, log: ProcessedLog, joint: Joint, word: str) -> FloatArray:
    """Return a quantity that a term depends on along a log, (t,)."""
    mechanism = model.mechanism
    j = mechanism.coordinates.index(joint.name)
    if word in ("q", "qd"):
        return np.asarray(getattr(log.motion, word)[:, j])
    if word == EFFORT_NAME:
        efforts = model.transmitted_effort(
            log.motion, log.dead_band, joints=(j,), payload=log.payload
        )
        return np.asarray(efforts[:, 0])
    if log.motion.extra_inputs is None:
        return np.full(len(log.motion), mechanism.channels[word])
    n_states = len(mechanism.internal_states)
    column = n_states + list(mechanism.channels).index(word)
    return np.asarray(log.motion.extra_inputs[:, column])


def beyond_validity(model: Model, logs: Sequence[ProcessedLog]) -> list[Notice]:
    """Warn where logs leave the range that a joint term was identified in."""
    notices = []
    for joint in model.mechanism.joints:
        for name in joint.terms:
            term = model.mechanism.terms[name]
            for word, ends in term.validity.items():
                observed = observed_range(model, logs, joint, word)
                if _leaves(observed, ends):
                    notices.append(_beyond_notice(joint, term, word, observed))
    return notices


def _leaves(observed: tuple[float, float], ends: tuple[float, float]) -> bool:
    """Return whether a range leaves another by more than is tolerated."""
    low, high = ends
    tolerated = TOLERATED_EXCESS_FRACTION * (high - low)
    return observed[0] < low - tolerated or observed[1] > high + tolerated


def _beyond_notice(
    joint: Joint, term: JointTerm, word: str, observed: tuple[float, float]
) -> Notice:
    """Return the warning that logs leave the range of a term."""
    low, high = term.validity[word]
    units = {"q": joint.unit, "qd": f"{joint.unit}/s", EFFORT_NAME: joint.effort_unit}
    unit = units.get(word, "")
    return Notice(
        rule="validity of a term",
        level="warning",
        where=f"{joint.name}.{term.name}",
        text=f"{term.label} was identified for {word} from {low:.3g} to {high:.3g} {unit}; these "
        f"logs have {observed[0]:.3g} to {observed[1]:.3g} {unit}, and beyond its range the term "
        "keeps the value at its end",
        advice="identify from logs that cover the range of the application",
        numbers={"low": observed[0], "high": observed[1]},
    )
