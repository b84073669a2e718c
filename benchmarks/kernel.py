"""Time the batch kernels on a 6-UPS regressor: python benchmarks/kernel.py

The graph is the task-space regressor (6 x 190: 19 bodies of 10 parameters) of a hexapod whose legs
are a universal joint and a cylinder, written out from the platform pose, its velocity and
acceleration. The peer is CasADi's own virtual machine; the largest difference stands beside each
time.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable

import casadi as ca
import numpy as np

from gough.kernels import codegen
from gough.kernels.kernel import Kernel
from gough.kernels.tape import read_tape


def rotation_x(angle: ca.SX) -> ca.SX:
    c, s = ca.cos(angle), ca.sin(angle)
    return ca.vertcat(ca.horzcat(1, 0, 0), ca.horzcat(0, c, -s), ca.horzcat(0, s, c))


def rotation_y(angle: ca.SX) -> ca.SX:
    c, s = ca.cos(angle), ca.sin(angle)
    return ca.vertcat(ca.horzcat(c, 0, s), ca.horzcat(0, 1, 0), ca.horzcat(-s, 0, c))


def rotation_z(angle: ca.SX) -> ca.SX:
    c, s = ca.cos(angle), ca.sin(angle)
    return ca.vertcat(ca.horzcat(c, -s, 0), ca.horzcat(s, c, 0), ca.horzcat(0, 0, 1))


def inertia_products(v: ca.SX) -> ca.SX:
    """3 x 6 matrix with I v = matrix (xx, xy, yy, xz, yz, zz)."""
    x, y, z = v[0], v[1], v[2]
    return ca.vertcat(
        ca.horzcat(x, y, 0, z, 0, 0), ca.horzcat(0, x, y, 0, z, 0), ca.horzcat(0, 0, 0, x, y, z)
    )


def body_regressor(omega: ca.SX, omega_dot: ca.SX, acceleration: ca.SX) -> ca.SX:
    """6 x 10 Newton-Euler regressor of one body in its own frame: force, then moment [N, N m]."""
    turn = ca.skew(omega_dot) + ca.skew(omega) @ ca.skew(omega)
    force = ca.horzcat(acceleration, turn, ca.SX(3, 6))
    rotary = inertia_products(omega_dot) + ca.skew(omega) @ inertia_products(omega)
    return ca.vertcat(force, ca.horzcat(ca.SX(3, 1), -ca.skew(acceleration), rotary))


def leg_blocks(point: ca.SX, velocity: ca.SX, acceleration: ca.SX, jacobian: ca.SX) -> list[ca.SX]:
    """Task-space regressor blocks, 6 x 10 each, of the three bodies of a leg that ends in
    `point`.
    """
    reach = ca.sqrt(ca.sumsqr(point))
    alpha = ca.atan2(-point[1], point[2])
    beta = ca.asin(point[0] / reach)
    x_axis = ca.SX([1, 0, 0])
    cross, rod = rotation_x(alpha), rotation_x(alpha) @ rotation_y(beta)
    y_axis = cross[:, 1]
    # velocity = rod [beta_dot reach, -alpha_dot cos(beta) reach, reach_dot]
    rates = rod.T
    alpha_map = -rates[1, :] / (ca.cos(beta) * reach)
    beta_map = rates[0, :] / reach
    alpha_rate, beta_rate, reach_rate = (m @ velocity for m in (alpha_map, beta_map, rates[2, :]))
    omega = alpha_rate * x_axis + beta_rate * y_axis
    turn = alpha_rate * ca.cross(x_axis, y_axis) * beta_rate
    axis = rod[:, 2]
    rest = (
        acceleration
        - 2 * reach_rate * ca.cross(omega, axis)
        - reach * (ca.cross(omega, ca.cross(omega, axis)) + ca.cross(turn, axis))
    )
    alpha_acc, beta_acc, reach_acc = (m @ rest for m in (alpha_map, beta_map, rates[2, :]))
    gravity = ca.SX([0, 0, 9.81])
    blocks = []
    for frame, spin, spin_dot, spin_map, tip, tip_map in (
        (cross, alpha_rate * x_axis, alpha_acc * x_axis, x_axis @ alpha_map, gravity, ca.SX(3, 3)),
        (
            rod,
            omega,
            alpha_acc * x_axis + beta_acc * y_axis + turn,
            x_axis @ alpha_map + y_axis @ beta_map,
            gravity,
            ca.SX(3, 3),
        ),
        (
            rod,
            omega,
            alpha_acc * x_axis + beta_acc * y_axis + turn,
            x_axis @ alpha_map + y_axis @ beta_map,
            acceleration + gravity,
            ca.SX.eye(3),
        ),
    ):
        own = body_regressor(frame.T @ spin, frame.T @ spin_dot, frame.T @ tip)
        twist = ca.vertcat(frame.T @ tip_map, frame.T @ spin_map)
        blocks.append(jacobian.T @ (twist.T @ own))
    del reach_acc
    return blocks


def hexapod_regressor() -> ca.Function:
    """Platform pose (x, y, z [m]; roll, pitch, yaw [rad]), its velocity and acceleration to the 6 x
    190 regressor.
    """
    q, qd, qdd = ca.SX.sym("q", 6), ca.SX.sym("qd", 6), ca.SX.sym("qdd", 6)
    roll, pitch = rotation_x(q[3]), rotation_x(q[3]) @ rotation_y(q[4])
    platform = pitch @ rotation_z(q[5])
    spin_map = ca.horzcat(ca.SX([1, 0, 0]), roll[:, 1], pitch[:, 2])
    omega = spin_map @ qd[3:]
    omega_dot = spin_map @ qdd[3:] + ca.jtimes(spin_map @ qd[3:], q, qd)
    blocks = []
    for leg in range(6):
        a = 2 * np.pi * (leg // 2) / 3 + (-1) ** leg * 0.3
        b = 2 * np.pi * (leg // 2) / 3 + (-1) ** leg * 0.8
        arm = platform @ ca.SX([0.3 * np.cos(b), 0.3 * np.sin(b), -0.05])
        point = q[:3] + arm - ca.SX([0.6 * np.cos(a), 0.6 * np.sin(a), 0.0])
        velocity = qd[:3] + ca.cross(omega, arm)
        acceleration = qdd[:3] + ca.cross(omega_dot, arm) + ca.cross(omega, ca.cross(omega, arm))
        blocks += leg_blocks(
            point, velocity, acceleration, ca.horzcat(ca.SX.eye(3), -ca.skew(arm) @ spin_map)
        )
    own = body_regressor(
        platform.T @ omega, platform.T @ omega_dot, platform.T @ (qdd[:3] + ca.SX([0, 0, 9.81]))
    )
    blocks.append(ca.diagcat(platform, spin_map.T @ platform) @ own)
    return ca.Function(
        "hexapod", [q, qd, qdd], [ca.horzcat(*blocks)], ["q", "qd", "qdd"], ["regressor"]
    )


def adjoint(function: ca.Function) -> ca.Function:
    """Gradient of <weights, regressor> by pose, velocity and acceleration."""
    inputs = [ca.SX.sym(function.name_in(i), *function.size_in(i)) for i in range(function.n_in())]
    weights = ca.SX.sym("weights", *function.size_out(0))
    value = ca.dot(weights, function(*inputs))
    return ca.Function("adjoint", [*inputs, weights], [ca.gradient(value, x) for x in inputs])


def best(run: Callable[[], object], repeats: int = 7, calls: int = 1) -> float:
    """Shortest of several runs of some calls each, per call [s]: the machine is shared."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        for _ in range(calls):
            run()
        times.append(time.perf_counter() - start)
    return min(times) / calls


