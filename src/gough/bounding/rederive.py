"""Derive the equations of a stored box again, from the robot and the logs that it names.

`verify` proves a box from the equations in its file. This module says
whether these are the equations of the robot and the logs, with the
settings in the file. It uses the engine, which the proof does not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from gough.bounding.bounds import BoundsSettings, bounded_parameters, bounded_problem
from gough.bounding.problem import BoundedProblem
from gough.bounding.source import source_of
from gough.bounding.verify import Rejected
from gough.core.arrays import FloatArray
from gough.core.options import merge_settings
from gough.engine import Model, Robot, as_model
from gough.logs.readers import Log, as_recordings

# Largest difference of an equation between two computers, over its
# largest number.
EQUATION_TOLERANCE = 1e-9


def rederive(content: Mapping[str, Any], robot: Robot, logs: Log | Sequence[Log]) -> str:
    """Check that a stored box has the equations, names, units and prior of a robot and logs.

    Args:
        content: The file of the box; `verify` has accepted it.
        robot: The robot, also by name or path.
        logs: The logs, in the order in which the box was computed from
            them.

    Returns:
        What was derived again, in words.

    Raises:
        Rejected: Robot, logs or equations are not those of the file.
    """
    certificate = content["certificate"]
    if "source" not in certificate:
        raise Rejected("the file names no robot and no logs to derive its equations from")
    source = certificate["source"]
    model = as_model(robot)
    if source["constants"]:
        model = Model(model.mechanism.with_constants(source["constants"]))
    recordings = as_recordings(logs)
    gains = source["gains"] or None
    _check_source(source, source_of(model, recordings, gains))
    settings = _stored_settings(content["settings"])
    base = bounded_parameters(model, recordings, settings)
    problem = bounded_problem(model, recordings, base, settings, gains=gains)
    _check_problem(content, problem)
    difference = _largest_difference(certificate["proof"], problem)
    if not difference <= EQUATION_TOLERANCE:  # also if it is not a number
        raise Rejected(
            f"the equations are not those of the robot and the logs: they differ by "
            f"{difference:.2g} of their largest number"
        )
    return (
        f"derived again from robot and logs: names, units, prior, error bounds, and the "
        f"{len(certificate['proof']['effort'])} cited of {certificate['equations']} equations "
        f"(largest relative difference {difference:.2g})"
    )


def _check_source(stated: Mapping[str, Any], derived: Mapping[str, Any]) -> None:
    """Require that robot, logs and drive gains are those that the box was computed from."""
    robot = ("robot", "robot_sha256", "redundant", "constants")
    if any(stated[key] != derived[key] for key in robot):
        raise Rejected(
            f"the box is of robot '{stated['robot']}' with another digest than this "
            f"'{derived['robot']}'; give the robot file it was computed with"
        )
    if [digest for _, digest in stated["logs"]] != [digest for _, digest in derived["logs"]]:
        names = ", ".join(name for name, _ in stated["logs"])
        raise Rejected(f"the logs are not those of the box: give {names}, in this order")
    if stated["gains"] != derived["gains"]:
        raise Rejected("the drive gains are not those of the motors whose currents the logs hold")


def _stored_settings(stored: Mapping[str, Any]) -> BoundsSettings:
    """Return settings from their stored form, in which infinite bounds are texts."""
    options = dict(stored)
    prior = options["prior"]
    if isinstance(prior, dict):
        options["prior"] = {name: _limits(limits) for name, limits in prior.items()}
    elif prior is not None:
        options["prior"] = _limits(prior)
    return merge_settings(BoundsSettings, None, options)


def _limits(stored: Sequence[Any]) -> tuple[float, float]:
    return float(stored[0]), float(stored[1])


def _check_problem(content: Mapping[str, Any], problem: BoundedProblem) -> None:
    """Require that names, units, prior and numbers of equations are those of the problem."""
    certificate = content["certificate"]
    proof = certificate["proof"]
    n_removed = len(certificate.get("removed", ()))
    _require_equal("names of parameters", content["parameters"], problem.parameters)
    _require_equal("units", content["units"], problem.units)
    _require_close("prior", _floats(proof["prior_lower"]), problem.prior_lower)
    _require_close("prior", _floats(proof["prior_upper"]), problem.prior_upper)
    n_used = len(problem.equations.effort)
    _require_equal("number of equations", [certificate["equations"] + n_removed], [n_used])
    error_bounds = np.array([problem.error_bound.min(), problem.error_bound.max()])
    _require_close("error bounds", _floats(certificate["error_bound"]), error_bounds)


def _require_equal(what: str, stated: Sequence[Any], derived: Sequence[Any]) -> None:
    if list(stated) != list(derived):
        raise Rejected(f"the {what} are not those that robot, logs and settings give")


def _require_close(what: str, stated: FloatArray, derived: FloatArray) -> None:
    if not np.allclose(stated, derived, rtol=EQUATION_TOLERANCE, atol=0.0):
        raise Rejected(f"the {what} is not that which robot, logs and settings give")


def _floats(stored: Sequence[Any]) -> FloatArray:
    return np.array([float(number) for number in stored])


def _largest_difference(proof: Mapping[str, Any], problem: BoundedProblem) -> float:
    """Return the largest difference of the cited equations, over the largest number of each."""
    if not proof["sample"]:
        return 0.0  # the data do not narrow the prior
    sample = np.array(proof["sample"])
    row = np.array(proof["row"])
    samples, rows = problem.effort.shape
    known = (sample >= 0) & (sample < samples) & (row >= 0) & (row < rows)
    if not known.all() or not np.asarray(problem.used)[sample, row].all():
        raise Rejected("a cited equation is none of those that robot, logs and settings give")
    stated_lower = np.array(proof["lower"], dtype=float)
    stated_upper = np.array(proof["upper"] or proof["lower"], dtype=float)
    derived_lower = problem.regressor_lower[sample, row]
    derived_upper = problem.regressor_upper[sample, row]
    scale = _positive(np.maximum(np.abs(derived_lower), np.abs(derived_upper)).max(axis=1))
    effort = problem.effort[sample, row]
    effort_scale = _positive(np.abs(effort).max())
    bound = problem.error_bound[sample, row]
    differences = [
        np.abs(stated_lower - derived_lower).max(axis=1) / scale,
        np.abs(stated_upper - derived_upper).max(axis=1) / scale,
        np.abs(np.array(proof["effort"]) - effort) / effort_scale,
        np.abs(np.array(proof["bound"]) - bound) / bound,
    ]
    return float(np.max(differences))


def _positive(scale: FloatArray) -> FloatArray:
    """Return scales to divide by; where one is zero, any difference becomes large."""
    return np.maximum(scale, np.finfo(float).tiny)
