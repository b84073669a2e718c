"""Which joint terms the data ask for: forward selection, judged on stretches or logs that a fit has
not seen.

Every term that Gough knows is a candidate at every motor that lacks it, with a few values of its
constants, and at all motors of one kind together, with a common coefficient or each its own. With
moments A = W^T W, b = W^T y of each block of a fold and row, a fit without a fold and its error on
the fold's blocks,

    chi = (sum_r w_r A_r)^-1 sum_r w_r b_r  (of the other folds),    e_r^2 = y^T y - 2 b_r^T chi +
    chi^T A_r chi,

cost no samples, so that hundreds of candidates take a second. Rows weigh by what the model without
them leaves. What is judged is the recorded effort, not the low-passed one of the fit, as when the
processing is chosen: a low-pass takes most of what friction does at reversals. A term is taken if
it lowers the error, on most blocks, and if its coefficient hardly changes when any block is left
out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from gough.core.arrays import FloatArray, IntArray
from gough.core.display import text_table
from gough.core.names import Parameter
from gough.engine.base import standard_from_base
from gough.fitting.regression import Regression
from gough.identification.constants import TermColumns
from gough.identification.experiment import Experiment
from gough.mechanism.terms import JointTerm
from gough.mechanism.types import Joint
from gough.processing.regressions import without_absent_payloads

FOLDS = 5  # stretches of the logs, where there are fewer than three logs
GUARD = 3  # samples at the borders of a stretch that belong to no fold: the filters reach that far
BLOCKS = 20  # that the folds are divided into, at least
# A term must lower the squared error of recorded efforts by what would take 1 % from the error of
# low-passed ones: of
# the former much is noise on some robots.
WINS = 0.99
# Over their standard deviations: the mean of the blocks' gains, and coefficients by the jackknife
# over blocks. Of the
# latter Student's 0.1 %, for one candidate of a hundred. Tuned on a pendulum, tried on five-bars
# and deltas that lack
# nothing: the largest among 16 experiments was 3.6.
STEADY, SURE = 2.0, 4.0
MOST = 12  # terms proposed
RIDGE = 1e-9  # of unit columns: twins share their coefficient
# Constants tried: velocities and distances as parts of a motor's top speed and reach, times in s.
# Stribeck and memory
# as in the diagnosis, tuned on six real robots (friction with memory wins between a thirtieth and a
# third of a second).
TRIED = {
    "speed": (0.02, 0.06, 0.2),
    "width": (0.02, 0.1),
    "time": (0.03, 0.1, 0.3),
    "distance": (0.003, 0.01, 0.03),
}
PITCHES, WAVES = (
    3,
    40.0,
)  # peaks of what is left over position that are tried, and most waves over a motor's reach
SHAPES = {
    "asymmetric viscous friction": ("fv_plus", "fv_minus"),
    "asymmetric Coulomb friction": ("fs_plus", "fs_minus"),
    "ripple": ("ripple_sin", "ripple_cos"),
}


@dataclass(frozen=True, kw_only=True)
class TermStep:
    """One term that predicts better."""

    label: str
    terms: tuple[str, ...]
    joints: tuple[str, ...]  # motors that get it; `tied` with one coefficient for all
    tied: bool
    constants: Mapping[str, Mapping[str, float]]  # by motor and name, SI
    # relative error of recorded efforts that the fit has not seen, rows weighed as in the fit
    before: float
    after: float

    def row(self) -> list[str]:
        """Return what a table says of it."""
        found = {
            ", ".join(f"{name} {value:.4g}" for name, value in own.items())
            for own in self.constants.values()
        }
        return [
            self.label,
            ", ".join(self.joints) + (" (one coefficient)" if self.tied else ""),
            "; ".join(sorted(found)[:3]) + (" ..." if len(found) > 3 else ""),
            f"{100 * self.before:.3g} %",
            f"{100 * self.after:.3g} %",
        ]


@dataclass(frozen=True, kw_only=True)
class TermChoice:
    """The smallest set of terms that predicts best, and what each would win alone."""

    steps: tuple[TermStep, ...] = ()  # in the order in which they were taken
    alone: tuple[TermStep, ...] = ()  # best of each kind by itself, those that lose included
    folds: str = "stretches"  # what was left out in turn; or `logs`
    held_out: Mapping[str, tuple[float, float]] = field(
        default_factory=dict
    )  # by row, without and with

    def summary(self) -> str:
        """Return the tables as plain text."""
        header = ["term", "motors", "constants (SI)", "error without", "with"]
        parts = [
            f"Terms that predict better, {self.folds} left out in turn",
            text_table(header, [step.row() for step in self.steps])
            if self.steps
            else "  none: the robot file has what the data show",
            "",
            "What each wins alone, at its best place",
            text_table(header, [step.row() for step in self.alone]),
        ]
        if self.held_out and self.steps:
            parts += [
                "",
                "Logs that were not used, error without and with the terms proposed",
                text_table(
                    ["row", "without", "with"],
                    [
                        [row, f"{100 * a:.3g} %", f"{100 * b:.3g} %"]
                        for row, (a, b) in self.held_out.items()
                    ],
                ),
            ]
        return "\n".join(parts)


class _Column(NamedTuple):
    """Some terms at one motor with values of their constants; `at` are its places among all
    columns.
    """

    label: str
    joint: Joint
    terms: tuple[JointTerm, ...]
    constants: Mapping[str, float]
    variant: int
    at: tuple[int, ...]


def choose_terms(experiment: Experiment, unseen: Experiment | None = None) -> TermChoice:
    """Propose joint terms that a robot file lacks; unseen logs say what these are worth, and decide
    nothing.
    """
    problem = experiment.problem
    block, folds, what = _blocks(problem)
    first = _Moments(problem, block, folds)
    model = experiment.model.with_transmitted_effort(
        standard_from_base(experiment.model, experiment.base, first.values())[0]
    )
    experiment = replace(experiment, model=model)
    columns = list(_candidates(experiment, problem.residual(first.values())))
    if not columns:
        return TermChoice(folds=what)
    wide, recorded = _widened(experiment, columns)
    moments = _Moments(wide, block, folds, first.weight, judged=recorded)
    steps: list[TermStep] = []
    alone: dict[str, TermStep] = {}
    groups = plain = [[k] for k in range(len(problem.parameters))]
    now = moments.errors(plain)
    while len(steps) < MOST:
        tried = []
        for place, tied in _places(columns):
            more = (
                [list(each) for each in zip(*(c.at for c in place))]
                if tied
                else [[k] for c in place for k in c.at]
            )
            errors = moments.errors([*groups, *more])
            before, after = (float(np.sqrt(e[0].sum() / e[1].sum())) for e in (now, errors))
            step = TermStep(
                label=place[0].label,
                terms=tuple(t.name for t in place[0].terms),
                tied=tied,
                joints=tuple(c.joint.name for c in place),
                before=before,
                after=after,
                constants={c.joint.name: c.constants for c in place},
            )
            tried.append((step, more, errors))
            if not steps and (step.label not in alone or after < alone[step.label].after):
                alone[step.label] = step
        worth = (1 - WINS**2) * moments.errors(groups, recorded=False)[0].sum()
        winning = []
        for step, more, errors in tried:
            won = now[0] - errors[0]
            steady = won.mean() > STEADY * won.std(ddof=1) / np.sqrt(len(won))  # more than chance
            if won.sum() > worth and steady and moments.sureness(groups, more) > SURE:
                winning.append((step, more, errors))
        if not winning:
            break
        best = min(errors[0].sum() for _, _, errors in winning)
        near = [each for each in winning if each[2][0].sum() <= best + worth]
        step, more, now = min(near, key=lambda each: (len(each[1]), each[0].after))
        steps.append(step)
        groups = [*groups, *more]
    held = {}
    if unseen is not None and steps:
        other = _widened(replace(unseen, model=model), columns)[1]
        size = np.maximum((other.effort**2 * other.valid).sum(axis=0), 1e-300)
        shares = [
            np.sqrt(
                ((other.residual(moments.values(each)) * other.valid) ** 2).sum(axis=0) / size
            ).tolist()
            for each in (plain, groups)
        ]
        held = dict(zip(other.rows, zip(*shares)))
    return TermChoice(
        steps=tuple(steps),
        alone=tuple(sorted(alone.values(), key=lambda s: s.after)),
        folds=what,
        held_out=held,
    )


def _blocks(problem: Regression) -> tuple[IntArray, int, str]:
    """Return the block of each sample, -1 at borders of folds, (t,), how many folds they make up,
    and what folds are.

    A fold is a log, or with fewer than three logs a stretch of each. Blocks are numbered fold by
    fold, as many in each.
    """
    log = (
        np.zeros(len(problem), int) if problem.recording is None else np.asarray(problem.recording)
    )
    logs = np.unique(log)
    stretches = len(logs) < 3
    folds = FOLDS if stretches else len(logs)
    block, each = np.full(len(problem), -1), -(-BLOCKS // folds)
    for k, one in enumerate(logs):
        own = np.flatnonzero(log == one)
        for f, part in enumerate(np.array_split(own, FOLDS)) if stretches else [(k, own)]:
            inner = part[GUARD : len(part) - GUARD] if stretches else part
            for b, piece in enumerate(np.array_split(inner, each)):
                block[piece] = f * each + b
    return block, folds, "stretches" if stretches else "logs"


Groups = Sequence[Sequence[int]]  # of columns; those of a group share their coefficient


class _Moments:
    """Moments of a regression by fold, block and row, (f, b, r, p + 1, p + 1), with columns of unit
    size.
    """

    def __init__(
        self,
        problem: Regression,
        block: IntArray,
        folds: int,
        weight: FloatArray | None = None,
        *,
        judged: Regression | None = None,
    ) -> None:
        counting, each, rows = problem.valid, -(-BLOCKS // folds), len(problem.rows)
        self.scale = np.append(
            np.maximum(np.sqrt(np.mean(problem.regressor**2, axis=(0, 1))), 1e-300), 1.0
        )

        def by_block(some: Regression) -> FloatArray:
            both = np.concatenate([some.regressor, some.effort[:, :, None]], axis=2) / self.scale
            parts = [
                both[(block == b) & counting[:, r], r]
                for b in range(folds * each)
                for r in range(rows)
            ]
            return np.stack([part.T @ part for part in parts]).reshape(
                folds, each, rows, *2 * (both.shape[2],)
            )

        self.moments = by_block(problem)
        self.judged = self.moments if judged is None else by_block(judged)
        self.whole = self.moments.sum(axis=(0, 1))
        self.weight = np.ones(rows) if weight is None else weight
        self.every = [[k] for k in range(len(self.scale) - 1)]
        for _ in range(5 if weight is None else 0):
            left = self._squares(self.whole, self._merged(self.every), self.whole)
            self.weight = problem.n_valid / np.maximum(left, 1e-12 * self.whole[:, -1, -1] + 1e-300)

    def _merged(self, groups: Groups) -> FloatArray:
        """Return what turns coefficients of groups of columns into those of all, (p, g)."""
        matrix = np.zeros((len(self.scale) - 1, len(groups)))
        for g, members in enumerate(groups):
            matrix[list(members), g] = self.scale[list(members)] / self.scale[list(members)].max()
        return matrix

    def _coefficients(self, moments: FloatArray, matrix: FloatArray) -> FloatArray:
        """Return the coefficients of groups of columns, (g,)."""
        total = np.einsum("r,rij->ij", self.weight, moments)
        A, b = matrix.T @ total[:-1, :-1] @ matrix, matrix.T @ total[:-1, -1]
        size = np.sqrt(np.maximum(np.diag(A), 1e-300))
        unit = A / np.outer(size, size) + RIDGE * np.eye(len(A))
        return np.asarray(np.linalg.solve(unit, b / size) / size)

    def _squares(self, moments: FloatArray, matrix: FloatArray, fitted: FloatArray) -> FloatArray:
        """Return the squares that coefficients found from other moments leave of some, (..., r)."""
        full = np.append(-matrix @ self._coefficients(fitted, matrix), 1.0)
        return np.asarray(np.maximum(moments @ full @ full, 0.0))

    def sureness(self, groups: Groups, more: Groups) -> float:
        """Return the rms of what more groups' coefficients are of their standard deviations by the
        jackknife.
        """
        matrix, blocks = self._merged([*groups, *more]), self.moments.reshape(-1, *self.whole.shape)
        left = np.array(
            [self._coefficients(self.whole - own, matrix)[-len(more) :] for own in blocks]
        )
        std = np.sqrt((len(blocks) - 1) * left.var(axis=0))
        return float(np.sqrt(np.mean((left.mean(axis=0) / np.maximum(std, 1e-300)) ** 2)))

    def values(self, groups: Groups | None = None) -> FloatArray:
        """Return the coefficients of all columns from all folds, zero where no group has them,
        (p,).
        """
        matrix = self._merged(self.every if groups is None else groups)
        return np.asarray(matrix @ self._coefficients(self.whole, matrix) / self.scale[:-1])

    def errors(self, groups: Groups, *, recorded: bool = True) -> FloatArray:
        """Return weighted squares of each block's error, predicted from other folds, and of its
        efforts, (2, f b).

        The efforts are those that are judged, as recorded, or those that were fitted.
        """
        matrix, blocks = self._merged(groups), self.judged if recorded else self.moments
        wrong = [
            self._squares(own, matrix, self.whole - fitted.sum(axis=0))
            for own, fitted in zip(blocks, self.moments)
        ]
        return np.asarray(
            (np.stack([np.array(wrong), blocks[..., -1, -1]]) @ self.weight).reshape(2, -1)
        )


def _candidates(experiment: Experiment, left: FloatArray) -> Iterator[_Column]:
    """Yield every registered friction term, and ripples, at every motor that lacks it."""
    mechanism, count = experiment.model.mechanism, len(experiment.problem.parameters)
    together = {name: shape for shape, names in SHAPES.items() for name in names}
    shapes: dict[str, tuple[JointTerm, ...]] = {}
    for name, term in mechanism.known_terms.items():
        usable = term.dissipative or name in together or name in mechanism.custom_terms
        if usable and not (term.channels or term.other_joints):
            label = together.get(name, term.label)
            shapes[label] = (*shapes.get(label, ()), term)
    for joint in (joint for joint in mechanism.joints if joint.actuated):
        j = mechanism.coordinates.index(joint.name)
        speed = max(float(np.abs(log.motion.qd[:, j]).max()) for log in experiment.processed)
        reach = max(float(np.ptp(log.motion.q[:, j])) for log in experiment.processed)
        for label, terms in shapes.items():
            lacking = tuple(term for term in terms if term.name not in joint.terms)
            if not lacking or speed <= 0 or reach <= 0:
                continue
            keys = [f"{term.family}.{key}" for term in lacking for key in term.constants]
            name = next((key for term in lacking for key in term.constants), "")
            size = {"speed": speed, "width": speed, "time": 1.0, "distance": reach}.get(name)
            if name == "pitch":
                tried = _pitches(experiment, joint, reach, left)
            elif size is not None:
                tried = [part * size for part in TRIED[name]]
            else:
                tried = [lacking[0].constants[name].value if name else 0.0]
            for variant, value in enumerate(tried):
                at = tuple(range(count, count + len(lacking)))
                count += len(lacking)
                yield _Column(label, joint, lacking, dict.fromkeys(keys, value), variant, at)


def _pitches(experiment: Experiment, joint: Joint, reach: float, left: FloatArray) -> list[float]:
    """Return the pitches that what is left of a motor's efforts holds most of."""
    model = experiment.model
    if joint.name not in model.rows:
        return []
    row, j = model.rows.index(joint.name), model.mechanism.coordinates.index(joint.name)
    q = np.concatenate(
        [
            log.motion.q[part.sample - log.sample[0], j]
            for log, part in zip(experiment.processed, experiment.parts)
            if part.sample is not None
        ]
    )
    waves = np.arange(1.0, WAVES, 0.25) / reach
    r = left[:, row] * experiment.problem.valid[:, row]
    size = np.array([np.abs(r @ np.exp(2j * np.pi * wave * q)) for wave in waves])
    peaks = [k for k in range(1, len(waves) - 1) if size[k] >= max(size[k - 1], size[k + 1])]
    return [float(1 / waves[k]) for k in sorted(peaks, key=lambda k: -size[k])[:PITCHES]]


