"""Exported controller code, compiled and called."""

from __future__ import annotations

import ctypes
import subprocess
from pathlib import Path

import numpy as np

from gough.engine import Model

OK, NOT_CLOSED, NOT_FINITE, JUMP = range(4)
WARNINGS = (
    "-std=c99",
    "-pedantic",
    "-Wall",
    "-Wextra",
    "-Wconversion",
    "-Wdouble-promotion",
    "-Wfloat-equal",
    "-Werror",
)


def compiled(
    folder: Path,
    source: str,
    header: str,
    compiler: str = "gcc",
    flags: tuple[str, ...] = ("-O1",),
) -> ctypes.CDLL:
    """Compile controller code without a warning and load it.

    It is linked without the flags: linking with -ffast-math changes the rounding of the process.
    """
    (folder / "controller.c").write_text(source)
    (folder / "controller.h").write_text(header)
    compiling = [compiler, *WARNINGS, *flags, "-fPIC", "-c", "controller.c"]
    subprocess.run(compiling, cwd=folder, check=True)
    linking = [compiler, "-shared", "-o", "controller.so", "controller.o", "-lm"]
    subprocess.run(linking, cwd=folder, check=True)
    return ctypes.CDLL(str(folder / "controller.so"))


class Controller:
    """The exported code of a robot with a state of its own."""

    def __init__(self, model: Model, library: ctypes.CDLL, number: type = ctypes.c_double) -> None:
        n = len(model.mechanism.joints)
        fields = [
            ("q", number * n),
            ("before", number * n),
            ("missed", ctypes.c_int),
        ]
        if model.n_state_inputs:
            n_past = 3 * len(model.mechanism.internal_states) + 1 + len(model.mechanism.channels)
            fields.append(("past", number * n_past))
        self.state = type("State", (ctypes.Structure,), {"_fields_": fields})()
        self.library = library
        self.number = number
        self.motors = len(model.actuated)
        self.reset()

    def reset(self) -> None:
        self.library.controller_reset(ctypes.byref(self.state))

    def __call__(
        self, *sample: np.ndarray, function: str = "inverse_dynamics"
    ) -> tuple[int, np.ndarray]:
        """Return the status and the efforts, 7 where they were not written."""
        pointer = ctypes.POINTER(self.number)
        arrays = [np.array(x, dtype=self.number) for x in sample]
        out = np.full(self.motors, 7.0, dtype=self.number)
        status = getattr(self.library, f"controller_{function}")(
            ctypes.byref(self.state),
            *[x.ctypes.data_as(pointer) for x in arrays],
            out.ctypes.data_as(pointer),
        )
        return status, out
