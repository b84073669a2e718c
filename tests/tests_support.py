"""What several test files share."""

from __future__ import annotations

import ctypes
import os
import pickle
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from time import monotonic, sleep
from typing import TypeVar

import numpy as np
import pytest

from gough.core.arrays import FloatArray
from gough.core.motion import Motion
from gough.core.trajectory import Fourier
from gough.engine import Model
from gough.export import EXPORTS
from gough.export.controller import controller_code
from gough.identification import ESTIMATORS
from gough.logs.formats import LOG_FORMATS
from gough.mechanism import CLOSURES, ROBOT_FORMATS, TERMS, load_robot
from gough.verdict.faults import FAULTS

T = TypeVar("T")


def axis_file(terms: str, *, name: str = "axis", joint: str = "slide", mass: float = 10) -> str:
    """Return the robot file of one horizontal slide; `terms` are the last lines of its joint."""
    return f"""
format = 1
name = "{name}"
[units]
length = "m"
angle = "rad"
mass = "kg"
[[body]]
name = "car"
parameters = ["m"]
m = {mass}
[[joint]]
name = "{joint}"
type = "prismatic"
parent = "base"
child = "car"
rpy = [0, 1.5707963267948966, 0]
actuated = true
{terms}"""


@cache
def model_of(name: str | Path) -> Model:
    """Return the robot of a name or file, compiled once per test process."""
    return Model(load_robot(name))


def made_once(
    tmp_path_factory: pytest.TempPathFactory, name: str, make: Callable[[], T], wait: float = 120.0
) -> T:
    """Return what takes long to make, from the test process that was first to make it.

    Args:
        name: Of the file by which the processes share it.
        make: Makes it.
        wait: Longest wait for another process that makes it. [s]
    """
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent
    path = folder / f"{name}.pickle"
    try:
        os.close(os.open(path.with_suffix(".lock"), os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        end = monotonic() + wait
        while not path.exists() and monotonic() < end:
            sleep(0.1)
    if not path.exists():
        unfinished = path.with_suffix(f".{os.getpid()}")
        unfinished.write_bytes(pickle.dumps(make()))
        unfinished.replace(path)
    shared: T = pickle.loads(path.read_bytes())
    return shared


def fourier(
    model: Model, scale: float, frequency: float, seed: int = 0, harmonics: int = 4
) -> Fourier:
    """A lively trajectory of the task coordinates about home, inside the position limits."""
    rng = np.random.default_rng(seed)
    names = model.mechanism.task
    joints = [model.mechanism.joint(name) for name in names]
    home = np.array([model.home[model.mechanism.coordinates.index(name)] for name in names])
    room = np.array(
        [
            min(j.limits.position[1] - h, h - j.limits.position[0]) if j.limits.position else 0.1
            for j, h in zip(joints, home)
        ]
    )
    mu, nu = rng.uniform(-1, 1, (2, harmonics, len(names)))
    k = np.arange(1, harmonics + 1)[:, None]
    w = 2 * np.pi * frequency
    size = np.sqrt(((mu / (k * w)) ** 2 + (nu / (k * w)) ** 2).sum(axis=0))
    factor = scale * room / size
    return Fourier(
        coordinates=names,
        units=tuple(j.unit for j in joints),
        frequency=frequency,
        offset=home,
        mu=mu * factor,
        nu=nu * factor,
    )


@contextmanager
def registries_restored() -> Iterator[None]:
    """Forget at the end what was registered inside."""
    registries: list[dict] = [
        TERMS,
        CLOSURES,
        LOG_FORMATS,
        ROBOT_FORMATS,
        EXPORTS,
        ESTIMATORS,
        FAULTS,
    ]
    before = [dict(registry) for registry in registries]
    try:
        yield
    finally:
        for registry, content in zip(registries, before):
            registry.clear()
            registry.update(content)


def c_efforts(robot: Model, motion: Motion, folder: Path, **settings: float) -> FloatArray:
    """Return the efforts that the exported C code gives along a motion, (t, a)."""
    source, header = controller_code(robot, **settings)
    (folder / "controller.c").write_text(source)
    (folder / "controller.h").write_text(header)
    (folder / "call.c").write_text("""#include "controller.h"
static controller_state state;
void start(void) { controller_reset(&state); }
int call(const double *p, const double *v, const double *a, double *e)
{ return controller_inverse_dynamics(&state, p, v, a, e); }
""")
    subprocess.run(
        [
            "cc",
            "-std=c99",
            "-Wall",
            "-Werror",
            "-O1",
            "-shared",
            "-fPIC",
            "-o",
            "c.so",
            "controller.c",
            "call.c",
            "-lm",
        ],
        cwd=folder,
        check=True,
    )
    library = ctypes.CDLL(str(folder / "c.so"))
    library.start()
    motors, found = list(robot.actuated), []
    for sample in zip(motion.q[:, motors], motion.qd[:, motors], motion.qdd[:, motors]):
        effort = np.zeros(len(motors))
        arrays = [np.ascontiguousarray(x) for x in (*sample, effort)]
        assert (
            library.call(*(x.ctypes.data_as(ctypes.POINTER(ctypes.c_double)) for x in arrays)) == 0
        )
        found.append(arrays[-1])
    return np.array(found)
