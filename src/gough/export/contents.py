"""Bodies and joint terms as robot formats need them: physically consistent, expressible."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from gough.core.arrays import FloatArray, check_finite, check_shape
from gough.core.errors import InvalidInput, nearest
from gough.core.names import INERTIAL, Parameter, payload_of
from gough.engine import Model
from gough.fitting.physical_consistency import DATA_FRACTION, PRIOR_FRACTION
from gough.fitting.pseudo_inertia import pseudo_inertia
from gough.identification import Identification
from gough.mechanism.terms import JointState, JointTerm
from gough.mechanism.types import Joint

# round-off allowed in the smallest eigenvalue of a scaled
# pseudo-inertia
PSEUDO_INERTIA_TOLERANCE = 1e-9
# random states of a joint at which terms that a format cannot express
# are fitted
APPROXIMATION_STATES = 2000


def physical_result(
    result: Identification, format: str
) -> tuple[Mapping[str, ArrayLike], Mapping[str, float]]:
    """Return bodies and joint terms of the physically consistent estimate."""
    if not result.bodies:
        advice = "identify with the estimator feasible or all"
        for notice in result.notices:
            if notice.rule == "estimator" and "feasible" in notice.where:
                advice = str(notice)
                break
        raise InvalidInput(
            f"{format} needs physically consistent bodies, and this result ({result.estimator}) "
            f"has base parameters only; {advice}",
            estimator=result.estimator,
        )
    return result.bodies, result.joint_terms


def origin_of_values(result: Identification) -> list[str]:
    """Return a line for each body and joint: which of its values are data, which the file's."""
    kinds_by_owner: dict[str, dict[str, list[str]]] = {}
    for name, fraction in result.determined.items():
        parameter = Parameter(name)
        origin = "both"
        if fraction > DATA_FRACTION:
            origin = "data"
        elif fraction < PRIOR_FRACTION:
            origin = "robot file"
        by_origin = kinds_by_owner.setdefault(parameter.owner, {})
        by_origin.setdefault(origin, []).append(parameter.kind)
    lines = []
    for owner, kinds in kinds_by_owner.items():
        origins = []
        for origin in ("data", "both", "robot file"):
            if origin in kinds:
                origins.append(f"{' '.join(kinds[origin])} from {origin}")
        lines.append(f"{owner}: {'; '.join(origins)}")
    return lines


def check_bodies(model: Model, bodies: Mapping[str, ArrayLike]) -> dict[str, FloatArray]:
    """Check the ten inertial parameters of every body and return those of bodies with mass.

    Bodies without parameters in the robot file are massless and may be
    missing; a payload (`payload.<name>`) is not part of the robot and
    is left out.
    """
    known = [body.name for body in model.mechanism.bodies]
    for body in model.mechanism.bodies:
        if body.parameters and body.name not in bodies:
            raise InvalidInput(
                f"the inertial parameters of body '{body.name}' are missing",
                body=body.name,
            )
    with_mass = {}
    for name, numbers in bodies.items():
        if payload_of(name) is not None:
            continue
        if name not in known:
            raise InvalidInput(
                f"'{model.mechanism.name}' has no body '{name}'{nearest(name, known)}",
                body=name,
            )
        parameters = np.asarray(numbers, dtype=float)
        check_shape(parameters, (len(INERTIAL),), f"inertial parameters of '{name}'")
        check_finite(parameters, f"inertial parameters of '{name}'")
        if not parameters.any():
            continue
        if not _physically_consistent(parameters):
            listed = ", ".join(f"{key} {x:.4g}" for key, x in zip(INERTIAL, parameters))
            raise InvalidInput(
                f"no body can have the inertial parameters of '{name}' ({listed}): its "
                "pseudo-inertia is not positive; export a physically consistent estimate",
                body=name,
            )
        with_mass[name] = parameters
    return with_mass


def _physically_consistent(parameters: FloatArray) -> bool:
    """Check whether some distribution of mass has these parameters, up to round-off."""
    pseudo = pseudo_inertia(parameters)
    mass = parameters[0]
    second_moment = np.trace(pseudo[:3, :3])
    if not mass > 0 or not second_moment >= 0:
        return False
    length = np.sqrt(second_moment / mass) or 1.0
    scale = np.sqrt(mass) * np.array([length, length, length, 1.0])
    eigenvalues = np.linalg.eigvalsh(pseudo / np.outer(scale, scale))
    return bool(eigenvalues[0] > -PSEUDO_INERTIA_TOLERANCE)


