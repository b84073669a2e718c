"""Columns of joint terms that a robot file lacks, for the motion of its logs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from gough.core.arrays import FloatArray
from gough.core.names import Parameter
from gough.fitting.regression import Regression
from gough.identification.constants import TermColumns
from gough.identification.experiment import Experiment
from gough.identification.validity import observed_range
from gough.mechanism.terms import JointTerm
from gough.mechanism.types import Joint, Mechanism
from gough.processing import ProcessedLog
from gough.processing.processed_log import equations_of_samples

# Constants that are tried: speeds and widths as fractions of a motor's
# top speed, distances of its range, times in s. Tuned on six real
# robots (friction with an internal state wins between a thirtieth and a
# third of a second).
TRIED_CONSTANTS = {
    "speed": (0.02, 0.06, 0.2),
    "width": (0.02, 0.1),
    "time": (0.03, 0.1, 0.3),
    "distance": (0.003, 0.01, 0.03),
}
# largest peaks of the residual over position that are tried as pitch of
# a ripple
MAX_PITCHES = 3
MAX_WAVES = 40.0  # of a ripple over a motor's range
# Terms that only make sense together.
COMBINED_TERMS = {
    "asymmetric viscous friction": ("fv_plus", "fv_minus"),
    "asymmetric Coulomb friction": ("fs_plus", "fs_minus"),
    "ripple": ("ripple_sin", "ripple_cos"),
}


class Candidate(NamedTuple):
    """Some terms at one motor, with values of their constants and the range they were seen in."""

    label: str
    joint: Joint
    terms: tuple[JointTerm, ...]
    constants: Mapping[str, float]
    variant: int  # number of the constants that are tried
    columns: tuple[int, ...]  # among all columns


class Placement(NamedTuple):
    """Candidates that are tried together."""

    candidates: tuple[Candidate, ...]

    @property
    def columns(self) -> list[int]:
        """Their columns among all."""
        columns: list[int] = []
        for candidate in self.candidates:
            columns += candidate.columns
        return columns


def candidate_terms(experiment: Experiment, residual: FloatArray) -> Iterator[Candidate]:
    """Yield every registered friction term, and ripples, at every motor that lacks it."""
    mechanism = experiment.model.mechanism
    n_columns = len(experiment.problem.parameters)
    shapes = _usable_terms(mechanism)
    for joint in mechanism.joints:
        if not joint.actuated:
            continue
        j = mechanism.coordinates.index(joint.name)
        speed = max(float(np.abs(log.motion.qd[:, j]).max()) for log in experiment.processed)
        reach = max(float(np.ptp(log.motion.q[:, j])) for log in experiment.processed)
        if speed <= 0 or reach <= 0:
            continue
        for label, terms in shapes.items():
            missing = tuple(term for term in terms if term.name not in joint.terms)
            if not missing:
                continue
            names = []
            for term in missing:
                names += [f"{term.family}.{key}" for key in term.constants]
            tried = _tried_constants(experiment, joint, missing, speed, reach, residual)
            missing = tuple(_with_validity(experiment, joint, term) for term in missing)
            for variant, constant in enumerate(tried):
                columns = tuple(range(n_columns, n_columns + len(missing)))
                n_columns += len(missing)
                constants = dict.fromkeys(names, constant)
                yield Candidate(label, joint, missing, constants, variant, columns)


def _with_validity(experiment: Experiment, joint: Joint, term: JointTerm) -> JointTerm:
    """Return a term with the ranges of what it depends on in the logs."""
    validity = {}
    for word in term.limited_names:
        low, high = observed_range(experiment.model, experiment.processed, joint, word)
        if low < high:
            validity[word] = (low, high)
    return replace(term, validity=validity)


def _usable_terms(mechanism: Mechanism) -> dict[str, tuple[JointTerm, ...]]:
    """Return friction terms and ripples by label; terms that belong together share one."""
    label_of = {}
    for label, names in COMBINED_TERMS.items():
        for name in names:
            label_of[name] = label
    shapes: dict[str, tuple[JointTerm, ...]] = {}
    for name, term in mechanism.known_terms.items():
        usable = term.dissipative or name in label_of or name in mechanism.custom_terms
        if term.load_dependent and mechanism.redundant:
            continue  # the transmitted effort is not known
        if usable and not (term.channels or term.other_joints):
            label = label_of.get(name, term.label)
            shapes[label] = (*shapes.get(label, ()), term)
    return shapes


def _tried_constants(
    experiment: Experiment,
    joint: Joint,
    terms: tuple[JointTerm, ...],
    speed: float,
    reach: float,
    residual: FloatArray,
) -> list[float]:
    """Return values of the first constant of some terms; one value if there is none to try."""
    first = ""
    for term in terms:
        if term.constants:
            first = next(iter(term.constants))
            break
    if first == "pitch":
        return _pitches(experiment, joint, reach, residual)
    scales = {"speed": speed, "width": speed, "time": 1.0, "distance": reach}
    if first in scales:
        return [fraction * scales[first] for fraction in TRIED_CONSTANTS[first]]
    return [terms[0].constants[first].value if first else 0.0]


def _pitches(
    experiment: Experiment, joint: Joint, reach: float, residual: FloatArray
) -> list[float]:
    """Return the pitches at which the residual of a motor over its position is largest."""
    model = experiment.model
    if joint.name not in model.rows:
        return []
    row = model.rows.index(joint.name)
    j = model.mechanism.coordinates.index(joint.name)
    positions = []
    for log, regression in zip(experiment.processed, experiment.regressions):
        if regression.sample is not None:
            positions.append(log.motion.q[regression.sample - log.sample[0], j])
    position = np.concatenate(positions)
    waves = np.arange(1.0, MAX_WAVES, 0.25) / reach
    valid_residual = residual[:, row] * experiment.problem.valid[:, row]
    amplitude = np.zeros(len(waves))
    for k, wave in enumerate(waves):
        amplitude[k] = np.abs(valid_residual @ np.exp(2j * np.pi * wave * position))
    inner = amplitude[1:-1]
    is_peak = (inner >= amplitude[:-2]) & (inner >= amplitude[2:])
    peaks = np.flatnonzero(is_peak) + 1
    largest = sorted(peaks, key=lambda k: -amplitude[k])[:MAX_PITCHES]
    spacing = waves[1] - waves[0]
    return [float(1 / (waves[k] + spacing * _peak_offset(amplitude, int(k)))) for k in largest]


def _peak_offset(amplitude: FloatArray, k: int) -> float:
    """Return the offset of a peak from sample k by a parabola through it and its neighbours."""
    before, at, after = amplitude[k - 1 : k + 2]
    curvature = 2 * at - before - after
    if curvature <= 0:
        return 0.0
    return float(0.5 * (after - before) / curvature)


def placements(candidates: Sequence[Candidate]) -> Iterator[Placement]:
    """Yield candidates to try together: one motor, or the same terms at all motors of one kind."""
    by_kind: dict[tuple[str, str, int, tuple[str, ...]], list[Candidate]] = {}
    for candidate in candidates:
        yield Placement((candidate,))
        kind = candidate.joint.template or candidate.joint.kind
        names = tuple(term.name for term in candidate.terms)
        key = (candidate.label, kind, candidate.variant, names)
        by_kind.setdefault(key, []).append(candidate)
    for group in by_kind.values():
        if len(group) > 1:
            yield Placement(tuple(group))


def with_candidates(
    experiment: Experiment, candidates: Sequence[Candidate]
) -> tuple[Regression, Regression]:
    """Return the regression with the columns of candidates behind its own, fitted and recorded.

    The second one has the same samples, with neither regressor nor
    efforts low-passed.
    """
    problem = experiment.problem
    fitted = []
    recorded = []
    efforts = []
    for log, regression in zip(experiment.processed, experiment.regressions):
        processed, unfiltered, effort = _log_columns(experiment, log, regression, candidates)
        fitted.append(processed)
        recorded.append(unfiltered)
        efforts.append(effort)
    columns = np.concatenate(fitted)
    names = [f"candidate{k}" for k in range(columns.shape[2])]
    extended = problem.with_columns(columns, names, ["1"] * len(names))
    unfiltered_regressor = np.concatenate(recorded)
    raw = replace(extended, regressor=unfiltered_regressor, effort=np.concatenate(efforts))
    return extended, raw


def _log_columns(
    experiment: Experiment,
    log: ProcessedLog,
    regression: Regression,
    candidates: Sequence[Candidate],
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the columns of candidates as processed, and all columns and the effort unfiltered.

    Their shapes are (t, r, k), (t, r, p + k) and (t, r).
    """
    model = experiment.model
    samples = slice(None)
    unfiltered = regression
    if log.decimation > 1 and regression.sample is not None:
        samples = regression.sample - log.sample[0]
        unfiltered = equations_of_samples(model, log, experiment.base, samples, log.effort)
    maps = model.kinematics.closure_map(log.motion.q)
    processed = []
    raw = [unfiltered.regressor]
    for candidate in candidates:
        robot = _robot_with_only(model.mechanism, candidate)
        members = [[Parameter.of(candidate.joint.name, term.name)] for term in candidate.terms]
        terms = TermColumns(model, robot, log, members, maps)
        columns = terms.at(candidate.constants)
        processed.append(terms.decimated(columns))
        raw.append(columns[samples])
    unfiltered_columns = np.concatenate(raw, axis=2)
    return np.concatenate(processed, axis=2), unfiltered_columns, unfiltered.effort


def _robot_with_only(mechanism: Mechanism, candidate: Candidate) -> Mechanism:
    """Return the robot with the terms of a candidate as its only joint terms."""
    joints = []
    for joint in mechanism.joints:
        if joint.name == candidate.joint.name:
            joints.append(replace(joint, terms=tuple(term.name for term in candidate.terms)))
        else:
            joints.append(replace(joint, terms=(), values={}))
    custom = dict(mechanism.custom_terms)
    for term in candidate.terms:
        custom[term.name] = term
    return replace(mechanism, joints=tuple(joints), ties={}, custom_terms=custom)
