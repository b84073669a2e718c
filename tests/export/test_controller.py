"""Controller code: compiled with gcc and compared with Python on random motion."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from gough.engine import Model
from gough.export.controller import controller_code
from gough.mechanism import bundled_robots, load_robot

pytestmark = pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is not installed")
ROBOTS = [name for name, _ in bundled_robots()]


def compiled(folder: Path, source: str, header: str) -> ctypes.CDLL:
    (folder / "controller.c").write_text(source)
    (folder / "controller.h").write_text(header)
    library = folder / "controller.so"
    subprocess.run(["gcc", "-std=c99", "-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-o", str(library),
                    str(folder / "controller.c"), "-lm"], check=True, capture_output=True)
    return ctypes.CDLL(str(library))


def smooth_motion(model: Model, samples: int = 400) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """A smooth random motion near home: time, position, velocity, acceleration of the independent motors."""
    rng = np.random.default_rng(7)
    rows = list(model.loops.partitions["actuated"].independent)
    t = np.linspace(0, 1, samples)
    home = model.home[rows]
    amplitude = 0.015 * rng.uniform(0.5, 1, len(rows))
    phase, rate = rng.uniform(0, 6, len(rows)), 2 * np.pi * rng.integers(1, 4, len(rows))
    angle = rate * t[:, None] + phase
    return (t, home + amplitude * (np.sin(angle) - np.sin(phase)), amplitude * rate * np.cos(angle),
            -amplitude * rate**2 * np.sin(angle))


@pytest.mark.parametrize("name", ROBOTS)
def test_c_code_equals_python_along_a_random_motion(name: str, tmp_path: Path) -> None:
    model = Model(load_robot(name))
    t, position, velocity, acceleration = smooth_motion(model)
    motion = model.kinematics.motion(t, position, velocity, acceleration, "actuated")
    gains = np.arange(2.0, 2.0 + len(model.actuated))
    expected = model.inverse_dynamics(motion, dead_band=1e-3)
    library = compiled(tmp_path, *controller_code(model, dead_band=1e-3, gains=gains))
    state = (ctypes.c_double * len(model.mechanism.joints))()
    library.controller_reset(state)
    act = list(model.actuated)
    pointer = ctypes.POINTER(ctypes.c_double)
    out, currents = np.zeros(len(act)), np.zeros(len(act))
    for k in range(len(t)):
        arrays = [np.ascontiguousarray(x[k, act]) for x in (motion.q, motion.qd, motion.qdd)]
        args = [a.ctypes.data_as(pointer) for a in arrays]
        assert library.controller_inverse_dynamics(state, *args, out.ctypes.data_as(pointer)) == 0
        np.testing.assert_allclose(out, expected[k], rtol=0, atol=1e-10 * max(1.0, np.abs(expected).max()))
        assert library.controller_inverse_dynamics_current(state, *args, currents.ctypes.data_as(pointer)) == 0
        np.testing.assert_allclose(currents, out / gains)


def test_c_code_returns_a_status_when_the_loops_cannot_close(tmp_path: Path) -> None:
    model = Model(load_robot("palida"))
    library = compiled(tmp_path, *controller_code(model))
    state = (ctypes.c_double * len(model.mechanism.joints))()
    library.controller_reset(state)
    before = list(state)
    pointer = ctypes.POINTER(ctypes.c_double)
    zero, out = np.zeros(6), np.full(6, 7.0)
    for position in (np.array([0.1, 3.0, 0.1, 3.0, 0.1, 3.0]), np.full(6, np.nan)):
        args = [a.ctypes.data_as(pointer) for a in (position, zero, zero)]
        assert library.controller_inverse_dynamics(state, *args, out.ctypes.data_as(pointer)) in (1, 2)
        assert list(state) == before
        assert (out == 7.0).all()


def test_a_hostile_name_cannot_leave_its_comment() -> None:
    from dataclasses import replace

    mechanism = replace(load_robot("five_bar"), title="x */ system(\"rm\"); /*")
    source, header = controller_code(Model(mechanism))
    assert "*/ system" not in source + header