def check_terms(
    model: Model,
    terms: Mapping[str, float] | None,
    format: str = "",
    supports: Callable[[JointTerm], bool] = lambda term: True,
) -> dict[str, float]:
    """Return the coefficient of every joint term: given ones, else the robot file's.

    Raises:
        InvalidInput: A name is no joint term of the robot, or the
            format cannot express a term.
    """
    mechanism = model.mechanism
    coefficients: dict[str, float] = {}
    for parameter in mechanism.standard.names:
        if not parameter.inertial:
            coefficients[parameter] = mechanism.standard[parameter]
    for name, coefficient in (terms or {}).items():
        if name not in coefficients:
            raise InvalidInput(
                f"'{mechanism.name}' has no joint term '{name}'{nearest(name, coefficients)}",
                name=name,
            )
        coefficients[name] = float(coefficient)
    for joint in mechanism.joints:
        for kind in joint.terms:
            term = mechanism.terms[kind]
            if coefficients[f"{joint.name}.{kind}"] and not supports(term):
                raise InvalidInput(
                    f"{format} cannot express the term '{kind}' ({term.label}) of joint "
                    f"'{joint.name}'; export it as C code, approximately, or identify without it",
                    joint=joint.name,
                    term=kind,
                )
    return coefficients


def terms_by_keyword(
    model: Model,
    joint: Joint,
    coefficients: Mapping[str, float],
    format: Literal["mjcf", "urdf", "sidecar"],
) -> dict[str, float]:
    """Return the coefficients of a joint's terms by their keyword in a format."""
    by_keyword: dict[str, float] = {}
    for kind in joint.terms:
        keyword = getattr(model.mechanism.terms[kind], format)
        if keyword is not None:
            coefficient = coefficients[f"{joint.name}.{kind}"]
            by_keyword[keyword] = by_keyword.get(keyword, 0.0) + coefficient
    return by_keyword


def approximate_terms(
    model: Model,
    terms: Mapping[str, float],
    supports: Callable[[JointTerm], bool],
) -> tuple[dict[str, float], list[str]]:
    """Replace joint terms that a format cannot express by those it can.

    The efforts of the former are fitted by the joint's other terms,
    least squares over positions and speeds within the limits (1 m or
    rad, and per s, where there are none), up to half the effort; lags
    have settled.

    Returns:
        Coefficients of the terms, and the error of each joint in words.
    """
    approximated = dict(terms)
    errors = []
    rng = np.random.default_rng(0)
    for joint in model.mechanism.joints:
        replaced: dict[str, JointTerm] = {}
        usable: dict[str, JointTerm] = {}
        for kind in joint.terms:
            name = f"{joint.name}.{kind}"
            term = model.mechanism.terms[kind]
            if not supports(term):
                if terms.get(name):
                    replaced[name] = term
            elif name in terms and not term.uses("qdd"):
                usable[name] = term
        if not replaced:
            continue
        state = _random_states(joint, rng)
        effort = np.zeros(APPROXIMATION_STATES)
        for name, term in replaced.items():
            effort = effort + terms[name] * term.value(state)
            approximated[name] = 0.0
        columns = np.zeros((APPROXIMATION_STATES, len(usable)))
        for k, term in enumerate(usable.values()):
            columns[:, k] = term.value(state)
        change = np.linalg.lstsq(columns, effort, rcond=None)[0]
        for name, addition in zip(usable, change):
            approximated[name] = terms[name] + float(addition)
        residual = effort - columns @ change
        unit = joint.effort_unit
        errors.append(
            f"{joint.name}: {', '.join(term.name for term in replaced.values())} of "
            f"{np.sqrt(np.mean(effort**2)):.3g} {unit} rms became "
            f"{', '.join(term.name for term in usable.values()) or 'nothing'}; "
            f"{np.sqrt(np.mean(residual**2)):.3g} {unit} rms are lost"
        )
    return approximated, errors


def _random_states(joint: Joint, rng: np.random.Generator) -> JointState:
    """Draw positions, speeds and efforts of a joint within its limits; others are at rest."""
    at_rest = JointState(q=0.0, qd=0.0, qdd=0.0, sign=0.0, math=np)
    low, high = joint.limits.position or (-1.0, 1.0)
    top_speed = joint.limits.velocity or 1.0
    q = rng.uniform(low, high, APPROXIMATION_STATES)
    qd = rng.uniform(-top_speed, top_speed, APPROXIMATION_STATES)
    effort = rng.uniform(-0.5, 0.5, APPROXIMATION_STATES) * (joint.limits.effort or 1.0)
    return replace(
        at_rest,
        q=q,
        qd=qd,
        sign=np.sign(qd),
        effort=effort,
        other=lambda name: at_rest,
    )


def standard_values(
    model: Model, bodies: Mapping[str, FloatArray], terms: Mapping[str, float]
) -> FloatArray:
    """Return bodies and joint terms as standard parameters, (p,)."""
    values = []
    for name in model.mechanism.standard.names:
        if name.inertial and name.owner in bodies:
            values.append(bodies[name.owner][INERTIAL.index(name.kind)])
        else:
            values.append(terms.get(name, 0.0))
    return np.array(values)
