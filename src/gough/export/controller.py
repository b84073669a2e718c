"""Controller code: one C99 file and its header with the inverse dynamics of a robot, closure
included.
"""

from __future__ import annotations

import re

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined
from numpy.typing import ArrayLike

from gough.core.arrays import FloatArray, check_shape
from gough.core.errors import InvalidInput
from gough.engine import Model
from gough.engine.stepping import controller_graphs
from gough.export.formats import Export, register_export
from gough.identification import Identification
from gough.kernels.c_source import c_function

# A motor that overshoots its velocity limit, or a call that comes late, stays below twice the limit
# times the period;
# sensor noise adds less than ten of its standard deviations and one step of the encoder.
FASTEST, NOISE = 2.0, 10.0
# Where no limit is known a step of a tenth of a radian, or of the robot's length, is taken for
# motion, not for a jump.
EASY = 0.1


def controller_code(
    model: Model,
    values: ArrayLike | None = None,
    *,
    load: ArrayLike | None = None,
    dead_band: ArrayLike | None = None,
    gains: ArrayLike | None = None,
    name: str = "controller",
    iterations: int = 20,
    period: float | None = None,
) -> tuple[str, str]:
    """Return the C source and header of a robot's inverse dynamics.

    A sample is refused, with a status and without a trace, where it cannot be: farther from the
    last good one than the velocity limits allow in the periods since, or so far that Newton's steps
    do not shrink as they do near the branch (|step k+1| <= |step k| / 4 is well inside
    Kantorovich's condition, under which the nearest solution is the only one). A step the velocity
    limits allow (without limits: a small one) is followed in pieces where it is too long for that,
    as near a singularity.

    Args:
        values: Standard parameters, (p,); a priori by default. Base estimates: see
            `Identification.standard`.
        load: Ten inertial parameters of a payload.
        dead_band: Of the velocity sign, scalar or (n,). [m/s or rad/s]
        gains: Drive gains, (a,): adds a function that returns currents.
        name: Prefix of the public names and of the files.
        iterations: Cap of Newton's iterations per call; beyond it the call returns a status code.
        period: Time between calls; that of the robot file's controller by default. [s]
    """
    mechanism = model.mechanism
    name = re.sub(r"\W", "_", name)
    period = 1.0 / mechanism.noise.rate if period is None else float(period)
    if not 0.0 < period < np.inf:
        raise InvalidInput(
            f"the period between calls is {period:g} s, expected a positive number", period=period
        )
    chi = mechanism.standard.values if values is None else np.asarray(values, dtype=float)
    check_shape(chi, (len(mechanism.standard),), "standard parameters")
    band = np.zeros(len(mechanism.joints)) + (
        0.0 if dead_band is None else np.asarray(dead_band, dtype=float)
    )
    newton, efforts = controller_graphs(
        model, chi, model.load() if load is None else np.asarray(load, float), band
    )
    part = model.loops.partitions["actuated"]
    joints = [mechanism.joints[i] for i in part.independent]
    speeds = [
        FASTEST * joint.limits.velocity if joint.limits.velocity else np.inf for joint in joints
    ]
    limited = bool(np.isfinite(speeds).all())
    easy = [
        np.inf if limited else EASY * (1.0 if j.kind == "revolute" else model.loops.length)
        for j in joints
    ]
    slack = NOISE * mechanism.noise.position + (mechanism.noise.resolution or 0.0)
    factors = np.asarray([] if gains is None else gains, dtype=float)
    check_shape(factors, (0 if gains is None else len(model.actuated),), "drive gains")
    fields = {
        "name": name,
        "upper": name.upper(),
        "guard": f"{name.upper()}_H",
        "robot": _comment(mechanism.name),
        "title": _comment(mechanism.title or mechanism.name),
        "motors": len(model.actuated),
        "coordinates": len(mechanism.joints),
        "period": repr(period),
        "order": "\n".join(f" *   {k}  {_comment(n)}" for k, n in enumerate(mechanism.actuated)),
        "home_pose": "\n".join(
            f" *   {_comment(n)} = {model.home[i]:.6g} {mechanism.joints[i].unit}"
            for n, i in zip(mechanism.actuated, model.actuated)
        ),
        "near": iterations,
        "far": 50 * iterations,
        "efforts": c_function(efforts, "efforts"),
        "home": _list(model.home),
        "independents": len(part.independent),
        "measured": ", ".join(str(i) for i in part.independent),
        "motor": ", ".join(str(model.actuated.index(i)) for i in part.independent),
        "fastest": _list(speeds),
        "noise": _list([slack] * len(joints)),
        "easy": _list(easy),
        "jump": "their velocity limits allow" if limited else "the branch can be followed",
        "newton": c_function(newton, "newton") if part.dependent else "",
        "gains": "" if gains is None else _list(factors),
        "remembers": model.n_state_inputs,
        "past": 3 * len(mechanism.internal_states) + 1 + len(mechanism.channels),
        "lags": 3 * len(mechanism.internal_states),
        "channels": list(mechanism.channels.items()),
    }
    files = Environment(
        loader=PackageLoader("gough", "export"),
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        undefined=StrictUndefined,
    )
    source, header = (
        files.get_template(f"controller.{ending}.jinja").render(fields) for ending in ("c", "h")
    )
    return source, header


def _write(model: Model, result: Identification, name: str) -> dict[str, str]:
    gains = (
        None
        if result.gains is None
        else [result.gains[joint] for joint in model.mechanism.actuated]
    )
    source, header = controller_code(model, result.standard(model), gains=gains, name=name)
    return {"c": source, "h": header}


register_export(
    Export(
        name="c",
        label="inverse dynamics of the estimate as C99, loops included; currents too if drive "
        "gains are known",
        write=_write,
        usual="controller",
        identifier=True,
    )
)


def _list(values: FloatArray | list[float]) -> str:
    return ", ".join("HUGE_VAL" if v == np.inf else repr(float(v)) for v in values)


def _comment(text: str) -> str:
    """Keep text from ending a C comment or spanning lines."""
    return text.replace("*/", "* /").replace("\n", " ").encode("ascii", "replace").decode()
