"""Controller code: the inverse dynamics of a robot with its loops, as one C99 file and header."""

from __future__ import annotations

import re
import struct
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined
from numpy.typing import ArrayLike

from gough.core.arrays import FloatArray, check_shape
from gough.core.errors import InvalidInput
from gough.engine import Model, Robot, as_model
from gough.engine.stepping import controller_graphs
from gough.export.registry import Export, identifier, register_export
from gough.identification import Identification
from gough.kernels.c_source import c_function, c_number

# A motor that overshoots its velocity limit, or a call that comes late,
# stays below this many times the limit times the period;
OVERSHOOT_FACTOR = 2.0
# sensor noise adds less than so many of its standard deviations and one
# step of the encoder.
NOISE_DEVIATIONS = 10.0
# Without velocity limits, a step up to this is taken for motion, not
# for a jump. [rad, or lengths of the robot]
MAX_PLAIN_STEP = 0.1
# Newton evaluations from one configuration; a call starts from two at
# most. The first call after a reset has more, because it may go far.
TRACKING_EVALUATIONS = 30
RESET_EVALUATION_FACTOR = 50
# Inputs and efforts beyond this are refused, as NaN and infinity are.
LARGEST_CONTROLLER_NUMBER = 1e30
# in tables of limits, which have no infinity: -ffast-math forbids it
NO_LIMIT = -1.0


class _Precision(NamedTuple):
    """How numbers are written in C."""

    real: str  # type of the numbers
    suffix: str  # of constants and functions
    bits: str  # unsigned type of the same length
    number_code: str  # of a number in `struct`
    bits_code: str  # of the unsigned type in `struct`
    # residual at which loops are closed, as a fraction of the robot
    closed: float
    # residual below which a step that does not shrink is rounding
    rounding: float

    def fields(self) -> dict[str, Any]:
        """Return what the templates need."""
        number = struct.pack(self.number_code, LARGEST_CONTROLLER_NUMBER)
        limit = struct.unpack(self.bits_code, number)[0]
        mask = 2 ** (8 * len(number) - 1) - 1
        return {
            "real": self.real,
            "f": self.suffix,
            "bits": self.bits,
            "magnitude_mask": f"({self.bits})0x{mask:x}u",
            "magnitude_limit": f"({self.bits})0x{limit:x}u",
            "closed": f"{self.closed:g}{self.suffix}",
            "rounding": f"{self.rounding:g}{self.suffix}",
        }


DOUBLE_PRECISION = _Precision("double", "", "uint64_t", "d", "Q", 1e-12, 1e-10)
# Above the rounding of single precision, 6e-8; efforts are then within
# 1e-4 of the largest one.
SINGLE_PRECISION = _Precision("float", "f", "uint32_t", "f", "I", 2e-6, 2e-5)


def controller_code(
    model: Robot,
    values: ArrayLike | None = None,
    *,
    load: ArrayLike | None = None,
    dead_band: ArrayLike | None = None,
    gains: ArrayLike | None = None,
    name: str = "controller",
    period: float | None = None,
    single: bool = False,
) -> tuple[str, str]:
    """Return the C source and header of a robot's inverse dynamics.

    An impossible sample is refused: the call returns a status and does
    not change the state. A sample is impossible if it is farther from
    the last good one than the velocity limits allow in the periods
    since, or so far that Newton's steps do not shrink as they do near
    the branch (|step k+1| <= |step k| / 4 is well inside Kantorovich's
    condition, under which the nearest solution is the only one). A step
    that the velocity limits allow (without limits: a small one) is
    divided where it is too long for that, as near a singularity.

    Args:
        model: The robot, also by name or path.
        values: Standard parameters, (p,); a priori by default. Base
            estimates: see `Identification.standard`.
        load: Ten inertial parameters of a payload.
        dead_band: Dead band of the sign of velocity, scalar or (n,);
            the robot file's widths of friction by default. [m/s or
            rad/s]
        gains: Drive gains, (a,): adds a function that returns currents.
        name: Prefix of the public names and of the files.
        period: Time between calls; that of the robot file's controller
            by default. [s]
        single: Compute with float, not with double: for processors
            without double, with efforts to about four digits.
    """
    model = as_model(model)
    mechanism = model.mechanism
    name = identifier(name)
    period = 1.0 / mechanism.noise.rate if period is None else float(period)
    if not 0.0 < period < np.inf:
        raise InvalidInput(
            f"the period between calls is {period:g} s, expected a positive number",
            period=period,
        )
    precision = SINGLE_PRECISION if single else DOUBLE_PRECISION
    fields = {
        "name": name,
        "upper": name.upper(),
        "guard": f"{name.upper()}_H",
        "period": repr(period),
        "evaluations": TRACKING_EVALUATIONS,
        "evaluations_after_reset": RESET_EVALUATION_FACTOR * TRACKING_EVALUATIONS,
        "gains": _gain_list(model, gains, single),
        **precision.fields(),
        **_robot_fields(model, single),
        **_function_fields(model, values, load, dead_band, single),
        **_jump_fields(model, single),
        **_state_fields(model, single),
    }
    files = Environment(
        loader=PackageLoader("gough", "export"),
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        undefined=StrictUndefined,
    )
    source = files.get_template("controller.c.jinja").render(fields)
    header = files.get_template("controller.h.jinja").render(fields)
    return source, header


