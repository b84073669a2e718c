"""The YAML beside a URDF: Gepetto's `closed_loop`, `name_mot`, ..., and the keys of Gough."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import replace
from difflib import get_close_matches
from itertools import permutations
from typing import Any

import yaml

from gough.core.display import join_names
from gough.core.errors import InvalidMechanism, nearest
from gough.core.files import MAX_DIGITS, MAX_YAML_CHARACTERS
from gough.formats.tree import BALL_MOTIONS, Connection, Loop, Motion, RobotTree
from gough.formats.xml import LARGEST_XML_NUMBER
from gough.mechanism.closures import CLOSURES, ClosureKind
from gough.mechanism.placement import IDENTITY
from gough.mechanism.terms import TERMS

_MOTIONS_ABOUT = dict(zip("XYZ", BALL_MOTIONS))
JOINT_TYPES: dict[str, tuple[Motion, ...]] = {
    "SPHERICAL": BALL_MOTIONS,
    "FIXED": (),
    **{f"UJOINT_{a}{b}": (_MOTIONS_ABOUT[a], _MOTIONS_ABOUT[b]) for a, b in permutations("XYZ", 2)},
}
LOOP_TYPES = (
    "3d",
    "6d",
)  # of `closed_loop`; other kinds of closures have a key of their own
SIDECAR_KEYS = (
    "closed_loop",
    "type",
    "name_mot",
    "joint_name",
    "joint_type",
    "task",
    "gravity",
)
JOINT_NUMBER_KEYS = ("home", "drive_gain")
_SHOWN_CHARS = 60  # of a value in errors


def _closure_kinds() -> dict[str, ClosureKind]:
    """Return the kinds of closures by their word in the sidecar."""
    return {kind.urdf: kind for kind in CLOSURES.values() if kind.urdf is not None}


def _term_keys() -> dict[str, str]:
    """Return the keys that give coefficients of joint terms, with the term."""
    return {term.sidecar: term.name for term in TERMS.values() if term.sidecar}


def _known_keys() -> tuple[str, ...]:
    return (*SIDECAR_KEYS, *JOINT_NUMBER_KEYS, *_term_keys(), *_closure_kinds())


class _PlainLoader(yaml.SafeLoader):  # type: ignore[misc]  # the library has no types
    """YAML without what may expand or surprise: no aliases, and 1:30 is text, not 90."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        """Return the next node; raise at an alias, which may expand without end."""
        if self.check_event(yaml.events.AliasEvent):
            mark = self.peek_event().start_mark
            raise yaml.composer.ComposerError(
                None, None, "an alias, which loops do not need; write it out", mark
            )
        return super().compose_node(parent, index)


_PlainLoader.yaml_implicit_resolvers = {}
for _tag, _pattern, _first in (
    ("bool", r"true|True|false|False", "tTfF"),
    ("null", r"~|null|Null|", ["~", "n", "N", ""]),
    ("int", rf"[-+]?(?:0|[1-9]\d{{0,{MAX_DIGITS}}})", "-+0123456789"),
    ("float", r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?|[-+]?\.(?:inf|nan)", "-+.0123456789"),
):
    _PlainLoader.add_implicit_resolver(
        f"tag:yaml.org,2002:{_tag}", re.compile(f"^(?:{_pattern})$"), list(_first)
    )


def read_yaml(text: str, source: str) -> dict[str, Any]:
    """Return the content of the YAML beside a URDF."""
    if len(text) > MAX_YAML_CHARACTERS:
        raise InvalidMechanism(
            f"{source}: {len(text)} characters, expected at most {MAX_YAML_CHARACTERS} for the "
            "loops of a robot",
            file=source,
        )
    try:
        content = yaml.load(text, Loader=_PlainLoader)
    except (yaml.YAMLError, RecursionError, ValueError, TypeError, OverflowError) as error:
        reason = " ".join(str(error).split())[:200]
        raise InvalidMechanism(f"{source}: not valid YAML: {reason}", file=source) from None
    if not isinstance(content, dict):
        raise InvalidMechanism(
            f"{source}: expected keys such as closed_loop and name_mot",
            file=source,
        )
    known = _known_keys()
    for key in set(map(str, content)) - set(known):
        if get_close_matches(key, known, cutoff=0.75):
            message = f"{source}: unknown key '{key}'{nearest(key, known)}"
            raise InvalidMechanism(message, file=source)
    return content


def apply_sidecar(tree: RobotTree, content: Mapping[str, Any]) -> RobotTree:
    """Return the tree with the loops, motors and numbers of the YAML."""
    joints = {joint.name: joint for joint in tree.joints}
    _set_joint_types(joints, content)
    _set_joint_numbers(joints, content)
    loops = _read_loops(tree, joints, content)
    gravity = content.get("gravity", tree.gravity)
    if not isinstance(gravity, list | tuple) or len(gravity) != 3:
        raise InvalidMechanism(f"gravity is {gravity!r}, expected three numbers")
    x, y, z = [_number(component, "gravity") for component in gravity]
    tree = replace(
        tree,
        joints=tuple(joints.values()),
        loops=tuple(loops),
        gravity=(x, y, z),
        task=tuple(_joint_names(content, "task", joints)),
        usual_terms="home" not in content,
    )
    known = _known_keys()
    unread = [str(key) for key in content if key not in known]
    if unread:
        tree = tree.with_notes(f"ignored: keys of the YAML that are not read: {join_names(unread)}")
    motors = _joint_names(content, "name_mot", joints)
    return tree.with_motors(motors) if motors else tree


def _set_joint_types(joints: dict[str, Connection], content: Mapping[str, Any]) -> None:
    """Give joints the motions that URDF cannot express."""
    names = _get(content, "joint_name", list)
    for name, joint_type in zip(names, _get(content, "joint_type", list)):
        key = str(joint_type).upper()
        if key not in JOINT_TYPES:
            raise InvalidMechanism(
                f"joint_type '{joint_type}' of '{name}' is unknown"
                f"{nearest(str(joint_type), JOINT_TYPES)}"
            )
        name = _known_name(name, joints, "joint")
        joints[name] = replace(joints[name], motions=JOINT_TYPES[key], values={})


def _set_joint_numbers(joints: dict[str, Connection], content: Mapping[str, Any]) -> None:
    """Give joints their start, gain and coefficients of terms."""
    terms = _term_keys()
    for key in (*JOINT_NUMBER_KEYS, *terms):
        for name, given in _get(content, key, dict).items():
            joint = joints[_known_name(name, joints, "joint")]
            number = _number(given, key)
            if key == "home":
                joint = replace(joint, start=(number,))
            elif key == "drive_gain":
                joint = replace(joint, gain=number)
            else:
                joint = replace(joint, values={**joint.values, terms[key]: number})
            joints[joint.name] = joint


def _read_loops(
    tree: RobotTree,
    joints: Mapping[str, Connection],
    content: Mapping[str, Any],
) -> list[Loop]:
    """Return the loops of the tree and those of the YAML."""
    kinds = _closure_kinds()
    pairs = _get(content, "closed_loop", list)
    types = [str(kind).lower() for kind in _get(content, "type", list) or ["6d"] * len(pairs)]
    if len(types) != len(pairs):
        raise InvalidMechanism(f"closed_loop lists {len(pairs)} pairs and type {len(types)}")
    for kind in types:
        if kind not in kinds:
            raise InvalidMechanism(f"type '{kind}' of a loop is unknown{nearest(kind, LOOP_TYPES)}")
    entries = list(zip(types, pairs))
    for key in kinds:
        if key not in LOOP_TYPES:
            entries += [(key, entry) for entry in _get(content, key, list)]
    frames = {joint.name: joint.child for joint in tree.joints}
    frames |= {link.name: link.name for link in tree.links}
    loops = list(tree.loops)
    for key, entry in entries:
        loops.append(_read_loop(kinds[key], entry, frames, joints, f"loop{len(loops) + 1}"))
    return loops


def _read_loop(
    kind: ClosureKind,
    entry: Any,
    frames: Mapping[str, str],
    joints: Mapping[str, Connection],
    name: str,
) -> Loop:
    """Read a loop: a pair of frames, or a table of `frames`, `coefficients` and values.

    Args:
        kind: Kind of closure.
        entry: The pair or table.
        frames: Links by the names of links and joints.
        joints: Joints by name.
        name: Of a loop without frames.
    """
    table = entry if isinstance(entry, dict) else {"frames": entry}
    loop = Loop(name=name, kind=kind.name)
    if kind.frames:
        pair = table.get("frames", entry)
        if not isinstance(pair, list) or len(pair) != 2:
            raise InvalidMechanism(
                f"a loop is {str(pair)[:_SHOWN_CHARS]}, expected a pair of frames"
            )
        a = _known_name(pair[0], frames, "link or joint")
        b = _known_name(pair[1], frames, "link or joint")
        loop = replace(
            loop,
            name=f"{a}_{b}",
            frames=((frames[a], IDENTITY), (frames[b], IDENTITY)),
            values={key: _number(table[key], key) for key in kind.values if key in table},
        )
    if not kind.has_coefficients:
        return loop
    coefficients = {}
    for joint, coefficient in _get(table, "coefficients", dict).items():
        coefficients[_known_name(joint, joints, "joint")] = _number(coefficient, kind.name)
    for joint in coefficients:
        if not joints[joint].motions:
            raise InvalidMechanism(
                f"a {kind.name} weighs '{joint}', which is a fixed joint",
                joint=joint,
            )
    constant = _number(table.get("constant", 0.0), kind.name)
    return replace(loop, coefficients=coefficients, constant=constant)


def _joint_names(
    content: Mapping[str, Any], key: str, joints: Mapping[str, Connection]
) -> list[str]:
    return [_known_name(name, joints, "joint") for name in _get(content, key, list)]


def _known_name(name: Any, known: Collection[str], kind: str) -> str:
    """Return a name of the YAML, which must exist in the URDF."""
    if not isinstance(name, str) or name not in known:
        shown = str(name)[:_SHOWN_CHARS]
        raise InvalidMechanism(
            f"the YAML names '{shown}', which is no {kind} of the URDF{nearest(shown, known)}"
        )
    return name


def _get(content: Mapping[str, Any], key: str, kind: type) -> Any:
    """Return a list or a table of the YAML; empty if absent."""
    given = content.get(key) or kind()
    if not isinstance(given, kind):
        expected = "a list" if kind is list else "names and numbers"
        raise InvalidMechanism(f"{key} is {str(given)[:_SHOWN_CHARS]}, expected {expected}")
    return given


def _number(given: Any, key: str) -> float:
    """Return a finite number of the YAML."""
    is_number = isinstance(given, int | float) and not isinstance(given, bool)
    if not is_number or not abs(given) <= LARGEST_XML_NUMBER:
        raise InvalidMechanism(f"{key} holds {str(given)[:_SHOWN_CHARS]}, expected a number")
    return float(given)
