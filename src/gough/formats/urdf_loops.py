"""Loops that a URDF states itself: by names of frames, or by elements that drafts of URDF add.

onshape-to-robot writes two frames for each loop, `closing_<name>_1` and
`closing_<name>_2`. Drafts and dialects have an element for a joint that
closes a loop: `<loop>` (URDF+), `<loop_joint>` (Isaac Sim) or
`<constraint>`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import combinations

import numpy as np

from gough.core.arrays import FloatArray
from gough.core.errors import nearest
from gough.formats.geometry import along_z
from gough.formats.tree import X_AXIS, Connection, Link, Loop, RobotTree
from gough.formats.xml import Element
from gough.mechanism.placement import IDENTITY, Placement, transform

LOOP_ELEMENTS = ("loop", "loop_joint", "constraint")
# Kinds of closures by the type of the joint that closes a loop.
LOOP_KINDS = {
    "fixed": "weld",
    "weld": "weld",
    "revolute": "revolute",
    "continuous": "revolute",
    "spherical": "point",
    "ball": "point",
    "point": "point",
}
# Names of the two ends of a loop in the dialects.
END_ELEMENTS = (("predecessor", "successor"), ("parent", "child"), ("link1", "link2"))
_CLOSING_FRAME = re.compile(r"closing_(?P<name>.+)_(?P<end>[12])")
# Distance of the ends of two chains, as a fraction of the size of the
# robot, below which they may be one joint: CAD programs write five
# digits or more.
MEETING_RATIO = 1e-4
# of two chains that meet: a loop of fewer joints cannot move
MIN_LOOP_JOINTS = 3
MAX_COMPARED_ENDS = 300  # of chains; more are not looked at


def closing_frames(links: list[Link]) -> list[Loop]:
    """Return the loops of frames named `closing_<name>_1` and `closing_<name>_2`.

    They are closed in their origins: the file does not state what kind
    of joint closes the loop, and a pin in a planar loop needs no more.
    """
    ends: dict[str, dict[str, str]] = {}
    for link in links:
        match = _CLOSING_FRAME.fullmatch(link.name)
        if match is not None:
            ends.setdefault(match["name"], {})[match["end"]] = link.name
    loops = []
    for name, frames in ends.items():
        if len(frames) == 2:
            places = ((frames["1"], IDENTITY), (frames["2"], IDENTITY))
            loops.append(Loop(name=f"closing_{name}", kind="point", frames=places))
    return loops


def loop_elements(root: Element, links: list[Link]) -> list[Loop]:
    """Return the loops of the elements `<loop>`, `<loop_joint>` and `<constraint>`."""
    for element in root.all("coupling"):
        raise element.error("is not read; write it as <mimic> of one of its joints")
    names = [link.name for link in links]
    loops = []
    for number, element in enumerate(root.all(*LOOP_ELEMENTS), 1):
        kind = element.get("type")
        if kind not in LOOP_KINDS:
            raise element.error(f"unknown type '{kind}'{nearest(kind, LOOP_KINDS)}")
        first, second = _ends(element)
        for end in (first, second):
            if end.get("link") not in names:
                raise end.error(f"there is no link '{end.get('link')}'")
        poses = _end_poses(element, first, second)
        turn = IDENTITY
        if LOOP_KINDS[kind] == "revolute":
            axis = element.find("axis")
            direction = X_AXIS if axis is None else axis.numbers("xyz", "1 0 0", 3)
            turn = transform((0.0, 0.0, 0.0), along_z(direction))
        loops.append(
            Loop(
                name=element.attributes.get("name", f"loop{number}"),
                kind=LOOP_KINDS[kind],
                frames=(
                    (first.get("link"), poses[0] @ turn),
                    (second.get("link"), poses[1] @ turn),
                ),
            )
        )
    return loops


def _ends(element: Element) -> tuple[Element, Element]:
    """Return the elements of the two links that a loop connects."""
    for names in END_ELEMENTS:
        ends = element.all(*names)
        if len(ends) == 2:
            return ends[0], ends[1]
    expected = ", or ".join(f"<{first}> and <{second}>" for first, second in END_ELEMENTS)
    raise element.error(f"needs the links that it connects: {expected}")


def _end_poses(element: Element, first: Element, second: Element) -> tuple[FloatArray, FloatArray]:
    """Return the pose of the joint in the two links, (4, 4) each.

    An `<origin>` beside the ends is that in the first link; the frame
    of the second link is then that of the joint.
    """
    poses = []
    for end in (first, second):
        origin = element.find(f"{end.tag}_origin") or end.find("origin") or end
        poses.append(_pose(origin))
    shared = element.find("origin")
    if shared is not None:
        poses[0] = _pose(shared)
    return poses[0], poses[1]


def _pose(element: Element) -> FloatArray:
    """Return the pose of `xyz` and `rpy`, (4, 4)."""
    xyz = element.numbers("xyz", "0 0 0", 3)
    return Placement.xyz_rpy(xyz, element.numbers("rpy", "0 0 0", 3)).matrix


def undeclared_loops(tree: RobotTree) -> list[tuple[str, str]]:
    """Return pairs of links at the ends of chains that meet, which a loop may be missing for.

    The ends are those of the tree as written, with all joints at zero,
    on different bodies with at least `MIN_LOOP_JOINTS` joints between
    them.
    """
    parents = {joint.child: joint for joint in tree.joints}
    inner = {joint.parent for joint in tree.joints}
    ends = [link.name for link in tree.links if link.name not in inner and link.name in parents]
    if not 2 <= len(ends) <= MAX_COMPARED_ENDS:
        return []
    chains = {name: _chain(name, parents) for name in ends}
    points = {name: _position(chain) for name, chain in chains.items()}
    size = max(float(np.linalg.norm(point)) for point in points.values())
    meeting = []
    for a, b in combinations(ends, 2):
        gap = float(np.linalg.norm(points[a] - points[b]))
        if gap < MEETING_RATIO * size and _joints_between(chains[a], chains[b]) >= MIN_LOOP_JOINTS:
            meeting.append((a, b))
    return meeting


def _chain(link: str, parents: Mapping[str, Connection]) -> list[Connection]:
    """Return the joints from the root to a link."""
    chain: list[Connection] = []
    while link in parents and len(chain) <= len(parents):
        chain.append(parents[link])
        link = parents[link].parent
    return chain[::-1]


def _position(chain: list[Connection]) -> FloatArray:
    """Return where a chain ends with all joints at zero, (3,)."""
    pose = IDENTITY
    for joint in chain:
        pose = pose @ joint.placement @ joint.after
    return np.asarray(pose[:3, 3])


def _joints_between(a: list[Connection], b: list[Connection]) -> int:
    """Return how many moving joints lie between the ends of two chains."""
    shared = {joint.name for joint in a} & {joint.name for joint in b}
    return sum(1 for joint in (*a, *b) if joint.motions and joint.name not in shared)
