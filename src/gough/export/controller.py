"""Controller code: one C99 file and its header with the inverse dynamics of a robot, closure included."""

from __future__ import annotations

import re

import numpy as np
from numpy.typing import ArrayLike

from gough.core.arrays import FloatArray, check_shape
from gough.engine import Model
from gough.engine.c_source import controller_functions
from gough.export.formats import Export, register_export
from gough.export.rigid import drive_gains
from gough.identification import Identification

_HEADER = """/* {title}
 * Inverse dynamics with the loops closed: actuated position, velocity, acceleration -> motor effort.
 * Written by Gough for the robot '{robot}'. C99, needs only <math.h>; no allocation, no global state.
 */
#ifndef {guard}
#define {guard}

#ifdef __cplusplus
extern "C" {{
#endif

#define {upper}_MOTORS {motors}
#define {upper}_COORDINATES {coordinates}

enum {{
    {upper}_OK = 0,           /* effort is valid */
    {upper}_NOT_CLOSED = 1,   /* the loops did not close within the iteration cap; state and output are unchanged */
    {upper}_NOT_FINITE = 2    /* an input or the result is not a number; state and output are unchanged */
}};

/* Branch of the loops: all coordinates at the last successful call. Call {name}_reset once before the first. */
typedef struct {{
    double q[{coordinates}];
}} {name}_state;

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
void {name}_reset({name}_state *state)
{{
    static const double home[{coordinates}] = {{{home}}};
    int i;
    for (i = 0; i < {coordinates}; i++)
        state->q[i] = home[i];
}}

{follow}int {name}_inverse_dynamics({name}_state *state, const double *position, const double *velocity,
                            const double *acceleration, double *effort)
{{
    static const int measured[{independents}] = {{{measured}}};
    static const int motor[{independents}] = {{{motor}}};
    double q[{coordinates}], result[{motors}];
    int i;
    for (i = 0; i < {coordinates}; i++)
        q[i] = state->q[i];
    for (i = 0; i < {independents}; i++)
        q[measured[i]] = position[motor[i]];
{close}    efforts(q, velocity, acceleration, result);
    for (i = 0; i < {motors}; i++)
        if (!(fabs(result[i]) <= 1e30))
            return {upper}_NOT_FINITE;
    for (i = 0; i < {coordinates}; i++)
        state->q[i] = q[i];
    for (i = 0; i < {motors}; i++)
        effort[i] = result[i];
    return {upper}_OK;
}}
{current_definition}"""

_FOLLOW = """#define MAX_ITERATIONS {iterations}
#define CLOSED 1e-12

{newton}
static int follow(double *q)
{{
    double step[{coordinates}], residual[{equations}];
    int i, k;
    for (k = 0; k <= MAX_ITERATIONS; k++) {{
        double worst = 0.0;
        newton(q, step, residual);
        for (i = 0; i < {equations}; i++) {{
            if (!(fabs(residual[i]) <= 1e30))
                return {upper}_NOT_FINITE;
            worst = fmax(worst, fabs(residual[i]));
        }}
        if (worst < CLOSED)
            return {upper}_OK;
        for (i = 0; i < {coordinates}; i++)
            q[i] += step[i];
    }}
    return {upper}_NOT_CLOSED;
}}

"""

_CLOSE = """    {{
        const int status = follow(q);
        if (status != {upper}_OK)
            return status;
    }}
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
                    iterations: int = 20) -> tuple[str, str]:
    """Return the C source and header of a robot's inverse dynamics.

    Args:
        model: The robot.
        values: Standard parameters, (p,); a priori by default. Base estimates: see `Identification.standard`.
        load: Ten inertial parameters of a payload.
        dead_band: Of the velocity sign, scalar or (n,). [m/s or rad/s]
        gains: Drive gains, (a,): adds a function that returns currents.
        name: Prefix of the public names and of the files.
        iterations: Cap of Newton's iterations per call; beyond it the call returns a status code.
    """
    mechanism = model.mechanism
    name = re.sub(r"\W", "_", name)
    chi = mechanism.standard.values if values is None else np.asarray(values, dtype=float)
    check_shape(chi, (len(mechanism.standard),), "standard parameters")
    band = np.zeros(len(mechanism.joints)) + (0.0 if dead_band is None else np.asarray(dead_band, dtype=float))
    newton, efforts = controller_functions(model, chi, np.zeros(10) if load is None else np.asarray(load, float), band)
    part = model.loops.partitions["actuated"]
    equations = sum(closure.equations for closure in mechanism.closures)
    fields = {
        "name": name, "upper": name.upper(), "guard": f"{name.upper()}_H", "robot": _comment(mechanism.name),
        "title": _comment(mechanism.title or mechanism.name), "motors": len(model.actuated),
        "coordinates": len(mechanism.joints), "equations": equations,
        "order": "\n".join(f" *   {k}  {_comment(n)}" for k, n in enumerate(mechanism.actuated)),
        "iterations": iterations, "newton": newton, "efforts": efforts, "home": _list(model.home),
        "independents": len(part.independent), "measured": ", ".join(str(i) for i in part.independent),
        "motor": ", ".join(str(model.actuated.index(i)) for i in part.independent),
        "current_declaration": "", "current_definition": "", "follow": "", "close": "",
    }
    if part.dependent:
        fields |= {"follow": _FOLLOW.format(**fields), "close": _CLOSE.format(**fields)}
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


def _list(values: FloatArray) -> str:
    return ", ".join(repr(float(v)) for v in values)


def _comment(text: str) -> str:
    """Keep text from ending a C comment or spanning lines."""
    return text.replace("*/", "* /").replace("\n", " ").encode("ascii", "replace").decode()
