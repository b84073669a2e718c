"""SYMORO's `.par`: modified Denavit-Hartenberg parameters of a tree, and frames that close loops.

Frame j sits on its antecedent by Rz(gamma) Tz(b) Rx(alpha) Tx(d)
Rz(theta) Tz(r). Of NF frames the first NL are links; joints NL+1 to NJ
are cut, and frame j of a cut joint coincides with frame j + NF - NJ,
which is fixed.
"""

from __future__ import annotations

import math
import re
from dataclasses import replace

import numpy as np

from gough.core.errors import InvalidInput, InvalidMechanism
from gough.core.names import INERTIAL
from gough.formats.tree import Z_AXIS, Connection, Link, Loop, RobotTree
from gough.mechanism.expression import Node, evaluate, parse
from gough.mechanism.placement import IDENTITY, Placement
from gough.mechanism.terms import TERMS
from gough.mechanism.types import Kind

MDH_NAMES = ("gamma", "b", "alpha", "d", "theta", "r")
# By sigma: kind of joint, and the parameter that is its coordinate.
SIGMA_JOINTS: tuple[tuple[Kind, str], ...] = (
    ("revolute", "theta"),
    ("prismatic", "r"),
)
FIXED_SIGMA = 2
MAX_FRAMES = 500
LARGEST_PAR_NUMBER = 1e12
_SHOWN_PAR_CHARS = 40  # of an entry in errors


def _value_of_name(node: Node) -> float:
    """Return the value of pi; raise KeyError for other symbols."""
    return {"pi": math.pi}[str(node.value).lower()]


