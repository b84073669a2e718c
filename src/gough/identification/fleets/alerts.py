"""What is wrong with which robot of a fleet: drifts, drives, periods and robots that stand out beside the others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gough.core.arrays import FloatArray
from gough.core.documents import parse_json
from gough.core.errors import GoughError
from gough.core.executors import Executor
from gough.core.names import Parameter
from gough.core.statistics import normal_quantile, robust_scale, robust_scores
from gough.estimators.fleet.drift import Drifts
from gough.estimators.fleet.hierarchy import Hierarchy
from gough.estimators.selection.scores import LEAST_SEEN, ScoreProblem, Scores
from gough.identification.diagnosis.diagnose import DiagnoseSettings, diagnose, evidence_from, words
from gough.identification.diagnosis.directions import suspicions_of
from gough.identification.diagnosis.evidence import Evidence, score_problem
from gough.identification.diagnosis.hypotheses import best_hypothesis
from gough.identification.diagnosis.search import CLOSE, Standing
from gough.identification.fleets.history import DAY, RobotHistory, date_of
from gough.identification.many import looked_at
from gough.processing.factors import Job, name_of, robot_of

PULLING = ("gain", "encoder offset", "encoder scale")  # directions that robots are compared along
LOOKED_AT = 3  # logs of a robot that its diagnosis looks at, beside one of the period that is strange


@dataclass(frozen=True, kw_only=True)
class Alert:
    """One thing about one robot that somebody should look at: `drift`, `mistake` or `strange`."""

    robot: str
    kind: str
    text: str
    advice: str = ""


def drifting(histories: Sequence[RobotHistory], drift: Drifts | None, trending: Sequence[str]) -> list[Alert]:
    """Return the drifts that are more than chance, the surest first."""
    found: list[tuple[float, Alert]] = []
    for h in histories:
        if drift is None or h.trend is None:
            continue
        row = trending.index(h.robot)
        for k in np.flatnonzero(drift.found[row]):
            change, std, value = h.trend.change[k], h.trend.std[k], h.estimate.values[k]
            days = float(np.ptp(h.starts)) / DAY
            part = f" ({100 * change / abs(value):+.0f} %)" if abs(value) > 2 * abs(h.estimate.std[k]) else ""
            found.append((float(drift.p[row, k]), Alert(
                robot=h.robot, kind="drift", text=f"{h.estimate.parameters[k]} changes by {change:+.3g} +- {std:.2g} "
                f"{h.estimate.units[k]}{part} in {days:.0f} days (p = {drift.p[row, k]:.1g})",
                advice="look at bearings, seals, belts and brakes of this joint")))
    return [warning for _, warning in sorted(found, key=lambda item: item[0])]


@dataclass(frozen=True, kw_only=True, eq=False)
class Kind:
    """What robots of a kind are usually like: parameters, their values and the covariance between robots."""

    parameters: tuple[Parameter, ...]
    values: FloatArray
    covariance: FloatArray

    @classmethod
    def of(cls, parameters: tuple[Parameter, ...], common: Hierarchy) -> Kind:
        """Return a kind by its common part; the doubt about the common part adds up."""
        return cls(parameters=parameters, values=common.common,
                   covariance=np.diag(common.between**2 + common.common_std**2))

    def equations(self, names: Sequence[Parameter]) -> tuple[FloatArray, FloatArray]:
        """Return what is known of some parameters as whitened equations L chi = L mu, (k, p) and (k,)."""
        own = [k for k, name in enumerate(self.parameters) if name in names]
        root = np.linalg.inv(np.linalg.cholesky(self.covariance[np.ix_(own, own)]))
        places = np.zeros((len(own), len(names)))
        places[np.arange(len(own)), [names.index(self.parameters[k]) for k in own]] = 1.0
        return root @ places, root @ self.values[own]


def strange(histories: Sequence[RobotHistory], common: Hierarchy, job: Job, level: float, diagnosed: int,
            executor: Executor) -> tuple[list[Alert], list[str]]:
    """Return robots and periods that stand out, with what explains it, and periods that nothing explains.

    A robot stands out by what the model leaves of its efforts, or by parameters that are far from those of the kind
    in a direction that a wrong drive or encoder pulls them; a period by what the model leaves.
    """
    logs = [np.log(np.maximum(h.residual, np.finfo(float).tiny)) for h in histories]
    middle = np.array([np.median(own, axis=0) for own in logs])  # (n, r)
    robot_z = robust_scores(middle).max(axis=1)
    period_z = np.split(robust_scores(np.concatenate([own - m for own, m in zip(logs, middle)])).max(axis=1),
                        np.cumsum([len(own) for own in logs])[:-1])
    usual = histories[int(np.argsort(robot_z)[len(robot_z) // 2])]  # what it shows too is no robot's own
    kind_z = _far_from_kind(histories, common, pulls_of(job, _spread(usual, None), usual.estimate.parameters))
    tests = sum(own.size for own in logs) + middle.size + kind_z.size
    limit = normal_quantile(1 - level / tests)
    found: list[tuple[float, int, int | None, str]] = []
    for i, (z, own, far) in enumerate(zip(robot_z, period_z, kind_z.max(axis=1))):
        if max(z, far) > limit:
            found.append((max(z, far), i, None, "the model leaves more than elsewhere in all its logs" if z > far else
                          "its parameters are not those of the other robots"))
        elif len(own) and own.max() > limit:
            t, h = int(own.argmax()), histories[i]
            found.append((own[t], i, t, f"the model leaves more than elsewhere on {date_of(h.starts[t])[:10]} "
                                        f"({name_of(h.logs[t][0])})"))
    found.sort(key=lambda item: -item[0])
    kind = Kind.of(usual.estimate.parameters, common)
    tasks = [(job, _spread(usual, None), None), *((job, _spread(histories[i], t), kind if t is None else None)
                                                  for _, i, t, _ in found[:diagnosed])]
    answers = dict(executor.run(mistakes_of, tasks)) if found and diagnosed else {}
    shared = {name for name, *_ in answers.get(0, [])} if isinstance(answers.get(0), list) else set()
    alerts, notes = list[Alert](), list[str]()
    for n, (z, i, when, what) in enumerate(found, start=1):
        own, text, robot = answers.get(n, []), f"{what}, {z:.1f} sigma", histories[i].robot
        named = [m for m in dict.fromkeys(own) if m[0] not in shared] if isinstance(own, list) else []
        alerts += [Alert(robot=robot, kind="mistake", text=f"{text}: {says}", advice=advice)
                   for _, says, advice in named[:2]]
        why = str(own) if isinstance(own, GoughError) else "no usual mistake explains it" if n in answers else \
            "not diagnosed"
        if not named and when is None:
            alerts.append(Alert(robot=robot, kind="strange", text=f"{text}: {why}"))
        elif not named:  # one bad log is no reason to send somebody to a robot
            notes.append(f"{robot}: {text}: {why}")
    return alerts, notes


def _settings(job: Job) -> DiagnoseSettings:
    return DiagnoseSettings(tie_legs=job.tie_legs, gains=parse_json(job.gains), processing=job.settings)


def pulls_of(job: Job, logs: Sequence[str], parameters: Sequence[Parameter]) -> FloatArray:
    """Return the change of the estimate by wrong drives and encoders of a unit, (k, p).

    From logs of one robot: all of a kind move alike.
    """
    model, _ = robot_of(job)
    evidence = evidence_from(model, [looked_at(log) for log in logs], (), _settings(job))
    standing = Standing(evidence, only=[s for name in PULLING for s in suspicions_of(evidence, name)])
    names = evidence.base.names
    place = [names.index(name) if name in names else len(names) for name in parameters]
    taken = [np.append(standing.scores.taken_in(s.columns[0]), 0.0)[place] for s in standing.suspicions]
    return np.array([pull for pull in taken if pull.any()]).reshape(-1, len(parameters))


def _far_from_kind(histories: Sequence[RobotHistory], common: Hierarchy, pulls: FloatArray) -> FloatArray:
    """Return how far each robot is from the middle one along each pull, over sigma, (n, k).

    x - mu = M g with covariance D + S, solved for each g alone.
    """
    size, sigma = np.zeros((2, len(histories), len(pulls)))
    for i, h in enumerate(histories):
        weight = np.linalg.solve(h.estimate.covariance + np.diag(common.between**2), pulls.T).T
        known = (weight * pulls).sum(axis=1)
        size[i], sigma[i] = weight @ (h.estimate.values - common.common) / known, known**-0.5
    z = (size - np.median(size, axis=0)) / sigma
    return np.abs(z) / np.maximum(robust_scale(z), 1.0)


def _spread(history: RobotHistory, period: int | None) -> tuple[str, ...]:
    """Return logs of a robot to diagnose: some spread over time, and one of a period that is strange."""
    others = [k for k in range(len(history.logs)) if k != period]
    few = {others[k] for k in np.round(np.linspace(0, len(others) - 1, LOOKED_AT)).astype(int)} if others else set()
    return tuple(history.logs[k][0] for k in [*([] if period is None else [period]), *sorted(few)])


def mistakes_of(work: tuple[Job, tuple[str, ...], Kind | None]) -> list[tuple[str, str, str]]:
    """Return name, words and advice of the mistakes that logs of one robot show, beside a kind or by themselves."""
    job, logs, kind = work
    model, _ = robot_of(job)
    recordings = [looked_at(log) for log in logs]
    if kind is not None:
        evidence = evidence_from(model, recordings, (), _settings(job))
        if best_hypothesis(evidence)[1].hypothesis is None:
            return mistake_beside(evidence, kind)
    return [(m.name, m.text, m.advice) for m in diagnose(model, recordings, _settings(job)).mistakes]


def mistake_beside(evidence: Evidence, kind: Kind) -> list[tuple[str, str, str]]:
    """Return the mistake that explains a robot best, if its parameters are like those of its kind.

    The score tests of the diagnosis with what is known of the kind as further equations: then a mistake cannot hide in
    the parameters. Those that explain as much are named with it.
    """
    standing = Standing(evidence)
    problem = score_problem(evidence.views, standing.columns, standing.noise)
    L, known = kind.equations(evidence.base.names)
    k, labels = len(known), problem.stretch.max() + 1 + np.arange(len(known))
    scores = Scores(ScoreProblem(
        regressor=np.concatenate([problem.regressor, L]), target=np.concatenate([problem.target, known]),
        columns=np.concatenate([problem.columns, np.zeros((k, problem.columns.shape[1]))]),
        stretch=np.concatenate([problem.stretch, labels])))
    fits = [(s, scores.fit(columns)) for s in standing.suspicions
            if (columns := [c for c in s.columns if scores.seen[c] > LEAST_SEEN])]
    fits = [(s, f) for s, f in fits if not (s.direction.positive and f.size[0] <= 0)
            and float(np.max(np.abs(f.size) / np.maximum(f.sigma, 1e-300))) > 3]
    if not fits:
        return []
    best, fitted = max(fits, key=lambda pair: pair[1].share)
    near = CLOSE * fitted.inflation / scores.power()
    alike = dict.fromkeys(f"{s.direction.name} of {s.place}" for s, f in fits
                          if s is not best and fitted.share - f.share < near)
    text = words(best, fitted.size, fitted.sigma, evidence)
    return [(best.direction.name, f"{text}; it may also be {' or '.join(alike)}" if alike else text,
             best.direction.advice_at(evidence.views[0], best.place, fitted.size))]