def _widened(experiment: Experiment, columns: Sequence[_Column]) -> tuple[Regression, Regression]:
    """Return the regression of an experiment with columns of candidates behind its own, as fitted
    and as recorded.

    The latter has the same samples, with neither regressor nor efforts low-passed.
    """
    model, problem, mechanism = experiment.model, experiment.problem, experiment.model.mechanism
    own = {
        **mechanism.custom_terms,
        **{term.name: term for column in columns for term in column.terms},
    }
    fitted, recorded, efforts = [], [], []
    for log, part in zip(experiment.processed, experiment.parts):
        kept, raw = slice(None), part
        if log.decimation > 1 and part.sample is not None:
            kept = part.sample - log.sample[0]
            raw = without_absent_payloads(
                model.regression(
                    log.motion.take(kept),
                    log.effort[kept],
                    experiment.base,
                    dead_band=log.dead_band,
                ),
                log.payload,
            )
        more, plain, maps = [], [raw.regressor], model.kinematics.closure_map(log.motion.q)
        for column in columns:
            joints = tuple(
                replace(j, terms=tuple(t.name for t in column.terms))
                if j.name == column.joint.name
                else replace(j, terms=(), values={})
                for j in mechanism.joints
            )
            robot = replace(mechanism, joints=joints, ties={}, custom_terms=own)
            members = [[Parameter.of(column.joint.name, term.name)] for term in column.terms]
            terms = TermColumns(model, robot, log, members, maps)
            whole = terms.at(column.constants)
            more.append(terms.processed(whole))
            plain.append(whole[kept])
        fitted.append(np.concatenate(more, axis=2))
        recorded.append(np.concatenate(plain, axis=2))
        efforts.append(raw.effort)
    names = [Parameter(f"candidate{k}") for k in range(fitted[0].shape[2])]
    wide = replace(
        problem,
        regressor=np.concatenate([problem.regressor, np.concatenate(fitted)], axis=2),
        parameters=(*problem.parameters, *names),
        units=(*problem.units, *("1",) * len(names)),
    )
    return wide, replace(wide, regressor=np.concatenate(recorded), effort=np.concatenate(efforts))


def _places(columns: Sequence[_Column]) -> Iterator[tuple[tuple[_Column, ...], bool]]:
    """Yield columns to try together: each alone, those of motors of one kind, each its own or with
    one coefficient.
    """
    kinds: dict[tuple[str, str, int], list[_Column]] = {}
    for column in columns:
        yield (column,), False
        kinds.setdefault(
            (column.label, column.joint.template or column.joint.kind, column.variant), []
        ).append(column)
    for group in kinds.values():
        if len(group) > 1 and len({len(c.at) for c in group}) == 1:
            yield tuple(group), False
            yield tuple(group), True
