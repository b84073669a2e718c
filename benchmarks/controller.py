"""Time the generated controller code beside Pinocchio's tree: python benchmarks/controller.py
[--small]

Both run in a tight compiled loop over the samples of one smooth motion at 1 kHz. The C code (gcc
-O2) closes the loops (Newton, from the previous call), projects on the motors and adds friction.
Pinocchio's `rnea`, from its own library, is given all coordinates, velocities and accelerations and
returns the efforts of the open tree: closing and projecting would come on top. Its joints are the
aligned ones it is fastest with.

The C++ side needs Eigen's headers (`pip install cmeel-eigen`, or EIGEN_INCLUDE=/path/to/eigen3).
Without them `rnea` is called from Python, and what a call costs on a robot of one joint is
subtracted.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pinocchio as pin

from gough.core.motion import Motion
from gough.core.parameters import INERTIAL
from gough.engine import Model
from gough.export.controller import controller_code
from gough.mechanism import load_robot

SAMPLES, REPEATS = 1000, 50
ROBOTS = ("palida", "orthoglide", "delta", "serial6")
DEFINITIONS = (
    "BOOST_MPL_LIMIT_LIST_SIZE=30",
    "BOOST_MPL_LIMIT_VECTOR_SIZE=30",
    "BOOST_FUSION_INVOKE_MAX_ARITY=12",
    "BOOST_MPL_CFG_NO_PREPROCESSED_HEADERS",
    "PINOCCHIO_ENABLE_TEMPLATE_INSTANTIATION",
)  # as its CMake says

C_LOOP = """
#define _POSIX_C_SOURCE 199309L
#include "controller.h"
#include <time.h>
double run(const double *position, const double *velocity, const double *acceleration, long samples, long repeats,
           double *effort, long *failures)
{
    const int m = CONTROLLER_MOTORS;
    double best = 1e300;
    controller_state state;
    *failures = 0;
    for (long r = 0; r < repeats; r++) {
        struct timespec start, stop;
        controller_reset(&state);
        clock_gettime(CLOCK_MONOTONIC, &start);
        for (long k = 0; k < samples; k++)
            *failures += controller_inverse_dynamics(&state, position + k * m, velocity + k * m, acceleration + k * m,
                                                     effort + k * m) != CONTROLLER_OK;
        clock_gettime(CLOCK_MONOTONIC, &stop);
        const double took = 1e9 * (stop.tv_sec - start.tv_sec) + (stop.tv_nsec - start.tv_nsec);
        best = took / samples < best ? took / samples : best;
    }
    return best;
}
"""

CPP_LOOP = """
#include <pinocchio/multibody.hpp>
#include <pinocchio/algorithm/rnea.hpp>
#include <algorithm>
#include <chrono>
#include <string>
using namespace pinocchio;
using Vector = Eigen::Map<const Eigen::VectorXd>;
using Matrix = Eigen::Map<const Eigen::Matrix<double, 3, 3, Eigen::RowMajor>>;
static JointModel joint(long kind)
{
    switch (kind) {
    case 0: return JointModelRX();
    case 1: return JointModelRY();
    case 2: return JointModelRZ();
    case 3: return JointModelPX();
    case 4: return JointModelPY();
    default: return JointModelPZ();
    }
}
extern "C" double run(long n, const long *parents, const long *kinds, const double *placements, const double *bodies,
                      const double *gravity, const double *q, const double *v, const double *a, long samples,
                      long repeats, double *effort)
{
    Model model;
    model.gravity.linear() = Eigen::Map<const Eigen::Vector3d>(gravity);
    for (long i = 0; i < n; i++) {
        const SE3 placed(Matrix(placements + 12 * i), Vector(placements + 12 * i + 9, 3));
        const auto id = model.addJoint(parents[i], joint(kinds[i]), placed, std::to_string(i));
        if (bodies[10 * i] > 0)
            model.appendBodyToJoint(id, Inertia::FromDynamicParameters(Vector(bodies + 10 * i, 10)), SE3::Identity());
    }
    Data data(model);
    Eigen::VectorXd x(n), y(n), z(n);
    double best = 1e300;
    for (long r = 0; r < repeats; r++) {
        const auto start = std::chrono::steady_clock::now();
        for (long k = 0; k < samples; k++) {
            x = Vector(q + k * n, n), y = Vector(v + k * n, n), z = Vector(a + k * n, n);
            Eigen::Map<Eigen::VectorXd>(effort + k * n, n) = rnea(model, data, x, y, z);
        }
        const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - start;
        best = std::min(best, took.count() / samples);
    }
    return best;
}
"""


def pointer(array: np.ndarray) -> ctypes.c_void_p:
    return array.ctypes.data_as(ctypes.c_void_p)


def smooth_motion(model: Model) -> Motion:
    """A second of smooth motion about home, within the reach of every motor."""
    rng = np.random.default_rng(7)
    rows = list(model.loops.partitions["actuated"].independent)
    t = np.arange(SAMPLES) * 1e-3
    phase, rate = rng.uniform(0, 6, len(rows)), 2 * np.pi * rng.integers(1, 4, len(rows))
    angle = rate * t[:, None] + phase
    size = 0.02 * rng.uniform(0.5, 1, len(rows))
    return model.kinematics.motion(
        t,
        model.home[rows] + size * (np.sin(angle) - np.sin(phase)),
        size * rate * np.cos(angle),
        -size * rate**2 * np.sin(angle),
        "actuated",
    )


def time_controller(model: Model, motion: Motion, folder: Path) -> tuple[float, float]:
    """Return nanoseconds a call and the largest error relative to Python's efforts."""
    (folder / "controller.c").write_text(controller_code(model)[0])
    (folder / "controller.h").write_text(controller_code(model)[1])
    (folder / "loop.c").write_text(C_LOOP)
    subprocess.run(
        [
            "gcc",
            "-std=c99",
            "-O2",
            "-shared",
            "-fPIC",
            "controller.c",
            "loop.c",
            "-o",
            "loop.so",
            "-lm",
        ],
        cwd=folder,
        check=True,
    )
    library = ctypes.CDLL(str(folder / "loop.so"))
    library.run.restype = ctypes.c_double
    act = list(model.actuated)
    arrays = [np.ascontiguousarray(x[:, act]) for x in (motion.q, motion.qd, motion.qdd)]
    effort, failures = np.empty_like(arrays[0]), ctypes.c_long()
    took = library.run(
        *map(pointer, arrays),
        ctypes.c_long(SAMPLES),
        ctypes.c_long(REPEATS),
        pointer(effort),
        ctypes.byref(failures),
    )
    assert failures.value == 0
    expected = model.inverse_dynamics(motion)
    return took, float(np.abs(effort - expected).max() / np.abs(expected).max())


