"""Controller code: one C99 file and its header with the inverse dynamics of a robot, closure included."""

from __future__ import annotations

import re

import numpy as np
from numpy.typing import ArrayLike

from gough.core.arrays import FloatArray, check_shape
from gough.core.errors import InvalidInput
from gough.engine import Model
from gough.engine.controller import controller_graphs
from gough.export.formats import Export, register_export
from gough.export.rigid import drive_gains
from gough.identification import Identification
from gough.kernels.c_source import c_function

# A motor that overshoots its velocity limit, or a call that comes late, stays below twice the limit times the period;
# sensor noise adds less than ten of its standard deviations and one step of the encoder.
FASTEST, NOISE = 2.0, 10.0
# Where no limit is known a step of a tenth of a radian, or of the robot's length, is taken for motion, not for a jump.
EASY = 0.1

_HEADER = """/* {title}
 * Inverse dynamics with the loops closed: actuated position, velocity, acceleration -> motor effort.
 * Written by Gough for the robot '{robot}'. C99, needs only <math.h>; no allocation, no global state.
 *
 *     {name}_state state;
 *     {name}_reset(&state);
 *     each period: status = {name}_inverse_dynamics(&state, position, velocity, acceleration, effort);
 *
 * Any status but {upper}_OK leaves the effort and the configuration in the state as they were: use a safe effort
 * of your own for this call, and go on calling. The next good sample continues on the right branch. If the status
 * stays {upper}_JUMP (the robot has moved far between good samples, or was homed anew), call {name}_reset.
 */
#ifndef {guard}
#define {guard}

#ifdef __cplusplus
extern "C" {{
#endif

#define {upper}_MOTORS {motors}
#define {upper}_COORDINATES {coordinates}
#ifndef {upper}_PERIOD
#define {upper}_PERIOD {period} /* between calls [s]: with the velocity limits, how far a motor can have moved */
#endif

enum {{
    {upper}_OK = 0,         /* effort is valid */
    {upper}_NOT_CLOSED = 1, /* the loops did not close within the iteration cap */
    {upper}_NOT_FINITE = 2, /* an input or the result is not a number */
    {upper}_JUMP = 3        /* the motors cannot be there: farther from the last good sample than {jump} */
}};

/* All coordinates at the last good call and at the one before it (good calls may have been a glitch that the robot
 * could have followed), and how many calls have failed since (-1: none was good since the reset). */
typedef struct {{
    double q[{coordinates}];
    double before[{coordinates}];
    int missed;
}} {name}_state;

/* Start, or start again, on the branch of the home pose:
{home_pose}
 * The next call follows that branch to wherever the motors are, in a straight line and in small steps (up to {far}
 * Newton steps, other calls take up to {near} or twice as many), so the robot need not stand at home; no singularity
 * may lie between. */
void {name}_reset({name}_state *state);

/* Motors, in this order:
{order}
 * position [m or rad], velocity [per s], acceleration [per s2], effort [N or N m], each {motors} numbers. */
int {name}_inverse_dynamics({name}_state *state, const double *position, const double *velocity,
                            const double *acceleration, double *effort);
{current_declaration}
#ifdef __cplusplus
}}
#endif

#endif
"""