def measure(function: ca.Function, inputs: list[np.ndarray], block: int) -> None:
    cold = time.perf_counter()
    kernel = Kernel(function)
    cold = time.perf_counter() - cold
    warm = best(lambda: Kernel(function), 3)
    t = len(inputs[0])
    results = kernel(*inputs)
    columns = [
        np.ascontiguousarray(
            x.reshape(t, -1, order="F") if x.ndim == 2 else x.transpose(0, 2, 1).reshape(t, -1)
        ).T
        for x in inputs
    ]
    few = 200
    mapped = function.map(few)
    arguments = [
        c[:, :few]
        if function.size2_in(i) == 1
        else c[:, :few].reshape(function.size1_in(i), -1, order="F")
        for i, c in enumerate(columns)
    ]
    peer = mapped.call([ca.DM(x) for x in arguments])
    difference = 0.0
    for ours, theirs, shape in zip(results, peer, kernel.output_shapes):
        theirs = (
            theirs.full()
            .reshape(shape[0], few, shape[1])
            .transpose(1, 0, 2)
            .reshape(ours[:few].shape)
        )
        scale = np.abs(theirs).max()
        difference = max(difference, float(np.abs(ours[:few] - theirs).max() / scale))
    vm = best(lambda: mapped.call([ca.DM(x) for x in arguments]), 3) / few
    inside = [x[:block] for x in inputs]
    one_block = best(lambda: kernel(*inside, threads=1), calls=10) / block
    one = best(lambda: kernel(*inputs, threads=1)) / t
    all_cores = best(lambda: kernel(*inputs)) / t
    single = [x[:1] for x in inputs]
    step = best(lambda: kernel(*single), calls=200)
    print(
        f"{function.name():10s} {kernel.operations:6d} ops  compile {cold:5.2f} s  cached "
        f"{warm * 1e3:5.0f} ms  "
        f"block of {block}: {one_block * 1e6:6.3f}  all, 1 thread: {one * 1e6:6.3f}  "
        f"{os.cpu_count()} threads: {all_cores * 1e6:6.3f}  CasADi: {vm * 1e6:6.1f} us/sample  "
        f"t = 1: {step * 1e6:5.1f} us  relative difference {difference:.1e}"
    )


def main(*, small: bool = False) -> None:
    """Print one line for each graph: the regressor, its adjoint and a tiny one."""
    rng = np.random.default_rng(1)
    t = 300 if small else 4000
    q = rng.uniform(-0.2, 0.2, (t, 6)) + np.array([0, 0, 0.8, 0, 0, 0])
    inputs = [q, rng.normal(size=(t, 6)), rng.normal(size=(t, 6))]
    with tempfile.TemporaryDirectory() as directory:
        os.environ["GOUGH_CACHE_DIR"] = directory
        regressor = hexapod_regressor()
        print(
            f"graph: {regressor.n_instructions()} instructions, {len(read_tape(regressor).nodes)} "
            f"distinct; "
            f"parts of {codegen.PART_LENGTH}"
        )
        if not small:  # which compiles for long
            measure(regressor, inputs, 256)
            gradient = adjoint(regressor)
            measure(gradient, [*inputs, rng.normal(size=(t, 6, 190))], 256)
        tiny = ca.SX.sym("x", 6)
        measure(ca.Function("tiny", [tiny], [2 * tiny]), [q], 256)


if __name__ == "__main__":
    main(small="--small" in sys.argv)