def tree_of(model: Model) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return parents, kinds, placements (12 numbers each) and bodies (10 each) of the joints."""
    mechanism = model.mechanism
    number = {"base": 0} | {joint.child: i + 1 for i, joint in enumerate(mechanism.joints)}
    parents = np.array([number[joint.parent] for joint in mechanism.joints], dtype=np.int64)
    kinds = np.array(
        ["xyz".index(j.axis) + 3 * (j.kind == "prismatic") for j in mechanism.joints],
        dtype=np.int64,
    )
    placements = np.array(
        [
            np.concatenate([joint.placement.rotation.ravel(), joint.placement.translation])
            for joint in mechanism.joints
        ]
    )
    bodies = np.array(
        [
            [mechanism.body(joint.child).values.get(p, 0.0) for p in INERTIAL]
            for joint in mechanism.joints
        ]
    )
    return parents, kinds, placements, bodies


def eigen_headers() -> Path | None:
    prefix = Path(sysconfig.get_path("purelib")) / "cmeel.prefix"
    for place in (
        os.environ.get("EIGEN_INCLUDE"),
        prefix / "include" / "eigen3",
        "/usr/include/eigen3",
    ):
        if place and (Path(place) / "Eigen" / "Core").exists():
            return Path(place)
    return None


def compiled_rnea(folder: Path) -> ctypes.CDLL | None:
    """Return the C++ loop, or None if it cannot be compiled here."""
    prefix, eigen = Path(sysconfig.get_path("purelib")) / "cmeel.prefix", eigen_headers()
    if eigen is None or shutil.which("g++") is None:
        return None
    (folder / "rnea.cpp").write_text(CPP_LOOP)
    subprocess.run(
        [
            "g++",
            "-std=c++17",
            "-O2",
            "-w",
            "-shared",
            "-fPIC",
            *(f"-D{word}" for word in DEFINITIONS),
            f"-I{prefix / 'include'}",
            f"-I{eigen}",
            "rnea.cpp",
            "-o",
            "rnea.so",
            f"-L{prefix / 'lib'}",
            "-lpinocchio_default",
            f"-Wl,-rpath,{prefix / 'lib'}",
        ],
        cwd=folder,
        check=True,
    )
    library = ctypes.CDLL(str(folder / "rnea.so"))
    library.run.restype = ctypes.c_double
    return library


def time_compiled(library: ctypes.CDLL, model: Model, motion: Motion) -> tuple[float, np.ndarray]:
    arrays = [np.ascontiguousarray(x) for x in (motion.q, motion.qd, motion.qdd)]
    effort = np.empty_like(arrays[0])
    tree, gravity = tree_of(model), np.array(model.mechanism.gravity)
    took = library.run(
        ctypes.c_long(len(tree[0])),
        *map(pointer, tree),
        pointer(gravity),
        *map(pointer, arrays),
        ctypes.c_long(SAMPLES),
        ctypes.c_long(REPEATS),
        pointer(effort),
    )
    return took, effort


def time_from_python(model: Model, motion: Motion) -> tuple[float, np.ndarray]:
    def build(joints: int) -> pin.Model:
        robot = pin.Model()
        robot.gravity.linear = np.array(model.mechanism.gravity)
        kinds = (
            pin.JointModelRX,
            pin.JointModelRY,
            pin.JointModelRZ,
            pin.JointModelPX,
            pin.JointModelPY,
            pin.JointModelPZ,
        )
        for i, (parent, kind, placement, body) in enumerate(zip(*tree_of(model))):
            if i < joints:
                placed = pin.SE3(placement[:9].reshape(3, 3), placement[9:])
                number = robot.addJoint(int(parent), kinds[kind](), placed, str(i))
                if body[0] > 0:
                    robot.appendBodyToJoint(
                        number, pin.Inertia.FromDynamicParameters(body), pin.SE3.Identity()
                    )
        return robot

    def loop(joints: int) -> tuple[float, np.ndarray]:
        robot, found = build(joints), []
        data, best = robot.createData(), np.inf
        columns = [np.ascontiguousarray(x[:, :joints]) for x in (motion.q, motion.qd, motion.qdd)]
        for _ in range(5):
            start = time.perf_counter()
            found = [pin.rnea(robot, data, *x) for x in zip(*columns)]
            best = min(best, time.perf_counter() - start)
        return 1e9 * best / SAMPLES, np.array(found)

    whole, effort = loop(len(model.mechanism.joints))
    return whole - loop(1)[0], effort


def projected_error(model: Model, motion: Motion, tree: np.ndarray) -> float:
    """Return how far the tree's efforts on the motors, joint terms added, are from Gough's."""
    table = model.mechanism.standard.as_dict()
    for i, name in enumerate(model.mechanism.coordinates):
        q, qd, qdd = motion.q[:, i], motion.qd[:, i], motion.qdd[:, i]
        for term, value in (("ia", qdd), ("fv", qd), ("fs", np.sign(qd)), ("off", 1.0), ("k", q)):
            tree[:, i] += table.get(f"{name}.{term}", 0.0) * value
    rows = np.einsum("tnm,tn->tm", model.kinematics.closure_map(motion.q), tree)
    expected = model.project_to_rows(motion.q, model.inverse_dynamics(motion))
    return float(np.abs(rows - expected).max() / np.abs(expected).max())


def main(robots: Sequence[str] = ROBOTS, *, compiled: bool = True) -> None:
    """Print one line for each robot."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        library = compiled_rnea(folder) if compiled else None
        how = "C++" if library is not None else "from Python, a one-joint call subtracted"
        print(
            f"{'robot':12s}{'joints':>7s}  controller.c   error    tree rnea ({how})   error   "
            f"ratio"
        )
        for robot in robots:
            model = Model(load_robot(robot))
            motion = smooth_motion(model)
            own = Path(tempfile.mkdtemp(dir=folder))
            ours, error = time_controller(model, motion, own)
            theirs, tree = (
                time_from_python(model, motion)
                if library is None
                else time_compiled(library, model, motion)
            )
            print(
                f"{robot:12s}{len(model.mechanism.joints):7d}  {ours:9.0f} ns  {error:.1e}  "
                f"{theirs:9.0f} ns"
                f"{'':{len(how)}s}  {projected_error(model, motion, tree):.1e}   "
                f"{ours / theirs:5.2f}"
            )


if __name__ == "__main__":
    if "--small" in sys.argv:
        main(["delta"], compiled=False)  # the C++ loop takes a minute to compile
    else:
        main()