def _gain_list(model: Model, gains: ArrayLike | None, single: bool) -> str:
    """Return the drive gains as C numbers; empty if there are none."""
    if gains is None:
        return ""
    factors = np.asarray(gains, dtype=float)
    check_shape(factors, (len(model.actuated),), "drive gains")
    if not np.isfinite(factors).all() or (factors == 0.0).any():
        raise InvalidInput(
            f"the drive gains are {factors.tolist()}, expected finite numbers other than zero",
            gains=factors.tolist(),
        )
    return _c_numbers(factors, single)


def _robot_fields(model: Model, single: bool) -> dict[str, Any]:
    """Return names, counts and home pose of the robot."""
    mechanism = model.mechanism
    order = []
    home_pose = []
    for k, (joint, i) in enumerate(zip(mechanism.actuated, model.actuated)):
        label = _c_comment(joint)
        order.append(f" *   {k}  {label}")
        home_pose.append(f" *   {label} = {model.home[i]:.6g} {mechanism.joints[i].unit}")
    return {
        "robot": _c_comment(mechanism.name),
        "title": _c_comment(mechanism.title or mechanism.name),
        "motors": len(model.actuated),
        "coordinates": len(mechanism.joints),
        "order": "\n".join(order),
        "home_pose": "\n".join(home_pose),
        "home": _c_numbers(model.home, single),
    }


def _function_fields(
    model: Model,
    values: ArrayLike | None,
    load: ArrayLike | None,
    dead_band: ArrayLike | None,
    single: bool,
) -> dict[str, Any]:
    """Return the C functions of a Newton step and of the efforts."""
    mechanism = model.mechanism
    standard = mechanism.standard.values
    if values is not None:
        standard = np.asarray(values, dtype=float)
    check_shape(standard, (len(mechanism.standard),), "standard parameters")
    payload = model.load() if load is None else np.asarray(load, float)
    band = np.array(mechanism.friction_widths)
    if dead_band is not None:
        band = np.zeros(len(mechanism.joints)) + np.asarray(dead_band, dtype=float)
    newton, efforts = controller_graphs(model, standard, payload, band)
    has_loops = bool(model.loops.partitions["actuated"].dependent)
    return {
        "efforts": c_function(efforts, "efforts", single=single),
        "newton": c_function(newton, "newton", single=single) if has_loops else "",
    }


def _jump_fields(model: Model, single: bool) -> dict[str, Any]:
    """Return the measured coordinates and how far each may move between calls."""
    mechanism = model.mechanism
    measured = model.loops.partitions["actuated"].independent
    top_speeds = []
    plain_steps = []
    for i in measured:
        joint = mechanism.joints[i]
        top_speed = NO_LIMIT
        if joint.limits.velocity:
            top_speed = OVERSHOOT_FACTOR * joint.limits.velocity
        top_speeds.append(top_speed)
        unit = 1.0 if joint.kind == "revolute" else model.loops.length
        plain_steps.append(MAX_PLAIN_STEP * unit)
    farther_than = "the branch can be followed"
    if NO_LIMIT not in top_speeds:
        farther_than = "their velocity limits allow"
        plain_steps = [NO_LIMIT] * len(measured)
    noise = NOISE_DEVIATIONS * mechanism.noise.position + (mechanism.noise.resolution or 0.0)
    return {
        "independents": len(measured),
        "measured": ", ".join(str(i) for i in measured),
        "motor": ", ".join(str(model.actuated.index(i)) for i in measured),
        "fastest": _c_numbers(top_speeds, single),
        "noise": _c_numbers([noise] * len(measured), single),
        "easy": _c_numbers(plain_steps, single),
        "jump": farther_than,
    }


def _state_fields(model: Model, single: bool) -> dict[str, Any]:
    """Return the size of the internal states of friction models, and the channels."""
    mechanism = model.mechanism
    n_lags = 3 * len(mechanism.internal_states)
    channels = []
    for channel, usual in mechanism.channels.items():
        channels.append((channel, c_number(usual, single=single)))
    return {
        "has_states": model.n_state_inputs,
        "n_lags": n_lags,
        "n_past": n_lags + 1 + len(mechanism.channels),
        "channels": channels,
    }


def _write(
    model: Model, result: Identification, name: str, *, single: bool = False
) -> dict[str, str]:
    gains = None
    if result.gains is not None:
        gains = [result.gains[joint] for joint in model.mechanism.actuated]
    bands = result.processing.bands(model.mechanism.coordinates)
    source, header = controller_code(
        model,
        result.standard(model),
        gains=gains,
        name=name,
        single=single,
        dead_band=np.maximum(bands, model.mechanism.friction_widths),
    )
    return {"c": source, "h": header}


register_export(
    Export(
        name="c",
        label="inverse dynamics of the estimate as C99, loops included; currents too if drive "
        "gains are known",
        write=_write,
        default_name="controller",
        identifier=True,
    )
)


register_export(
    Export(
        name="c_float",
        label="the same as c, computed with float for processors without double",
        write=partial(_write, single=True),
        default_name="controller",
        identifier=True,
    )
)


def _c_numbers(numbers: FloatArray | list[float], single: bool) -> str:
    """Return numbers as a list in C."""
    return ", ".join(c_number(float(number), single=single) for number in numbers)


def _c_comment(text: str) -> str:
    """Keep text from ending or opening a C comment, from spanning lines and from trigraphs."""
    ascii_text = text.encode("ascii", "replace").decode()
    one_line = re.sub(r"[^\x20-\x7e]", " ", ascii_text)
    return re.sub(r"(?<=/)(?=\*)|(?<=\*)(?=/)|(?<=\?)(?=\?)", " ", one_line)
