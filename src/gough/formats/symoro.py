"""SYMORO's `.par`: modified Denavit-Hartenberg parameters of a tree, and the frames that close its
loops.

Frame j stands on its antecedent by Rz(gamma) Tz(b) Rx(alpha) Tx(d) Rz(theta) Tz(r). Of NF frames
the first NL are links; joints NL+1 to NJ are cut, and frame j of a cut joint coincides with frame j
+ NF - NJ, which is fixed.
"""

from __future__ import annotations

import math
import re
from dataclasses import replace

import numpy as np

from gough.core.errors import InvalidInput, InvalidMechanism
from gough.core.names import INERTIAL
from gough.formats.tree import FREE_MOTIONS, Connection, Link, Loop, RobotTree
from gough.mechanism.expression import evaluate, parse
from gough.mechanism.placement import IDENTITY, Placement
from gough.mechanism.terms import TERMS

GEOMETRY = ("gamma", "b", "alpha", "d", "theta", "r")
MOVES = (
    (FREE_MOTIONS[5], "theta"),
    (FREE_MOTIONS[2], "r"),
)  # by sigma: motion and the parameter that is its coordinate
MOST = 500  # frames


class _Par:
    """A file as lists of texts by their names in small letters."""

    def __init__(self, text: str, source: str) -> None:
        self.source = source
        plain = re.sub(r"\(\*.*?\*\)", " ", text, flags=re.S)
        self.lists = {
            key.lower(): [part.strip() for part in inner.split(",")]
            for key, inner in re.findall(r"(\w+)\s*=\s*\{([^{}]*)\}", plain)
        }
        single = {
            key.lower(): int(number)
            for key, number in re.findall(r"(\w+)\s*=\s*(\d{1,6})\s", plain + "\n")
        }
        self.frames = single.get("nf", single.get("nj", single.get("nl", 0)))
        self.links, self.joints = single.get("nl", self.frames), single.get("nj", self.frames)
        if (
            not 0 < self.links <= self.joints <= self.frames <= MOST
            or self.frames - self.joints != (self.joints - self.links)
        ):
            raise self.error(
                f"NL = {self.links}, NJ = {self.joints}, NF = {self.frames}: expected as many "
                f"frames "
                "beyond NJ as cut joints beyond NL"
            )

    def error(self, message: str) -> InvalidMechanism:
        return InvalidMechanism(f"{self.source}: {message}", file=self.source)

    def text(self, key: str, j: int) -> str:
        """Return the entry of frame j, zero without."""
        items = self.lists.get(key, [])
        return items[j - 1] if j <= len(items) and items[j - 1] else "0"

    def value(self, key: str, j: int) -> float | None:
        """Return the entry of frame j, of numbers, pi and functions; None with other symbols, or if
        it is none.
        """
        try:
            value = evaluate(
                parse(self.text(key, j)),
                lambda node: {"pi": math.pi}[str(node.value).lower()],
                math,
            )
        except (InvalidInput, KeyError, AttributeError, ValueError, ArithmeticError):
            return None
        return float(value) if isinstance(value, int | float) and abs(value) < 1e12 else None

    def number(self, key: str, j: int) -> float:
        found = self.value(key, j)
        if found is None:
            raise self.error(
                f"{key}{j} is '{self.text(key, j)[:40]}', a symbol without a value; write a number"
            )
        return found

    def name(self, j: int) -> str:
        return "world" if j == 0 else f"body{j}" if j <= self.links else f"frame{j}"

    def link(self, j: int) -> Link:
        """A zero is a parameter the body does not have, a symbol one without a value."""
        if not 0 < j <= self.links:
            return Link(name=self.name(j))
        values = [self.value(key.removeprefix("I").lower(), j) for key in INERTIAL]
        return Link(
            name=self.name(j),
            parameters=tuple(p for p, value in zip(INERTIAL, values) if value != 0.0),
            inertia=np.array([value or 0.0 for value in values]),
        )

    def connection(self, j: int) -> Connection:
        kind, before = self.number("sigma", j), int(self.number("ant", j))
        if kind not in (0, 1, 2):
            raise self.error(
                f"sigma{j} is {kind:g}, expected 0 (revolute), 1 (prismatic) or 2 (fixed)"
            )
        if not 0 <= before < self.frames or before == j:
            raise self.error(f"ant{j} is {before}, expected the number of another frame, or 0")
        motion, variable = (*MOVES, (None, ""))[int(kind)]
        fixed = Connection(
            name=f"fixed{j}",
            parent=self.name(before),
            child=self.name(j),
            placement=Placement.mdh(
                **{key: 0.0 if key == variable else self.number(key, j) for key in GEOMETRY}
            ).matrix,
        )
        if motion is None:
            return fixed
        start = self.value(variable, j)
        if start is None and not re.fullmatch(r"[A-Za-z]\w*", self.text(variable, j)):
            raise self.error(
                f"{variable}{j} is '{self.text(variable, j)[:40]}', expected a name or a number: "
                f"what "
                "moves a joint's zero is gamma or b, or a fixed frame"
            )
        given = {
            name: self.value(name, j) for name in TERMS if name in self.lists and j <= self.links
        }
        return replace(
            fixed,
            name=f"q{j}",
            motions=(motion,),
            start=(start or 0.0,),
            values={name: value or 0.0 for name, value in given.items() if value != 0.0},
        )


def read_symoro(text: str, source: str) -> RobotTree:
    """Read a `.par` file."""
    par = _Par(text, source)
    robot = re.search(r"Robotname\s*=\s*'([^']*)'", text)
    name, far = robot.group(1) if robot else "robot", par.frames - par.joints
    frames = range(1, par.frames + 1)
    loops = tuple(
        Loop(
            name=f"loop{j}",
            kind="weld",
            frames=((par.name(j), IDENTITY), (par.name(j + far), IDENTITY)),
        )
        for j in range(par.links + 1, par.joints + 1)
    )
    tree = RobotTree(
        name=name,
        title=f"{name}, from SYMORO",
        root=par.name(0),
        loops=loops,
        links=(Link(name=par.name(0)), *map(par.link, frames)),
        joints=tuple(map(par.connection, frames)),
    )
    x, y, z = (par.value("g", k) for k in (1, 2, 3))
    if x is None or y is None or z is None or not (x or y or z):
        tree = tree.with_notes("guessed: gravity 9.81 m/s2 along -z; the file has no numbers")
    else:
        tree = replace(tree, gravity=(x, y, z))
    motors = [
        joint.name
        for j, joint in enumerate(tree.joints, 1)
        if j <= par.joints and joint.motions and par.number("mu", j) == 1
    ]
    return tree.with_motors(motors) if motors else tree