_SOURCE = """/* {title}: see {name}.h */
#include "{name}.h"

#include <math.h>

{efforts}
static const int measured[{independents}] = {{{measured}}}; /* coordinates that are taken from the motors */
static const int motor[{independents}] = {{{motor}}};
{follow}
void {name}_reset({name}_state *state)
{{
    static const double home[{coordinates}] = {{{home}}};
    int i;
    for (i = 0; i < {coordinates}; i++)
        state->q[i] = state->before[i] = home[i];
    state->missed = -1;
}}

/* Find all coordinates q and the efforts, starting from a good configuration some periods ago. */
static int attempt(const double *from, double periods, const double *position, const double *velocity,
                   const double *acceleration, double *q, double *result)
{{
    static const double fastest[{independents}] = {{{fastest}}}; /* [per s]; HUGE_VAL: no limit known */
    static const double noise[{independents}] = {{{noise}}};
    static const double easy[{independents}] = {{{easy}}}; /* steps up to this may be followed in pieces */
    double target[{independents}], smallest = 1e-2;
    int i;
    for (i = 0; i < {coordinates}; i++)
        q[i] = from[i];
    for (i = 0; i < {independents}; i++) {{
        const double moved = fabs(position[motor[i]] - q[measured[i]]);
        target[i] = position[motor[i]];
        if (moved > fastest[i] * periods * {upper}_PERIOD + noise[i])
            return {upper}_JUMP;
        if (moved > easy[i])
            smallest = 1.0;
    }}
{close}    efforts(q, velocity, acceleration, result);
    for (i = 0; i < {motors}; i++)
        if (!(fabs(result[i]) <= 1e30))
            return {upper}_NOT_FINITE;
    return {upper}_OK;
}}

int {name}_inverse_dynamics({name}_state *state, const double *position, const double *velocity,
                            const double *acceleration, double *effort)
{{
    double q[{coordinates}], result[{motors}];
    const int fresh = state->missed < 0;
    int i, status = {upper}_OK;
    for (i = 0; i < {motors}; i++)
        if (!(fabs(position[i]) <= 1e30 && fabs(velocity[i]) <= 1e30 && fabs(acceleration[i]) <= 1e30))
            status = {upper}_NOT_FINITE;
    if (status == {upper}_OK)
        status = attempt(state->q, fresh ? HUGE_VAL : state->missed + 1.0, position, velocity, acceleration, q, result);
    if (status == {upper}_JUMP && !fresh)
        status = attempt(state->before, state->missed + 2.0, position, velocity, acceleration, q, result);
    if (status != {upper}_OK) {{
        if (!fresh && state->missed < 1000000)
            state->missed++;
        return status;
    }}
    for (i = 0; i < {coordinates}; i++) {{
        state->before[i] = fresh ? q[i] : state->q[i];
        state->q[i] = q[i];
    }}
    state->missed = 0;
    for (i = 0; i < {motors}; i++)
        effort[i] = result[i];
    return {upper}_OK;
}}
{current_definition}"""

_FOLLOW = """
#define CLOSED 1e-12   /* residual, as a fraction of the robot, at which the loops are closed */
#define ROUNDING 1e-10 /* residual below which a step that does not shrink is rounding */
#define LONGEST 0.5    /* [rad, or lengths of the robot]: beyond it a Newton step says nothing about a rotation */
#define SHRINK 0.25    /* Newton steps near a solution shrink faster than this; else it may be another branch's */

{newton}
static int close_loops(double *q, int *budget)
{{
    double step[{coordinates}], size[2], last = LONGEST / SHRINK;
    int i;
    for (; *budget > 0; --*budget) {{
        newton(q, step, size);
        if (!(size[0] <= 1e30 && size[1] <= 1e30))
            return {upper}_JUMP;
        if (size[0] < CLOSED)
            return {upper}_OK;
        if (size[1] > SHRINK * last)
            return size[0] < ROUNDING ? {upper}_OK : {upper}_JUMP;
        for (i = 0; i < {coordinates}; i++)
            q[i] += step[i];
        last = size[1];
    }}
    return {upper}_NOT_CLOSED;
}}

/* Move q along its branch until the measured coordinates are at their targets; pieces are halved down to smallest. */
static int follow(double *q, const double *target, int budget, double smallest)
{{
    double from[{independents}], trial[{coordinates}], done = 0.0, piece = 1.0;
    int i, status;
    for (i = 0; i < {independents}; i++)
        from[i] = q[measured[i]];
    while (done < 1.0) {{
        const double goal = fmin(done + piece, 1.0);
        for (i = 0; i < {coordinates}; i++)
            trial[i] = q[i];
        for (i = 0; i < {independents}; i++)
            trial[measured[i]] = goal < 1.0 ? from[i] + goal * (target[i] - from[i]) : target[i];
        status = close_loops(trial, &budget);
        if (status == {upper}_OK) {{
            for (i = 0; i < {coordinates}; i++)
                q[i] = trial[i];
            done = goal;
            piece *= 2.0;
        }} else if (status == {upper}_JUMP && piece > smallest)
            piece *= 0.5;
        else
            return status;
    }}
    return {upper}_OK;
}}
"""

_CLOSE = """    {{
        const int fresh = periods == HUGE_VAL;
        const int status = follow(q, target, fresh ? {far} : {near}, fresh ? 1e-4 : smallest);
        if (status != {upper}_OK)
            return status;
    }}
"""

_OPEN = """    (void)smallest;
    for (i = 0; i < {independents}; i++)
        q[measured[i]] = target[i];
"""

_CURRENT = """
/* The same in the drives' units: effort over drive gain. */
int {name}_inverse_dynamics_current({name}_state *state, const double *position, const double *velocity,
                                    const double *acceleration, double *current)"""

_CURRENT_BODY = """
{{
    static const double gain[{motors}] = {{{gains}}};
    double effort[{motors}];
    int i, status;
    status = {name}_inverse_dynamics(state, position, velocity, acceleration, effort);
    if (status != {upper}_OK)
        return status;
    for (i = 0; i < {motors}; i++)
        current[i] = effort[i] / gain[i];
    return {upper}_OK;
}}
"""


