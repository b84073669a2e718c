"""What robot formats need: bodies that can exist, terms they have words for."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from gough.core.arrays import FloatArray, check_finite, check_shape
from gough.core.errors import InvalidInput, nearest
from gough.core.names import INERTIAL, payload_of
from gough.engine import Model
from gough.estimators.physical.pseudo_inertia import pseudo_inertia
from gough.identification import Identification
from gough.mechanism.terms import JointState, JointTerm

_STILL = JointState(q=0.0, qd=0.0, qdd=0.0, sign=0.0, math=np)
_CONSISTENT = 1e-9  # round-off allowed in the eigenvalues of a scaled pseudo-inertia


def check_bodies(model: Model, bodies: Mapping[str, ArrayLike]) -> dict[str, FloatArray]:
    """Return the ten inertial parameters of every body of the robot that has any, after checking them.

    Bodies that have no parameters in the robot file are massless and may be missing; a payload (`payload.<name>`) is no
    part of the robot and is left out.

    Raises:
        InvalidInput: Parameters that no body can have, of no body, or missing.
    """
    known = [body.name for body in model.mechanism.bodies]
    found = {}
    for name, values in bodies.items():
        if payload_of(name) is not None:
            continue
        if name not in known:
            raise InvalidInput(f"'{model.mechanism.name}' has no body '{name}'{nearest(name, known)}", body=name)
        parameters = np.asarray(values, dtype=float)
        check_shape(parameters, (len(INERTIAL),), f"inertial parameters of '{name}'")
        check_finite(parameters, f"inertial parameters of '{name}'")
        if parameters.any():
            if not _possible(parameters):
                raise InvalidInput(f"no body can have the inertial parameters of '{name}' "
                                   f"({', '.join(f'{p} {v:.4g}' for p, v in zip(INERTIAL, parameters))}): its "
                                   "pseudo-inertia is not positive; export a physically consistent estimate", body=name)
            found[name] = parameters
    for body in model.mechanism.bodies:
        if body.parameters and body.name not in bodies:
            raise InvalidInput(f"the inertial parameters of body '{body.name}' are missing", body=body.name)
    return found


def _possible(parameters: FloatArray) -> bool:
    """Tell whether some distribution of mass has these parameters, up to round-off."""
    J = pseudo_inertia(parameters)
    if not parameters[0] > 0 or not np.trace(J[:3, :3]) >= 0:
        return False
    length = np.sqrt(np.trace(J[:3, :3]) / parameters[0]) or 1.0
    scale = np.sqrt(parameters[0]) * np.array([length, length, length, 1.0])
    return bool(np.linalg.eigvalsh(J / np.outer(scale, scale))[0] > -_CONSISTENT)


def check_terms(model: Model, terms: Mapping[str, float] | None, format: str = "",
                known: Callable[[JointTerm], bool] = lambda term: True) -> dict[str, float]:
    """Return the coefficient of every joint term: given ones, else the robot file's.

    Args:
        terms: Coefficients by name.
        format: Where they are written, for the message.
        known: Tells whether a term can be written there.

    Raises:
        InvalidInput: A name that is no joint term of the robot, or a term that the format has no word for.
    """
    standard = model.mechanism.standard
    own: dict[str, float] = {name: standard[name] for name in standard.names if not name.inertial}
    for name in terms or {}:
        if name not in own:
            raise InvalidInput(f"'{model.mechanism.name}' has no joint term '{name}'{nearest(name, own)}", name=name)
    found = own | {name: float(value) for name, value in (terms or {}).items()}
    for joint in model.mechanism.joints:
        for term in (model.mechanism.terms[name] for name in joint.terms):
            if found[f"{joint.name}.{term.name}"] and not known(term):
                raise InvalidInput(f"{format} has no word for the term '{term.name}' ({term.label}) of joint "
                                   f"'{joint.name}'; export it as C code, approximately, or identify without it",
                                   joint=joint.name, term=term.name)
    return found


def approximate_terms(model: Model, terms: Mapping[str, float],
                      known: Callable[[JointTerm], bool]) -> tuple[dict[str, float], list[str]]:
    """Return terms with words only, nearest to all of them over the joints' range of motion, and what is lost.

    The efforts of what has no word are fitted by the joint's terms that have one, least squares over positions and
    speeds within the limits (1 m or rad, and per s, where there are none), up to half the effort; lags have settled.
    """
    found, lost, rng = dict(terms), [], np.random.default_rng(0)
    for joint in model.mechanism.joints:
        own = [model.mechanism.terms[name] for name in joint.terms if f"{joint.name}.{name}" in terms]
        missing = [t for t in own if not known(t) and terms[f"{joint.name}.{t.name}"]]
        words = [t for t in own if known(t) and not t.mentions("qdd")]
        if not missing:
            continue
        low, high = joint.limits.position or (-1.0, 1.0)
        top = joint.limits.velocity or 1.0
        q, qd = rng.uniform(low, high, 2000), rng.uniform(-top, top, 2000)
        passed = rng.uniform(-0.5, 0.5, 2000) * (joint.limits.effort or 1.0)
        state = replace(_STILL, q=q, qd=qd, sign=np.sign(qd), effort=passed, other=lambda name: _STILL)
        effort = sum(terms[f"{joint.name}.{t.name}"] * t.value(state) for t in missing) + np.zeros_like(q)
        X = np.array([t.value(state) + np.zeros_like(q) for t in words]).T.reshape(len(q), -1)
        change = np.linalg.lstsq(X, effort, rcond=None)[0]
        found |= {f"{joint.name}.{t.name}": terms[f"{joint.name}.{t.name}"] + float(c) for t, c in zip(words, change)}
        found |= {f"{joint.name}.{t.name}": 0.0 for t in missing}
        rms = [np.sqrt(np.mean(x**2)) for x in (effort - X @ change, effort)]
        become = ", ".join(t.name for t in words) or "nothing"
        lost.append(f"{joint.name}: {', '.join(t.name for t in missing)} of {rms[1]:.3g} {joint.effort_unit} rms "
                    f"became {become}; {rms[0]:.3g} {joint.effort_unit} rms are lost")
    return found, lost


def physical_result(result: Identification, format: str) -> tuple[Mapping[str, ArrayLike], Mapping[str, float]]:
    """Return bodies and joint terms of the physically consistent estimate."""
    if not result.bodies:
        failed = next((note for note in result.notes if note.startswith("feasible ")), None)
        raise InvalidInput(
            f"{format} needs bodies that can exist, and this result ({result.estimator}) has base parameters only; "
            f"{failed or 'identify with the estimator feasible or all'}", estimator=result.estimator)
    return result.bodies, result.joint_terms



def standard_values(model: Model, bodies: Mapping[str, FloatArray], terms: Mapping[str, float]) -> FloatArray:
    """Return bodies and joint terms as standard parameters, (p,)."""
    return np.array([bodies[name.owner][INERTIAL.index(name.kind)] if name.inertial and name.owner in bodies
                     else terms.get(name, 0.0) for name in model.mechanism.standard.names])


def comment(text: str) -> str:
    """Keep text from ending an XML comment or spanning lines."""
    return re.sub(r"-(?=-|$)|[^\x20-\x7e]", "?", text)
