"""Small wrong changes of the source: which of them do the tests beside them notice?

    python benchmarks/mutations.py [--jobs 2] [word ...]     # changes whose file or label holds one

Each change is applied alone, in a temporary copy of the source; then the tests named with it run.
What they do not notice is printed as a survivor: a test is missing. At least nine of ten should be
caught. `--small` tries one change.
"""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "gough"


@dataclass(frozen=True)
class Mutation:
    """A wrong change of one place."""

    file: str  # below src/gough
    old: str  # text that occurs exactly once in the file
    new: str  # what it becomes
    tests: str  # arguments of pytest
    label: str = ""  # what becomes wrong


MUTATIONS = (
    # core
    Mutation(
        "core/units.py",
        '"deg/s2": (math.pi / 180,',
        '"deg/s2": (math.pi / 360,',
        "tests/core/test_units.py",
        "a unit",
    ),
    Mutation(
        "core/inertia.py",
        "inertia = R @ _inertia_matrix(parameters) @ R.T + shift",
        "inertia = R.T @ _inertia_matrix(parameters) @ R + shift",
        "tests/formats/test_import_urdf.py tests/mechanism/test_fixed_and_axes.py",
        "rotation of an inertia",
    ),
    Mutation(
        "core/statistics.py",
        "return chi2_tail(n_valid * (n_valid + 2) * total, lags)",
        "return chi2_tail(n_valid * n_valid * total, lags)",
        "tests/core/test_statistics.py",
        "factor of Ljung and Box",
    ),
    Mutation(
        "core/trajectory.py",
        "c3 = 10 * dp - 4 * dv + da / 2",
        "c3 = 10 * dp - 4 * dv + da",
        "tests/core/test_trajectory.py",
        "quintic",
    ),
    Mutation(
        "core/trajectory.py",
        "pace = 6 * v**5 - 15 * v**4 + 10 * v**3",
        "pace = 6 * v**5 - 15 * v**4 + 9 * v**3",
        "tests/core/test_trajectory.py",
        "start from rest",
    ),
    Mutation(
        "core/signals.py",
        "beta = 0.5842 * (attenuation - 21) ** 0.4 + 0.07886 * (attenuation - 21)",
        "beta = 0.05842 * (attenuation - 21) ** 0.4 + 0.07886 * (attenuation - 21)",
        "tests/core/test_signals.py tests/processing/test_decimation.py",
        "Kaiser window",
    ),
    # kernels
    Mutation(
        "kernels/tape.py",
        '"1.0{f} / {0}")',
        '"2.0{f} / {0}")',
        "tests/kernels/test_c_source.py",
        "reciprocal in C",
    ),
    Mutation(
        "kernels/tape.py",
        '"fmul contract {t} {a}, {b}"',
        '"fadd contract {t} {a}, {b}"',
        "tests/kernels/test_kernel.py -k equal",
        "product",
    ),
    Mutation(
        "kernels/cache.py",
        "hashlib.sha256(code).digest()",
        "hashlib.sha256(key.encode()).digest()",
        "tests/kernels/test_kernel.py -k 'cache or damaged or file'",
        "check sum of cached code",
    ),
    # engine
    Mutation(
        "engine/base.py",
        "gap = int(gaps[0]) if gaps.size else int(np.argmax(ratios))",
        "gap = int(np.argmax(ratios))",
        "tests/engine/test_base_gap.py",
        "gap of base parameters: lowest, not widest",
    ),
    Mutation(
        "engine/base.py",
        "& (norms[1:] > 10 * rounding))",
        "& (norms[1:] > 0 * rounding))",
        "tests/engine/test_base_gap.py",
        "gap of base parameters: above rounding",
    ),
    Mutation(
        "engine/kinematics.py",
        "            self._check_branch(q, by, time)\n            return q",
        "            return q",
        "tests/engine/test_branches.py",
        "branch check of given starts",
    ),
    Mutation(
        "engine/kinematics.py",
        "wrong = deviation > 0.5 * self.scaled_change(actual) + 1e-6",
        "wrong = deviation > 5 * self.scaled_change(actual) + 1e-6",
        "tests/engine/test_branches.py",
        "branch check: what a jump is",
    ),
    Mutation(
        "engine/symbolic.py",
        "a = a + acceleration + 2 * ca.cross(w, velocity)",
        "a = a + acceleration + ca.cross(w, velocity)",
        "tests/oracles/test_pinocchio.py -k 'stewart or upv'",
        "Coriolis acceleration of sliders",
    ),
    Mutation(
        "engine/symbolic.py",
        "parent_moment = parent_moment + R @ moment + _cross(r, force)",
        "parent_moment = parent_moment + R @ moment",
        "tests/contracts/test_every_robot.py -k five_bar",
        "lever of a force",
    ),
    Mutation(
        "engine/internal_states.py",
        "start = end / (1 - np.exp(-steps.sum()))",
        "start = end",
        "tests/engine/test_internal_states.py",
        "periodic start of a lag",
    ),
    Mutation(
        "engine/load_friction.py",
        "residual = u + tree.friction(joint, parameter) - applied",
        "residual = u - tree.friction(joint, parameter) - applied",
        "tests/engine/test_load_friction.py",
        "sign of load-dependent friction",
    ),
    Mutation(
        "engine/limits.py",
        "columns.append((column - limit.centre) / limit.half)",
        "columns.append(column / limit.half)",
        "tests/engine/test_limit_usage.py",
        "centre of a limit",
    ),
    Mutation(
        "engine/stepping.py",
        "(1 - decay) * (last_followed + followed) / 2",
        "(1 - decay) * followed",
        "tests/engine/test_internal_states.py tests/export/test_controller.py",
        "mean over a step of a lag",
    ),
    # mechanism
    Mutation(
        "mechanism/placement.py",
        "return transform(value * direction / np.linalg.norm(direction))",
        "return transform(value * direction)",
        "tests/mechanism/test_joint_transform.py",
        "length of an axis",
    ),
    Mutation(
        "mechanism/validation.py",
        "if term.load_dependent and (mechanism.redundant or not joint.actuated):",
        "if term.load_dependent and mechanism.redundant:",
        "tests/mechanism tests/engine/test_load_friction.py -k 'load or passive or refused'",
        "load-dependent friction of passive joints",
    ),
    Mutation(
        "mechanism/expression.py",
        "if self.depth > MAX_EXPRESSION_DEPTH:",
        "if self.depth > 1000 * MAX_EXPRESSION_DEPTH:",
        "tests/mechanism/test_terms.py tests/mechanism/test_bad_robot_files.py",
        "depth of expressions",
    ),
    # logs
    Mutation(
        "logs/checks.py",
        "gaps = np.flatnonzero(steps > GAP_STEPS * step)",
        "gaps = np.flatnonzero(steps > 10 * GAP_STEPS * step)",
        "tests/logs/test_checks.py",
        "gaps of the clock",
    ),
    Mutation(
        "logs/outliers.py",
        "large = magnitude > np.maximum(JUMP_RATIO * usual, least)",
        "large = magnitude > np.maximum(100 * JUMP_RATIO * usual, least)",
        "tests/logs/test_outliers_and_jumps.py",
        "jumps of a position",
    ),
    Mutation(
        "logs/periods.py",
        'first = int(np.searchsorted(clock, time[0], "right")) - 1',
        'first = int(np.searchsorted(clock, time[0], "right"))',
        "tests/logs/test_periods.py tests/logs/test_readers.py",
        "interpolation between samples",
    ),
    Mutation(
        "logs/readers.py",
        "inside = (time >= description.start) & (time <= description.stop)",
        "inside = time >= description.start",
        "tests/logs/test_readers.py",
        "end of a described log",
    ),
    Mutation(
        "logs/recording.py",
        "return float((len(self) - 1) / (self.time[-1] - self.time[0]))",
        "return float(len(self) / (self.time[-1] - self.time[0]))",
        "tests/logs/test_recording.py tests/logs/test_readers.py",
        "sampling rate",
    ),
    # formats
    Mutation(
        "formats/mjcf.py",
        "position=(low * unit, high * unit) if applies and low < high else None,",
        "position=(low, high) if applies and low < high else None,",
        "tests/formats/test_import_mjcf.py",
        "range of imported limits: unit",
    ),
    Mutation(
        "formats/mjcf.py",
        "position=(low * unit, high * unit) if applies and low < high else None,",
        "position=(low * unit, high * unit) if low < high else None,",
        "tests/formats/test_import_mjcf.py",
        "range of imported limits: where they apply",
    ),
    Mutation(
        "formats/urdf.py",
        'if kind == "continuous" or limits.position is None:',
        "if limits.position is None:",
        "tests/formats/test_import_urdf.py tests/formats/test_import_awkward.py",
        "limits of continuous joints",
    ),
    Mutation(
        "formats/robot_description.py",
        "return min(max(start, low), high)",
        "return start",
        "tests/formats",
        "start inside the limits",
    ),
    Mutation(
        "formats/geometry.py",
        "return (b * b + c * c) / n, (a * a + c * c) / n, (a * a + b * b) / n",
        "return (b * b + c * c) / n, (a * a + b * b) / n, (a * a + b * b) / n",
        "tests/formats",
        "inertia of a box",
    ),
    # fitting
    Mutation(
        "fitting/estimate.py",
        "half_width = student_quantile(0.5 + level / 2, self.degrees_of_freedom) * self.std",
        "half_width = student_quantile(level, self.degrees_of_freedom) * self.std",
        "tests/fitting/test_estimate.py",
        "two-sided interval",
    ),
    Mutation(
        "fitting/least_squares.py",
        "variance = max(solution.residual_norm, rounding) ** 2 / freedom  # BG13 (26)",
        "variance = max(solution.residual_norm, rounding) / freedom  # BG13 (26)",
        "tests/fitting/test_least_squares.py",
        "variance of the residual",
    ),
    Mutation(
        "fitting/row_noise.py",
        "if freedom.min() < MIN_FREEDOM:",
        "if freedom.min() < 0:",
        "tests/fitting/test_hard_problems.py tests/fitting/test_least_squares.py",
        "too few equations",
    ),
    Mutation(
        "fitting/row_noise.py",
        "covariance = products / self.pair_freedom",
        "covariance = products / self.pair_freedom.max()",
        "tests/fitting/test_least_squares.py tests/fitting/test_hard_problems.py",
        "degrees of freedom of each pair of rows",
    ),
    Mutation(
        "fitting/robust.py",
        "return np.where(magnitude < tuning, (1 - (u / tuning) ** 2) ** 2, 0.0)",
        "return np.where(magnitude < tuning, 1 - (u / tuning) ** 2, 0.0)",
        "tests/fitting/test_robust.py",
        "weights of Tukey",
    ),
    Mutation(
        "fitting/selection.py",
        "return self.p < TIE_TEST_LEVEL",
        "return self.p > TIE_TEST_LEVEL",
        "tests/fitting/test_selection.py",
        "legs that differ",
    ),
    Mutation(
        "fitting/load_fit.py",
        "clear = mu >= MIN_OBSERVED_RATIO - 1",
        "clear = mu >= 100 * MIN_OBSERVED_RATIO",
        "tests/fitting/test_load_fit.py",
        "what a motion determines of a load",
    ),
    Mutation(
        "fitting/total_least_squares.py",
        "degrees_of_freedom=np.asarray(float(count - len(strata))),",
        "degrees_of_freedom=np.asarray(float(count)),",
        "tests/fitting/test_drive_gains.py -k 'groups or deviations'",
        "degrees of freedom of resampled groups",
    ),
    Mutation(
        "fitting/pseudo_inertia.py",
        "return prior + 2 * added * is_moment, float(np.sqrt(added / mass))",
        "return prior + added * is_moment, float(np.sqrt(added / mass))",
        "tests/fitting/test_feasible.py",
        "factor of the prior body's thickness",
    ),
    # processing
    Mutation(
        "processing/filters.py",
        "X[frequency > cutoff * HARMONIC_ROUNDING] = 0.0",
        "X[frequency > 2 * cutoff * HARMONIC_ROUNDING] = 0.0",
        "tests/processing/test_frequency.py tests/processing/test_filters.py",
        "cut-off of the Fourier filter",
    ),
    Mutation(
        "processing/filters.py",
        "second_state = (b - a_2) * first",
        "second_state = b * first",
        "tests/processing/test_filters.py",
        "state of the low-pass before the first sample",
    ),
    Mutation(
        "core/signals.py",
        "right_side[: len(start)] += start.reshape(len(start), -1)",
        "right_side[:1] += start[:1].reshape(1, -1)",
        "tests/core/test_signals.py",
        "state of a recursive filter",
    ),
    Mutation(
        "processing/filters.py",
        "1 / 5, -4 / 5, 0.0, 4 / 5,",
        "1 / 5, -4 / 5, 0.0, 3 / 5,",
        "tests/processing/test_filters.py tests/processing/test_processing.py",
        "central differences",
    ),
    Mutation(
        "processing/filters.py",
        "outputs /= weight[:, :, None]",
        "outputs /= 1.0",
        "tests/processing/test_decimation.py",
        "weights of decimated equations",
    ),
    Mutation(
        "processing/averaging.py",
        "return np.asarray(np.where(hidden_by_rounding, rounding, 0.0))",
        "return np.asarray(np.where(hidden_by_rounding, 0.0, 0.0))",
        "tests/processing/test_averaging.py",
        "noise of encoder steps",
    ),
    Mutation(
        "processing/valid_equations.py",
        "return float(max(scatter, step / np.sqrt(12.0), rounding))",
        "return float(max(scatter, rounding))",
        "tests/processing/test_valid_equations.py tests/processing/test_settings.py",
        "velocity noise of encoder steps",
    ),
    Mutation(
        "logs/periods.py",
        "below_half = correlation < 0.5 * correlation[0]",
        "below_half = correlation < 2.0 * correlation[0]",
        "tests/processing/test_repetitions.py tests/processing/test_matching.py",
        "first peak of the autocorrelation",
    ),
    # excitation
    Mutation(
        "excitation/criteria.py",
        "slope[-1] = -2 / s[-1] ** 3",
        "slope[-1] = -1 / s[-1] ** 3",
        "tests/excitation/test_criteria.py",
        "gradient of a criterion",
    ),
    Mutation(
        "excitation/solver.py",
        "push = self.jacobian.transposed(1 / self.slack[0] - 1 / self.slack[1])",
        "push = self.jacobian.transposed(1 / self.slack[0] + 1 / self.slack[1])",
        "tests/excitation/test_solver.py",
        "gradient of the barrier",
    ),
    # virtual
    Mutation(
        "virtual/controllers.py",
        "return 3 * mass * w**2, mass * w**3, 3 * mass * w",
        "return 3 * mass * w**2, mass * w**3, mass * w",
        "tests/virtual/test_controllers.py",
        "gains of the PID",
    ),
    Mutation(
        "virtual/simulation.py",
        "measured = position + noise.position * rng.standard_normal(position.shape)",
        "measured = position + 2 * noise.position * rng.standard_normal(position.shape)",
        "tests/virtual/test_sensors.py",
        "noise of the encoders",
    ),
    Mutation(
        "virtual/reference.py",
        "acceleration = path_acceleration * rate**2 + path_velocity * pace.acceleration[:, None]",
        "acceleration = path_acceleration * rate**2",
        "tests/virtual/test_simulate.py tests/virtual/test_controllers.py -k 'reference or rest or path'",
        "acceleration of a reference",
    ),
    # identification
    Mutation(
        "identification/validation.py",
        "relative = rms / np.maximum(_valid_rms(effort, valid), MIN_EFFORT_DIVISOR)",
        "relative = rms / np.maximum(np.abs(effort).max(axis=0), MIN_EFFORT_DIVISOR)",
        "tests/identification/test_validation_errors.py",
        "relative error on held-out logs",
    ),
    Mutation(
        "identification/validation.py",
        "residual_squares += ((block.effort - estimate.predict(block)) ** 2).sum(axis=0)",
        "residual_squares += (block.valid * (block.effort - estimate.predict(block)) ** 2)"
        ".sum(axis=0)",
        "tests/identification/test_validation_errors.py",
        "errors over all samples",
    ),
    Mutation(
        "identification/validation.py",
        "if error < GOOD_ERROR:",
        "if error < 10 * GOOD_ERROR:",
        "tests/identification/test_validation_errors.py",
        "what is called good",
    ),
    Mutation(
        "identification/compare.py",
        "elif p is not None and p < false_alarms / len(together):",
        "elif p is not None and p < false_alarms:",
        "tests/identification/test_comparison.py",
        "correction for many tests",
    ),
    Mutation(
        "identification/experiment.py",
        "_least_valid_fraction(processed) < MIN_VALID_FRACTION:",
        "_least_valid_fraction(processed) < 0.1 * MIN_VALID_FRACTION:",
        "tests/identification/test_faster_logs.py -k window",
        "more than half of a joint's equations",
    ),
    Mutation(
        "identification/constants.py",
        "if moved_cost < cost:",
        "if moved_cost > cost:",
        "tests/identification/test_constants.py -k wrong_start",
        "search of constants",
    ),
    # bounding
    Mutation(
        "bounding/prior.py",
        "PRIOR_FACTOR = 10.0",
        "PRIOR_FACTOR = 5.0",
        "tests/bounding/test_prior.py",
        "factor of the prior",
    ),
    Mutation(
        "bounding/prior.py",
        "if name.kind in nonnegative and (coefficients >= 0).all():",
        "if name.kind in nonnegative:",
        "tests/bounding/test_prior.py tests/bounding/test_bounds_window.py",
        "regrouped parameters may be negative",
    ),
    Mutation(
        "bounding/uncertain_regressor.py",
        "slack = 1.01 * largest_misfit[:, None] * coefficient_sum",
        "slack = 0.0 * largest_misfit[:, None] * coefficient_sum",
        "tests/bounding/test_bounds_positions.py",
        "slack of enclosed harmonics",
    ),
    Mutation(
        "bounding/exact_box.py",
        "if self.outliers < 0:",
        "if self.outliers < -100:",
        "tests/bounding/test_bounds.py tests/bounding/test_bounds_outliers.py -k 'refused or wrong or negative or settings'",
        "negative number of outliers",
    ),
    # export
    Mutation(
        "export/controller.py",
        "mechanism.noise.position + (mechanism.noise.resolution or 0.0)",
        "mechanism.noise.position",
        "tests/export/test_controller_guard.py",
        "encoder step in the guard of the C code",
    ),
    Mutation(
        "export/controller.py",
        "top_speed = OVERSHOOT_FACTOR * joint.limits.velocity",
        "top_speed = joint.limits.velocity",
        "tests/export/test_controller_guard.py",
        "overshoot in the guard of the C code",
    ),
    Mutation(
        "export/urdf_writer.py",
        "velocity=repr(joint.limits.velocity or URDF_UNLIMITED),",
        "velocity=repr(URDF_UNLIMITED),",
        "tests/export/test_urdf.py",
        "velocity limits in a URDF",
    ),
    # verdict
    Mutation(
        "verdict/acceptance.py",
        "return required_t(trials, n_blocks)",
        "return required_t(1, n_blocks)",
        "tests/verdict/test_acceptance_rule.py",
        "correction for everything that was tried",
    ),
    Mutation(
        "verdict/acceptance.py",
        "and self.outside > OUTSIDE_TOLERANCE",
        "and self.outside > -np.inf",
        "tests/verdict/test_acceptance_rule.py",
        "harm outside the scope of a fault",
    ),
    Mutation(
        "verdict/acceptance.py",
        "limit = threshold(trials * n_decisive, n_blocks)",
        "limit = 2.0",
        "tests/verdict/test_acceptance_rule.py -k size",
        "threshold of sizes",
    ),
    Mutation(
        "verdict/period_changes.py",
        "deviation = carried - carried.mean(axis=0)",
        "deviation = carried",
        "tests/verdict/test_period_changes.py",
        "what differs between periods",
    ),
    Mutation(
        "verdict/acceptance.py",
        "error = np.sqrt(variance * neighbour_inflation(gains, logs) / n)",
        "error = np.sqrt(variance / n)",
        "tests/verdict/test_acceptance_rule.py",
        "correlation of neighbouring blocks",
    ),
    Mutation(
        "verdict/acceptance.py",
        "explained = LOSS_QUANTILE**2 * np.maximum(variance, 0.0)",
        "explained = 0.0 * variance",
        "tests/verdict/test_acceptance_rule.py",
        "logs that hardly show a fault",
    ),
    Mutation(
        "verdict/drift.py",
        "out_of_phase = (deviations * mean.conj()).imag ** 2",
        "out_of_phase = 1e-6 * (deviations * mean.conj()).imag ** 2",
        "tests/verdict/test_diagnose.py -k wandering",
        "noise of the gains of periods",
    ),
    Mutation(
        "verdict/noise.py",
        "coarse = rounding + np.pi * single**2 / (12 * least_rounding)",
        "coarse = rounding + single",
        "tests/verdict/test_rules.py -k single_sample",
        "noise before rounding",
    ),
    Mutation(
        "verdict/noise.py",
        "most = highest * band_edge + density[band_edge:].sum(axis=0)",
        "most = lowest * band_edge + density[band_edge:].sum(axis=0)",
        "tests/verdict/test_rules.py",
        "noise inside the band of the motion",
    ),
    Mutation(
        "verdict/robot_file.py",
        "negative = [k for k in negative if not abs(shift[k]) <= limit[k]]",
        "negative = []",
        "tests/verdict/test_robot_file.py",
        "negative values that no bodies can have",
    ),
    Mutation(
        "verdict/robot_file.py",
        "far = np.flatnonzero(chance < FILE_ODDS)",
        "far = np.flatnonzero(chance < 1)",
        "tests/verdict/test_robot_file.py",
        "odds against the robot file",
    ),
    Mutation(
        "verdict/rules.py",
        'level: Level = "error" if error[worst] >= UNEXPLAINED_ERROR else "warning"',
        'level: Level = "warning"',
        "tests/verdict/test_rules.py",
        "level of large errors",
    ),
    Mutation(
        "verdict/rules.py",
        "error = np.sqrt(np.maximum(rms**2 - noise.most, 0.0)) / effort",
        "error = rms / effort",
        "tests/verdict/test_rules.py",
        "noise below an error",
    ),
    Mutation(
        "verdict/odd_logs.py",
        "(above > np.log(ODD_LOG_RATIO)) & (above > ODD_LOG_DEVIATIONS * scatter)",
        "(above > np.log(ODD_LOG_RATIO)) | (above > ODD_LOG_DEVIATIONS * scatter)",
        "tests/verdict/test_diagnose.py -k 'odd or unlike or log_errors'",
        "logs unlike the others",
    ),
    Mutation(
        "verdict/unnoticed.py",
        "if added.max() > UNEXPLAINED_WARNING**2:",
        "if added.max() > 0:",
        "tests/verdict/test_unnoticed.py",
        "exchanges that logs do not show",
    ),
    Mutation(
        "verdict/detectable.py",
        "t > limit + wanted)",
        "t > limit / 3)",
        "tests/verdict/test_detectable.py",
        "smallest noticed fault",
    ),
    # fleets
    Mutation(
        "fleets/hierarchy.py",
        "limit = student_quantile(1 - level / (2 * p.size), each.degrees_of_freedom)",
        "limit = student_quantile(1 - level / 2, each.degrees_of_freedom)",
        "tests/fleets/test_hierarchy.py",
        "correction for many drifts",
    ),
    Mutation(
        "fleets/outliers.py",
        "student_quantile(1 - level / n_tests, len(inside) - 1)",
        "student_quantile(1 - level, len(inside) - 1)",
        "tests/fleets/test_outlying_robots.py",
        "correction for many robots",
    ),
    # app
    Mutation(
        "app/report/charts.py",
        "first = math.ceil(low / step - TICK_ROUNDING)",
        "first = math.floor(low / step - TICK_ROUNDING)",
        "tests/report/test_report.py -k 'tick or axis or chart'",
        "first mark of an axis",
    ),
    Mutation(
        "app/report/tables.py",
        "if not lower <= value <= upper:",
        "if lower <= value <= upper:",
        "tests/report/test_report.py -k 'bound or box'",
        "estimates outside guaranteed bounds",
    ),
    Mutation(
        "app/report/numbers.py",
        'return "∞" if value > 0 else',
        'return "∞" if value < 0 else',
        "tests/report/test_report.py -k number",
        "sign of infinity",
    ),
)


