"""Which columns of a log may be which signal of which joint: names, numbers and order decide.

Columns whose names differ in one number, or in the name of a joint, are
a family: `Torque1` to `Torque7`. All joints get their signal from one
family, so that kinds of signals are never mixed. The data may only
object: a position that cannot stay within its limits, an effort that
belongs to another joint or is beyond what its motor can do.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from gough.core.arrays import FloatArray
from gough.core.units import is_unit

# Words of column names by the kind of signal they usually mean; the
# first that fits.
SIGNAL_PATTERNS = {
    "extra": r"temp\w*|volt\w*|humid\w*|ext|extern\w*|error|err|fehler|tcp|pose|cart\w*|flange"
    r"|seq\w*|index",
    "velocity": r"vel\w*|speed|spd|qd|dq|qp|rpm|geschw\w*|drehzahl|omega|vitesses?",
    "current": r"cur\w*|amps?|i[aq]?|drv\w*|strom\w*|u|courants?|corrientes?|correnti?e?",
    "effort": r"eff\w*|tor|torqu?e?s?|trq\w*|tau|forces?|frc\w*|moments?|mom|drehmoment\w*"
    r"|kraft|couples?|coppi[ae]|fuerzas?|forz[ae]",
    "position": r"pos\w*|q|angles?|enc\w*|theta|lage\w*|winkel\w*|joints?|axis|achse",
}
COMMAND_PATTERN = r"ref\w*|set\w*|cmd\w*|command\w*|desired|target\w*|goal|action|soll\w*|d"
# words of signals that are the first choice
MEASURED_PATTERN = r"meas\w*|act\w*|ist\w*|raw|ai"
# Words that say a signal is not the first choice.
DERIVED_PATTERN = (
    r"con|fric\w*|grav\w*|sm|smooth\w*|filt\w*|mean|avg|est\w*|model\w*|max|min|ff|sim\w*"
    r"|dist|disturb\w*|coll\w*|resid\w*|lim\w*|thresh\w*"
)
# Words that axes are called too, and single letters: other words of a
# name say more of its kind.
WEAK_PATTERN = r"joints?|axis|achse|[^\W\d_]"
# German words such as Istmoment and Sollposition begin with `actual` or
# `commanded`.
GERMAN_PREFIX = r"\b(ist|soll)(?=[^\W\d_]{3})"
# A letter that programs of controllers begin names with, for the type:
# fActPos, nActTorque.
TYPE_PREFIX = r"(?<![A-Za-z])[bdfilnruw]{1,2}(?=[A-Z][a-z])"
# Where capitals end and a word begins: AIPos, MACur, TCPPose.
ACRONYM_END = r"([A-Z]{2,})([A-Z][a-z]{2})"
# Why columns are of the joints in their order: nothing else, or letters
# of axes in their names.
BY_ORDER = "by its order"
BY_LETTER = "by its letter, in order"
MIN_EXPLAINED_SAMPLES = 50  # to compare an effort with a motion
# Fractions of an effort that the motion of the joint it is proposed for
# explains at most, and another one at least, for the data to object.
FOREIGN_FRACTION = 0.3
OWN_FRACTION = 0.8


class Family(NamedTuple):
    """Columns that differ in one number or in the name of a joint."""

    columns: tuple[str, ...]  # one for each joint
    reason: str  # why each is of its joint
    rank: tuple[int, int, int, int]  # the smallest is the first choice


def tokens(name: str) -> list[str]:
    """Return words and numbers of a name in lower case, without units and indices in brackets."""
    text = re.sub(r"[\[(](.*?)[\])]", _words_in_brackets, name)
    text = re.sub(r"([a-z])([A-Z])", r"\1 \2", text)
    text = re.sub(ACRONYM_END, r"\1 \2", text)
    text = re.sub(GERMAN_PREFIX, r"\1 ", text.lower())
    return re.findall(r"[^\W\d_]+|\d+", text)


def _words_in_brackets(match: re.Match[str]) -> str:
    """Return the words in brackets, a space if there is a unit or an index in them."""
    content = match[1]
    if is_unit(content) or not re.search(r"[^\W\d_]{3}", content):
        return " "
    return f" {content} "


def signal_kind(name: str) -> tuple[str, bool]:
    """Return the kind of signal that a name means, "" if none, and whether it was commanded."""
    plain_name = re.sub(TYPE_PREFIX, "", name)
    kind = _kind_of_words(plain_name) or _kind_of_words(name)
    words = tokens(plain_name)
    commanded = any(re.fullmatch(COMMAND_PATTERN, word) for word in words)
    return kind, commanded and kind != "extra"


def _kind_of_words(name: str) -> str:
    """Return the first kind of signal that a word of a name means, "" if none."""
    words = [token for token in tokens(name) if not token.isdigit()]
    strong = [word for word in words if not re.fullmatch(WEAK_PATTERN, word)]
    for some in (strong, words):
        for kind, pattern in SIGNAL_PATTERNS.items():
            if any(re.fullmatch(pattern, word) for word in some):
                return kind
    return ""


def choose_family(names: Sequence[str], joints: Sequence[str]) -> Family | None:
    """Return the family of columns, one for each joint, that is the first choice; None without.

    Measured signals come before commanded and derived ones, families
    with the names of joints before numbered ones, numbered ones before
    letters of axes and plain order, short names before long ones. Where
    several families are as good a choice but for the length of their
    names, the reason says so.
    """
    families = [*_named_families(names, joints), *_numbered_families(names, joints)]
    if not families:
        families = _lettered_families(names, joints)
    if not families and len(names) >= len(joints):
        families = [_ordered_family(names, joints)]
    families.sort(key=lambda family: family.rank)
    if not families:
        return None
    first = families[0]
    for other in families[1:]:
        if other.rank[:3] == first.rank[:3] and not set(other.columns) & set(first.columns):
            reason = f"{first.reason}, a guess: '{other.columns[0]}' is named as well"
            return first._replace(reason=reason)
    return first


def _rank(columns: Sequence[str], way: int, spare: int) -> tuple[int, int, int, int]:
    """Return the rank of a family: derived signals, way of assignment, spare columns, length."""
    words = tokens(columns[0])
    preference = 0
    if any(re.fullmatch(MEASURED_PATTERN, word) for word in words):
        preference = -1
    if any(re.fullmatch(f"{COMMAND_PATTERN}|{DERIVED_PATTERN}", word) for word in words):
        preference = 1
    return preference, way, spare, len(columns[0])


def _named_families(names: Sequence[str], joints: Sequence[str]) -> list[Family]:
    """Return the families whose columns contain the names of the joints."""
    by_rest = _columns_by_rest(names, {joint: tokens(joint) for joint in joints})
    if not any(len(columns) == len(joints) for columns in by_rest.values()):
        by_rest = _columns_by_rest(names, _distinguishing_words(joints))
    families = []
    for columns in by_rest.values():
        if len(columns) == len(joints):
            ordered = tuple(columns[joint] for joint in joints)
            families.append(Family(ordered, "by its name", _rank(ordered, 0, 0)))
    return families


def _columns_by_rest(
    names: Sequence[str], words_of_joints: Mapping[str, Sequence[str]]
) -> dict[str, dict[str, str]]:
    """Return columns that contain the words of a joint, by the rest of their names and by joint."""
    by_rest: dict[str, dict[str, str]] = {}
    for name in names:
        words = tokens(name)
        for joint in sorted(words_of_joints, key=len, reverse=True):
            joint_words = words_of_joints[joint]
            place = _place_of(joint_words, words)
            if place is not None:
                rest = [*words[:place], "@", *words[place + len(joint_words) :]]
                by_rest.setdefault(" ".join(rest), {}).setdefault(joint, name)
                break
    return by_rest


def _distinguishing_words(joints: Sequence[str]) -> dict[str, list[str]]:
    """Return the words in which the names of joints differ: `left` of `left.motor`.

    Empty where they differ in numbers, letters or not at all.
    """
    words_of_joints = [tokens(joint) for joint in joints]
    common = set(words_of_joints[0]).intersection(*words_of_joints[1:])
    distinguishing = {}
    for joint, words in zip(joints, words_of_joints):
        own_words = [word for word in words if word not in common]
        if not any(len(word) > 1 and not word.isdigit() for word in own_words):
            return {}
        distinguishing[joint] = own_words
    return distinguishing


def _place_of(part: Sequence[str], words: Sequence[str]) -> int | None:
    """Return where some words follow each other in others, None if they do not."""
    for start in range(len(words) - len(part) + 1):
        if part and list(words[start : start + len(part)]) == list(part):
            return start
    return None


def _numbered_families(names: Sequence[str], joints: Sequence[str]) -> list[Family]:
    """Return the families whose columns differ in one number, at least as many as joints."""
    by_rest: dict[str, dict[int, str]] = {}
    for name in names:
        for match in re.finditer(r"\d+", name):
            rest = f"{name[: match.start()]}#{name[match.end() :]}"
            by_rest.setdefault(rest, {})[int(match.group())] = name
    wanted = [_last_number(joint) for joint in joints]
    families = []
    for columns in by_rest.values():
        if len(columns) < len(joints):
            continue
        numbers = sorted(columns)
        if None not in wanted and len(set(wanted)) == len(wanted) and set(wanted) <= set(numbers):
            numbers = [number for number in wanted if number is not None]
        ordered = tuple(columns[number] for number in numbers[: len(joints)])
        spare = len(columns) - len(joints)
        families.append(Family(ordered, "by its number", _rank(ordered, 1, spare)))
    return families


def _lettered_families(names: Sequence[str], joints: Sequence[str]) -> list[Family]:
    """Return the families whose columns differ in one letter, as axes S, L, U, in their order."""
    by_rest: dict[str, list[str]] = {}
    for name in names:
        words = tokens(name)
        for k, word in enumerate(words):
            if len(word) == 1 and not word.isdigit():
                rest = " ".join([*words[:k], "@", *words[k + 1 :]])
                by_rest.setdefault(rest, []).append(name)
    families = []
    for columns in by_rest.values():
        if len(columns) == len(joints):
            families.append(Family(tuple(columns), BY_LETTER, _rank(columns, 2, 0)))
    return families


def _last_number(name: str) -> int | None:
    """Return the last number in a name, None without one."""
    numbers = re.findall(r"\d+", name)
    return int(numbers[-1]) if numbers else None


def _ordered_family(names: Sequence[str], joints: Sequence[str]) -> Family:
    """Return the first columns in their order."""
    ordered = tuple(names[: len(joints)])
    return Family(ordered, BY_ORDER, _rank(ordered, 2, len(names) - len(joints)))


def objections(explained: Callable[[int, int], float], joints: Sequence[str]) -> dict[int, str]:
    """Return what the motion says against an assignment of efforts, by the number of the joint.

    Args:
        explained: Fraction of the effort proposed for a joint that the
            motion of another explains.
        joints: Names of the joints.
    """
    remarks = {}
    for j, joint in enumerate(joints):
        own = explained(j, j)
        if own > FOREIGN_FRACTION:
            continue
        others = [explained(j, k) for k in range(len(joints))]
        others[j] = 0.0
        best = int(np.argmax(others))
        if others[best] > OWN_FRACTION:
            remarks[j] = (
                f"BUT the motion of {joint} explains {100 * own:.0f} % of it, that of "
                f"{joints[best]} {100 * others[best]:.0f} %: check"
            )
    return remarks


def explained_fraction(q: FloatArray, y: FloatArray) -> float:
    """Return the fraction of a column's variance that a motion explains, 0 to 1; NaN if unknown.

    Args:
        q: Position of a motor, (t,).
        y: The column, (t,), regressed on the position and its
            derivatives.
    """
    if len(q) != len(y):
        return float("nan")
    finite = np.isfinite(q) & np.isfinite(y)
    q = q[finite]
    y = y[finite]
    if len(q) < MIN_EXPLAINED_SAMPLES or not (np.ptp(q) > 0 and np.ptp(y) > 0):
        return float("nan")
    q = q / np.abs(q).max()
    y = y / np.abs(y).max()
    width = max(1, len(q) // 500)  # derivatives of a smoothed position: a hint, not a model
    smooth = np.convolve(q, np.ones(width) / width, mode="same")
    qd = np.gradient(smooth)
    A = np.column_stack([np.ones(len(q)), smooth, qd, np.sign(qd), np.gradient(qd)])
    A /= np.maximum(np.abs(A).max(axis=0), 1e-300)
    residual = y - A @ np.linalg.lstsq(A, y, rcond=None)[0]
    return max(0.0, 1 - float(np.var(residual) / max(np.var(y), 1e-300)))
