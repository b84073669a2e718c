"""SYMORO's `.par`: modified Denavit-Hartenberg parameters of a tree, and the frames that close its loops.

Frame j stands on its antecedent by Rz(gamma) Tz(b) Rx(alpha) Tx(d) Rz(theta) Tz(r). Of NF frames the first NL are
links; joints NL+1 to NJ are cut, and frame j of a cut joint coincides with frame j + NF - NJ, which is fixed.
"""

from __future__ import annotations

import math
import re
from dataclasses import replace

import numpy as np

from gough.core.errors import InvalidInput, InvalidMechanism
from gough.core.names import INERTIAL
from gough.mechanism.expression import evaluate, parse
from gough.mechanism.formats.tree import Connection, Link, Loop, RobotTree, Z
from gough.mechanism.placement import HERE, Placement
from gough.mechanism.terms import TERMS

GEOMETRY = ("gamma", "b", "alpha", "d", "theta", "r")
INERTIA = dict(zip(("m", "mx", "my", "mz", "xx", "xy", "yy", "xz", "yz", "zz"), INERTIAL))
MOST = 500  # frames


def read_symoro(text: str, source: str) -> RobotTree:
    """Read a `.par` file."""
    return _Par(text, source).tree()


class _Par:
    """A file as lists of texts by their names in small letters."""

    def __init__(self, text: str, source: str) -> None:
        self.source = source
        name = re.search(r"Robotname\s*=\s*'([^']*)'", text)
        self.name = name.group(1) if name else "robot"
        plain = re.sub(r"\(\*.*?\*\)", " ", text, flags=re.S)
        self.lists = {key.lower(): [part.strip() for part in inner.split(",")]
                      for key, inner in re.findall(r"(\w+)\s*=\s*\{([^{}]*)\}", plain)}
        self.single = {key.lower(): int(number) for key, number in re.findall(r"(\w+)\s*=\s*(\d{1,6})\s", plain + "\n")}
        self.frames = self.single.get("nf", self.single.get("nj", self.single.get("nl", 0)))
        self.links, self.joints = self.single.get("nl", self.frames), self.single.get("nj", self.frames)
        if not 0 < self.links <= self.joints <= self.frames <= MOST or self.frames - self.joints != (
                self.joints - self.links):
            raise self.error(f"NL = {self.links}, NJ = {self.joints}, NF = {self.frames}: expected as many frames "
                             "beyond NJ as cut joints beyond NL")

    def error(self, message: str) -> InvalidMechanism:
        """Return an error that names the file."""
        return InvalidMechanism(f"{self.source}: {message}", file=self.source)

    def text(self, key: str, j: int) -> str:
        """Return the entry of frame j, zero without."""
        items = self.lists.get(key, [])
        return items[j - 1] if j <= len(items) and items[j - 1] else "0"

    def number(self, key: str, j: int) -> float:
        """Return the entry of frame j as a number."""
        found = _value(self.text(key, j))
        if found is None:
            raise self.error(f"{key}{j} is '{self.text(key, j)[:40]}', a symbol without a value; write a number")
        return found

    def tree(self) -> RobotTree:
        """Return all of it."""
        frames, far = range(1, self.frames + 1), self.frames - self.joints
        links = (Link(name="world"), *(self._link(j) if j <= self.links else Link(name=f"frame{j}") for j in frames))
        loops = tuple(Loop(name=f"loop{j}", kind="weld", frames=((f"frame{j}", HERE), (f"frame{j + far}", HERE)))
                      for j in range(self.links + 1, self.joints + 1))
        x, y, z = (_value(self.text("g", k)) for k in (1, 2, 3))
        tree = RobotTree(name=self.name, title=f"{self.name}, from SYMORO", root="world", links=links,
                         joints=tuple(map(self._connection, frames)), loops=loops)
        if x is None or y is None or z is None or not (x or y or z):
            tree = tree.noting("guessed: gravity 9.81 m/s2 along -z; the file has no numbers")
        else:
            tree = replace(tree, gravity=(x, y, z))
        motors = [f"q{j}" for j in range(1, self.joints + 1) if self.number("mu", j) == 1 and self._kind(j) < 2]
        return tree.driven_by(motors) if motors else tree

    def _kind(self, j: int) -> int:
        kind = self.number("sigma", j)
        if kind not in (0, 1, 2):
            raise self.error(f"sigma{j} is {kind:g}, expected 0 (revolute), 1 (prismatic) or 2 (fixed)")
        return int(kind)

    def _connection(self, j: int) -> Connection:
        kind, before = self._kind(j), int(self.number("ant", j))
        if not 0 <= before < self.frames or before == j:
            raise self.error(f"ant{j} is {before}, expected the number of another frame, or 0")
        variable = {0: "theta", 1: "r"}.get(kind)
        placement = Placement.mdh(**{key: 0.0 if key == variable else self.number(key, j) for key in GEOMETRY}).matrix
        child = f"body{j}" if j <= self.links else f"frame{j}"
        parent = "world" if before == 0 else f"body{before}" if before <= self.links else f"frame{before}"
        if variable is None:
            return Connection(name=f"fixed{j}", parent=parent, child=child, placement=placement)
        if not re.fullmatch(r"[A-Za-z]\w*", self.text(variable, j)) and _value(self.text(variable, j)) is None:
            raise self.error(f"{variable}{j} is '{self.text(variable, j)[:40]}', expected a name or a number: what "
                             "moves a joint's zero is gamma or b, or a fixed frame")
        start = _value(self.text(variable, j)) or 0.0
        given = {name: self.text(name, j) for name in TERMS if name in self.lists and j <= self.links}
        values = {name: _value(text) or 0.0 for name, text in given.items() if _value(text) != 0.0}
        return Connection(name=f"q{j}", parent=parent, child=child, placement=placement, start=(start,), values=values,
                          motions=(("revolute" if kind == 0 else "prismatic", Z),))

    def _link(self, j: int) -> Link:
        """A zero is a parameter the body does not have, a symbol one without a value."""
        given = {INERTIAL.index(name): self.text(key, j) for key, name in INERTIA.items()}
        known = tuple(INERTIAL[k] for k in sorted(given) if _value(given[k]) != 0.0)
        return Link(name=f"body{j}", parameters=known,
                    inertia=np.array([_value(given[k]) or 0.0 for k in range(len(INERTIAL))]))


def _value(text: str) -> float | None:
    """Return the value of an expression of numbers, pi and functions; None with other symbols, or if it is none."""
    try:
        value = evaluate(parse(text), lambda node: {"pi": math.pi}[str(node.value).lower()], math)
    except (InvalidInput, KeyError, AttributeError, ValueError, ArithmeticError):
        return None
    return float(value) if isinstance(value, int | float) and abs(value) < 1e12 else None