def chosen(words: list[str]) -> Iterator[Mutation]:
    """Yield the changes whose file or label holds one of some words, all without any."""
    for mutation in MUTATIONS:
        text = f"{mutation.file} {mutation.label}"
        if not words or any(word in text for word in words):
            yield mutation


def is_caught(mutation: Mutation) -> bool:
    """Apply a change to a copy of the source and tell whether its tests notice it.

    Raises:
        RuntimeError: No test was run.
    """
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "gough"
        shutil.copytree(SOURCE, copy)  # with its bytecode, of which only one file is out of date
        path = copy / mutation.file
        text = path.read_text(encoding="utf-8")
        if text.count(mutation.old) != 1:
            raise RuntimeError(f"'{mutation.old}' does not occur once in {mutation.file}")
        path.write_text(text.replace(mutation.old, mutation.new), encoding="utf-8")
        words = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider"]
        done = subprocess.run(
            [*words, *shlex.split(mutation.tests)],
            cwd=ROOT,
            env=os.environ | {"PYTHONPATH": folder, "PYTEST_ADDOPTS": ""},
            capture_output=True,
            text=True,
            check=False,
        )
    if done.returncode not in (0, 1, 2):
        raise RuntimeError(f"{mutation.file}, {mutation.label}: {done.stdout}{done.stderr}")
    return done.returncode != 0


def outcome_of(mutation: Mutation) -> str:
    """Return what became of a change."""
    try:
        return "caught" if is_caught(mutation) else "SURVIVED"
    except RuntimeError:
        return "NOT TESTED"


def main() -> None:
    """Try the changes and print the survivors."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("words", nargs="*", help="only changes whose file or label holds one")
    parser.add_argument("--jobs", type=int, default=1, help="changes tried at a time")
    parser.add_argument("--small", action="store_true", help="one change")
    asked = parser.parse_args()
    mutations = list(chosen(asked.words))
    if asked.small:
        mutations = list(chosen(["two-sided interval"]))
    survivors = []
    with ThreadPoolExecutor(asked.jobs) as pool:
        for mutation, outcome in zip(mutations, pool.map(outcome_of, mutations)):
            print(f"{outcome:10s} {mutation.file}: {mutation.label}", flush=True)
            if outcome != "caught":
                survivors.append(mutation)
    n_caught = len(mutations) - len(survivors)
    print(f"{n_caught} of {len(mutations)} caught ({100 * n_caught / len(mutations):.0f} %)")
    for mutation in survivors:
        print(f"survivor: {mutation.file}: {mutation.old!r} -> {mutation.new!r}")


if __name__ == "__main__":
    main()