def controller_code(model: Model, values: ArrayLike | None = None, *, load: ArrayLike | None = None,
                    dead_band: ArrayLike | None = None, gains: ArrayLike | None = None, name: str = "controller",
                    iterations: int = 20, period: float | None = None) -> tuple[str, str]:
    """Return the C source and header of a robot's inverse dynamics.

    A sample is refused, with a status and without a trace, where it cannot be: farther from the last good one than the
    velocity limits allow in the periods since, or so far that Newton's steps do not shrink as they do near the branch
    (|step k+1| <= |step k| / 4 is well inside Kantorovich's condition, under which the nearest solution is the only
    one). A step the velocity limits allow (without limits: a small one) is followed in pieces where it is too long for
    that, as near a singularity.

    Args:
        model: The robot.
        values: Standard parameters, (p,); a priori by default. Base estimates: see `Identification.standard`.
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
        raise InvalidInput(f"the period between calls is {period:g} s, expected a positive number", period=period)
    chi = mechanism.standard.values if values is None else np.asarray(values, dtype=float)
    check_shape(chi, (len(mechanism.standard),), "standard parameters")
    band = np.zeros(len(mechanism.joints)) + (0.0 if dead_band is None else np.asarray(dead_band, dtype=float))
    newton, efforts = controller_graphs(model, chi, np.zeros(10) if load is None else np.asarray(load, float), band)
    part = model.loops.partitions["actuated"]
    joints = [mechanism.joints[i] for i in part.independent]
    speeds = [FASTEST * joint.limits.velocity if joint.limits.velocity else np.inf for joint in joints]
    limited = bool(np.isfinite(speeds).all())
    easy = [np.inf if limited else EASY * (1.0 if j.kind == "revolute" else model.loops.length) for j in joints]
    slack = NOISE * mechanism.noise.position + (mechanism.noise.resolution or 0.0)
    fields = {
        "name": name, "upper": name.upper(), "guard": f"{name.upper()}_H", "robot": _comment(mechanism.name),
        "title": _comment(mechanism.title or mechanism.name), "motors": len(model.actuated),
        "coordinates": len(mechanism.joints), "period": repr(period),
        "order": "\n".join(f" *   {k}  {_comment(n)}" for k, n in enumerate(mechanism.actuated)),
        "home_pose": "\n".join(f" *   {_comment(n)} = {model.home[i]:.6g} {mechanism.joints[i].unit}"
                               for n, i in zip(mechanism.actuated, model.actuated)),
        "near": iterations, "far": 50 * iterations, "efforts": c_function(efforts, "efforts"),
        "home": _list(model.home), "independents": len(part.independent),
        "measured": ", ".join(str(i) for i in part.independent),
        "motor": ", ".join(str(model.actuated.index(i)) for i in part.independent),
        "fastest": _list(speeds), "noise": _list([slack] * len(joints)),
        "easy": _list(easy),
        "jump": "their velocity limits allow" if limited else "the branch can be followed",
        "current_declaration": "", "current_definition": "", "follow": "",
    }
    if part.dependent:
        fields["newton"] = c_function(newton, "newton")
        fields |= {"follow": _FOLLOW.format(**fields), "close": _CLOSE.format(**fields)}
    else:
        fields["close"] = _OPEN.format(**fields)
    if gains is not None:
        factors = np.asarray(gains, dtype=float)
        check_shape(factors, (len(model.actuated),), "drive gains")
        declaration = _CURRENT.format(**fields)
        fields["current_declaration"] = declaration + ";\n"
        body = _CURRENT_BODY.format(**fields, gains=_list(factors))
        fields["current_definition"] = declaration[declaration.index("int "):] + body
    return _SOURCE.format(**fields), _HEADER.format(**fields)


def _write(model: Model, result: Identification, name: str) -> dict[str, str]:
    gains = drive_gains(result)
    factors = np.array([gains[joint] for joint in model.mechanism.actuated]) if gains else None
    source, header = controller_code(model, result.standard(model), gains=factors, name=name)
    return {"c": source, "h": header}


register_export(Export(
    name="c", label="inverse dynamics of the estimate as C99, loops included; currents too if drive gains are known",
    write=_write, usual="controller", identifier=True))


def _list(values: FloatArray | list[float]) -> str:
    return ", ".join("HUGE_VAL" if v == np.inf else repr(float(v)) for v in values)


def _comment(text: str) -> str:
    """Keep text from ending a C comment or spanning lines."""
    return text.replace("*/", "* /").replace("\n", " ").encode("ascii", "replace").decode()