class _ParFile:
    """A file as lists of texts by their names in small letters."""

    def __init__(self, text: str, source: str) -> None:
        self.source = source
        plain = re.sub(r"\(\*.*?\*\)", " ", text, flags=re.S)
        self.lists: dict[str, list[str]] = {}
        for key, entries in re.findall(r"(\w+)\s*=\s*\{([^{}]*)\}", plain):
            self.lists[key.lower()] = [entry.strip() for entry in entries.split(",")]
        counts: dict[str, int] = {}
        for key, number in re.findall(r"(\w+)\s*=\s*(\d{1,6})\s", plain + "\n"):
            counts[key.lower()] = int(number)
        self.frames = counts.get("nf", counts.get("nj", counts.get("nl", 0)))
        self.links = counts.get("nl", self.frames)
        self.joints = counts.get("nj", self.frames)
        self.cut = self.joints - self.links
        ordered = 0 < self.links <= self.joints <= self.frames <= MAX_FRAMES
        if not ordered or self.frames - self.joints != self.cut:
            raise self.error(
                f"NL = {self.links}, NJ = {self.joints}, NF = {self.frames}: expected as many "
                "frames beyond NJ as cut joints beyond NL"
            )

    def error(self, message: str) -> InvalidMechanism:
        """Return an error about the file."""
        return InvalidMechanism(f"{self.source}: {message}", file=self.source)

    def text(self, key: str, j: int) -> str:
        """Return the entry of frame j, `0` if absent."""
        entries = self.lists.get(key, [])
        return (entries[j - 1] if j <= len(entries) else "") or "0"

    def value(self, key: str, j: int) -> float | None:
        """Return the entry of frame j: numbers, pi and functions.

        None if it has other symbols or no value.
        """
        try:
            number = evaluate(parse(self.text(key, j)), _value_of_name, math)
        except (
            InvalidInput,
            KeyError,
            AttributeError,
            ValueError,
            ArithmeticError,
        ):
            return None
        if not isinstance(number, int | float) or not abs(number) < LARGEST_PAR_NUMBER:
            return None
        return float(number)

    def number(self, key: str, j: int) -> float:
        """Return the entry of frame j, which must have a value."""
        number = self.value(key, j)
        if number is None:
            text = self.text(key, j)[:_SHOWN_PAR_CHARS]
            raise self.error(f"{key}{j} is '{text}', a symbol without a value; write a number")
        return number

    def name(self, j: int) -> str:
        """Return the name of link or frame j."""
        if j == 0:
            return "world"
        return f"body{j}" if j <= self.links else f"frame{j}"

    def link(self, j: int) -> Link:
        """Read a link.

        A zero is a parameter that the body does not have, a symbol one
        without a value.
        """
        if not 0 < j <= self.links:
            return Link(name=self.name(j))
        values = [self.value(key.removeprefix("I").lower(), j) for key in INERTIAL]
        return Link(
            name=self.name(j),
            parameters=tuple(name for name, number in zip(INERTIAL, values) if number != 0.0),
            inertia=np.array([number or 0.0 for number in values]),
        )

    def connection(self, j: int) -> Connection:
        """Read a joint."""
        sigma = self.number("sigma", j)
        parent = int(self.number("ant", j))
        if sigma not in (0, 1, FIXED_SIGMA):
            raise self.error(
                f"sigma{j} is {sigma:g}, expected 0 (revolute), 1 (prismatic) or 2 (fixed)"
            )
        if not 0 <= parent < self.frames or parent == j:
            raise self.error(f"ant{j} is {parent}, expected the number of another frame, or 0")
        coordinate = ""
        if sigma != FIXED_SIGMA:
            kind, coordinate = SIGMA_JOINTS[int(sigma)]
        constant = [key for key in MDH_NAMES if key != coordinate]
        fixed = Connection(
            name=f"fixed{j}",
            parent=self.name(parent),
            child=self.name(j),
            placement=Placement.mdh(**{key: self.number(key, j) for key in constant}).matrix,
        )
        if not coordinate:
            return fixed
        return replace(
            fixed,
            name=f"q{j}",
            motions=((kind, Z_AXIS),),
            start=(self._start(coordinate, j),),
            values=self._coefficients(j),
        )

    def _start(self, coordinate: str, j: int) -> float:
        """Return the value of a joint coordinate, zero for a symbol."""
        start = self.value(coordinate, j)
        text = self.text(coordinate, j)
        if start is None and not re.fullmatch(r"[A-Za-z]\w*", text):
            raise self.error(
                f"{coordinate}{j} is '{text[:_SHOWN_PAR_CHARS]}', expected a name or a number: "
                "what moves a joint's zero is gamma or b, or a fixed frame"
            )
        return start or 0.0

    def _coefficients(self, j: int) -> dict[str, float]:
        """Return coefficients of joint terms; a symbol is a term without a value."""
        values = {}
        for name in TERMS:
            if name in self.lists and j <= self.links:
                number = self.value(name, j)
                if number != 0.0:
                    values[name] = number or 0.0
        return values


def read_symoro(text: str, source: str) -> RobotTree:
    """Read a `.par` file."""
    par = _ParFile(text, source)
    match = re.search(r"Robotname\s*=\s*'([^']*)'", text)
    frames = range(1, par.frames + 1)
    loops = []
    for j in range(par.links + 1, par.joints + 1):
        ends = ((par.name(j), IDENTITY), (par.name(j + par.cut), IDENTITY))
        loops.append(Loop(name=f"loop{j}", kind="weld", frames=ends))
    tree = RobotTree(
        name=match[1] if match else "robot",
        format="SYMORO",
        root=par.name(0),
        loops=tuple(loops),
        links=(Link(name=par.name(0)), *map(par.link, frames)),
        joints=tuple(map(par.connection, frames)),
    )
    x = par.value("g", 1)
    y = par.value("g", 2)
    z = par.value("g", 3)
    if x is None or y is None or z is None or not (x or y or z):
        tree = tree.with_notes("assumed: gravity 9.81 m/s2 along -z; the file has no numbers")
    else:
        tree = replace(tree, gravity=(x, y, z))
    motors = []
    for j, joint in enumerate(tree.joints[: par.joints], 1):
        if joint.motions and par.number("mu", j) == 1:
            motors.append(joint.name)
    return tree.with_motors(motors)
