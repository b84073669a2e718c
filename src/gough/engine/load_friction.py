"""Load-dependent friction: joint friction that depends on the effort its motor transmits.

The transmitted effort u_j of motor j is its effort tau_j without the
friction f_j of its own joint,

    u_j = tau_j - f_j(q_j, qd_j, u_j).

If f_j depends on u_j, as mu |u_j| sign(qd_j) does, efforts are no
longer linear in the parameters. Regressors therefore take u_j as known:
it is computed from given standard parameters.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import casadi as ca
import numpy as np

from gough.core.arrays import BoolArray, FloatArray
from gough.core.names import Parameter
from gough.engine.symbolic import TreeEfforts
from gough.mechanism.types import Mechanism

# Newton steps for u + f(u) = tau. One is exact if f is proportional to
# |u|; smooth f take four.
TRANSMITTED_EFFORT_STEPS = 4


@dataclass(frozen=True, kw_only=True)
class TransmittedEffort:
    """The efforts that motors transmit to joints with load-dependent friction."""

    mechanism: Mechanism  # with load-dependent friction
    # index of the joint whose equation is each row, (m,)
    independent: Sequence[int]
    # standard parameters that regressors compute the efforts from, (p,)
    parameters: FloatArray

    @cached_property
    def rows(self) -> dict[int, int]:
        """Row of the equation of motion of each joint with load-dependent friction, by joint."""
        return {joint: self.independent.index(joint) for joint in self.mechanism.load_dependent}

    @cached_property
    def frictionless_parameters(self) -> FloatArray:
        """Standard parameters with zero friction in the joints of the rows, (p,).

        With these, the efforts of the rows are the transmitted efforts.
        """
        mechanism = self.mechanism
        row_joints = {mechanism.coordinates[i] for i in self.independent}
        parameters = np.array(self.parameters, dtype=float)
        for k, name in enumerate(mechanism.standard.names):
            term = mechanism.terms.get(name.kind)
            if term is not None and term.is_joint_friction and name.owner in row_joints:
                parameters[k] = 0.0
        return parameters

    def insert(
        self,
        tree: TreeEfforts,
        closure_map: ca.SX,
        parameter: Callable[[Parameter], Any],
        applied: ca.SX | None = None,
    ) -> None:
        """Write the transmitted efforts into a tree, as expressions.

        Args:
            tree: The tree; its accelerations determine the efforts
                unless `applied` is given.
            closure_map: E, velocities of all coordinates by those of
                the rows, (n, m).
            parameter: Gives the value of a standard parameter by name.
            applied: Efforts applied to the rows, (m,); u + f(u) = tau
                is then solved by Newton's method.
        """
        if not self.rows:
            return
        rigid = closure_map.T @ tree.total(parameter)
        for joint, row in self.rows.items():
            if applied is None:
                tree.transmitted[joint] = rigid[row]
            else:
                tree.transmitted[joint] = _solve(tree, joint, parameter, applied[row])

    def linearise(
        self,
        regressor: FloatArray,
        values: FloatArray,
        columns: Sequence[tuple[Parameter, ...]],
    ) -> tuple[FloatArray, FloatArray]:
        """Return J (t, r, p) and s (t, r) such that J chi - s is the model around some values.

        With the load-dependent friction g_j of joint j proportional to
        the magnitude of u_j,

            J_jk = W_jk + (g_j / u_j) W_jk   if parameter k is not friction of joint j,
            s_j = g_j.

        Args:
            regressor: W at the transmitted efforts that follow from
                these values, (t, r, p).
            values: Parameters, (p,).
            columns: Standard parameters that each column stands for,
                (p,).
        """
        jacobian = np.array(regressor)
        shift = np.zeros(regressor.shape[:2])
        for joint, row in self.rows.items():
            friction, load_friction = self._friction_columns(joint, columns)
            W = regressor[:, row]
            transmitted = W[:, ~friction] @ values[~friction]
            lost = W[:, load_friction] @ values[load_friction]
            usable = np.abs(transmitted) > np.abs(lost)
            slope = np.divide(lost, transmitted, out=np.zeros_like(lost), where=usable)
            jacobian[:, row, ~friction] += slope[:, None] * W[:, ~friction]
            shift[:, row] = slope * transmitted
        return jacobian, shift

    def _friction_columns(
        self, joint: int, columns: Sequence[tuple[Parameter, ...]]
    ) -> tuple[BoolArray, BoolArray]:
        """Return which columns are friction of a joint, and which of these depend on its load."""
        coordinate = self.mechanism.coordinates[joint]
        friction = np.zeros(len(columns), dtype=bool)
        load_friction = np.zeros(len(columns), dtype=bool)
        for k, members in enumerate(columns):
            term = self.mechanism.terms.get(members[0].kind)
            if term is None or all(name.owner != coordinate for name in members):
                continue
            friction[k] = term.is_joint_friction
            load_friction[k] = term.load_dependent
        return friction, load_friction


def _solve(
    tree: TreeEfforts,
    joint: int,
    parameter: Callable[[Parameter], Any],
    applied: ca.SX,
) -> ca.SX:
    """Return the transmitted effort u of a joint under an applied effort, u + f(u) = tau."""
    u = ca.SX.sym("u")
    tree.transmitted[joint] = u
    residual = u + tree.friction(joint, parameter) - applied
    newton_step = u - residual / ca.jacobian(residual, u)
    solution = ca.SX(0)
    for _ in range(TRANSMITTED_EFFORT_STEPS):
        solution = ca.substitute(newton_step, u, solution)
    return solution
