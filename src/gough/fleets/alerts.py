"""What is wrong with which robot of a fleet: drifts, drives, periods and robots that stand out
beside the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import NamedTuple

import numpy as np

from gough.core.arrays import FloatArray
from gough.core.documents import parse_json
from gough.core.errors import GoughError
from gough.core.executors import Executor
from gough.core.names import Parameter
from gough.core.notices import Notice
from gough.core.statistics import normal_quantile, robust_scale, robust_scores, student_quantile
from gough.engine import Model
from gough.fitting.scores import LEAST_SEEN, Fitted, ScoreProblem, Scores
from gough.fleets.hierarchy import Drifts, Hierarchy, hierarchy
from gough.fleets.history import DAY, RobotHistory, date_of
from gough.identification.many_logs import looked_at
from gough.logs.recording import Recording
from gough.processing.many_logs import Job, name_of, robot_of
from gough.verdict.diagnosis.diagnose import DiagnoseSettings, diagnose, evidence_from
from gough.verdict.diagnosis.directions import Suspicion, suspicions_of, words
from gough.verdict.diagnosis.evidence import Evidence, corrected
from gough.verdict.diagnosis.hypotheses import best_hypothesis
from gough.verdict.diagnosis.search import (
    CLOSE,
    ROUNDS,
    SMALL,
    Standing,
    fit_together,
    possible,
    score_problem,
)

PULLING = ("gain", "encoder offset", "encoder scale")  # directions that robots are compared along
FEWEST = 5  # robots from which on one can be unlike the others
# logs of a robot that its diagnosis looks at, beside one of the period that is strange
LOOKED_AT = 3


class Alert(NamedTuple):
    """One thing about one robot that somebody should look at: `drift`, `mistake` or `strange`."""

    robot: str
    kind: str
    text: str
    advice: str = ""


def drifting(
    histories: Sequence[RobotHistory], drift: Drifts | None, trending: Sequence[str]
) -> list[Alert]:
    """Return the drifts that are more than chance, the surest first."""
    found: list[tuple[float, Alert]] = []
    for h in histories:
        if drift is None or h.trend is None:
            continue
        p, e = drift.p[trending.index(h.robot)], h.estimate
        for k in np.flatnonzero(drift.found[trending.index(h.robot)]):
            change, std = h.trend.change[k], h.trend.std[k]
            part = (
                f" ({100 * change / abs(e.values[k]):+.0f} %)"
                if abs(e.values[k]) > 2 * abs(e.std[k])
                else ""
            )
            found.append(
                (
                    float(p[k]),
                    Alert(
                        h.robot,
                        "drift",
                        f"{e.parameters[k]} changes by {change:+.3g} +- {std:.2g} "
                        f"{e.units[k]}{part} in "
                        f"{float(np.ptp(h.starts)) / DAY:.0f} days (p = {p[k]:.1g})",
                        "look at bearings, seals, belts and brakes of this joint",
                    ),
                )
            )
    return [alert for _, alert in sorted(found, key=lambda item: item[0])]


class Kind(NamedTuple):
    """What robots of a kind are usually like: parameters, their values and the scatter of one robot
    about them.
    """

    parameters: tuple[Parameter, ...]
    values: FloatArray
    std: FloatArray


def strange(
    histories: Sequence[RobotHistory],
    common: Hierarchy,
    job: Job,
    level: float,
    diagnosed: int,
    executor: Executor,
) -> tuple[list[Alert], list[Notice]]:
    """Return robots and periods that stand out, with what explains it, and periods that nothing
    explains.

    A robot stands out by what the model leaves of its efforts, or by parameters that are far from
    those of the kind in a direction that a wrong drive or encoder pulls them; a period by what the
    model leaves.
    """
    logs = [np.log(np.maximum(h.residual, np.finfo(float).tiny)) for h in histories]
    middle = np.array([np.median(own, axis=0) for own in logs])  # (n, r)
    within = np.concatenate([own - m for own, m in zip(logs, middle)])
    period_z = np.split(
        robust_scores(within).max(axis=1), np.cumsum([len(own) for own in logs])[:-1]
    )
    # a median of T periods scatters by sqrt(pi / 2 T) of one; the scatter of a few robots may look
    # smaller by chance
    least = robust_scale(within) * np.sqrt(np.pi / 2 * len(histories) / len(within))
    robot_z = robust_scores(middle, least).max(axis=1)
    usual = histories[
        int(np.argsort(robot_z)[len(robot_z) // 2])
    ]  # what it shows too is no robot's own
    pulls = pulls_of(job, _spread(usual, None), usual.estimate.parameters)
    common, far = kind_and_others(histories, common, pulls, level)
    limit = normal_quantile(1 - level / (sum(own.size for own in logs) + middle.size))
    found: list[tuple[float, int, int | None, str]] = []
    for i, (z, own) in enumerate(zip(robot_z, period_z)):
        if z > limit:
            found.append((z, i, None, "the model leaves more than elsewhere in all its logs"))
        elif i in far:
            found.append((far[i], i, None, "its parameters are not those of the other robots"))
        elif len(own) and own.max() > limit:
            t, h = int(own.argmax()), histories[i]
            found.append(
                (
                    own[t],
                    i,
                    t,
                    f"the model leaves more than elsewhere on {date_of(h.starts[t])[:10]} "
                    f"({name_of(h.logs[t][0])})",
                )
            )
    found.sort(key=lambda item: -item[0])
    kind = Kind(usual.estimate.parameters, common.common, _one_robot(common))
    tasks = [
        (job, _spread(usual, None), None),
        *(
            (job, _spread(histories[i], t), kind if t is None else None)
            for _, i, t, _ in found[:diagnosed]
        ),
    ]
    answers = dict(executor.run(mistakes_of, tasks)) if found and diagnosed else {}
    first = answers.get(0)
    shared = {name for name, *_ in first} if isinstance(first, list) else set()
    alerts, notices = list[Alert](), list[Notice]()
    for n, (z, i, when, what) in enumerate(found, start=1):
        answer, text, robot = answers.get(n), f"{what}, {z:.1f} sigma", histories[i].robot
        said = answer if isinstance(answer, list) else []
        named = [m for m in dict.fromkeys(said) if m[0] not in shared]
        alerts += [
            Alert(robot, "mistake", f"{text}: {says}", advice) for _, says, advice in named[:2]
        ]
        why = (
            "not diagnosed"
            if answer is None
            else "no usual mistake explains it"
            if answer is said
            else str(answer)
        )
        if not named and when is None:
            alerts.append(Alert(robot, "strange", f"{text}: {why}"))
        elif not named:  # one bad log is no reason to send somebody to a robot
            notice = Notice(rule="strange", level="info", where=robot, text=f"{text}: {why}")
            notices.append(notice)
    return alerts, notices


def _logs_of(job: Job, logs: Sequence[str]) -> tuple[Model, list[Recording], DiagnoseSettings]:
    """Return the robot, its logs, and how a diagnosis looks at them."""
    settings = DiagnoseSettings(
        tie_legs=job.tie_legs, gains=parse_json(job.gains), processing=job.settings
    )
    return robot_of(job)[0], [looked_at(log) for log in logs], settings


def pulls_of(job: Job, logs: Sequence[str], parameters: Sequence[Parameter]) -> FloatArray:
    """Return the change of an estimate by wrong drives and encoders of a unit, (k, p); all of a
    kind move alike.
    """
    model, recordings, settings = _logs_of(job, logs)
    evidence = evidence_from(model, recordings, (), settings)
    standing = Standing(
        evidence, only=[s for name in PULLING for s in suspicions_of(evidence, name)]
    )
    names = evidence.base.names
    place = [names.index(name) if name in names else len(names) for name in parameters]
    taken = [
        np.append(standing.scores.taken_in(s.columns[0]), 0.0)[place] for s in standing.suspicions
    ]
    return np.array([pull for pull in taken if pull.any()]).reshape(-1, len(parameters))


def kind_and_others(
    histories: Sequence[RobotHistory], kind: Hierarchy, pulls: FloatArray, level: float
) -> tuple[Hierarchy, dict[int, float]]:
    """Return what most robots have in common, and those that are far from it with their distance in
    sigmas.

    The farthest robot is taken out, the common part of the others found again, and so on up to a
    quarter of the fleet; all until the last one that is far from those left after it are far
    (Rosner 1983, generalised ESD). So several wrong robots do not hide each other. The scatter is
    that of a few robots: Student's t. They are compared along pulls, (k, p), at a chance of naming
    one of a fleet in which all are alike.
    """
    values, covariances = (
        np.array([getattr(h.estimate, name) for h in histories])
        for name in ("values", "covariance")
    )
    inside = list(range(len(histories)))
    far, last, best = dict[int, float](), 0, kind
    for k in range(max(1, len(histories) // 4) if len(histories) > FEWEST and len(pulls) else 0):
        worst = inside[int(np.argmax(_distances(values, covariances, kind, pulls, inside)[inside]))]
        inside.remove(worst)
        kind = hierarchy(values[inside], covariances[inside])
        far[worst] = float(_distances(values, covariances, kind, pulls, inside)[worst])
        tests = 2 * len(pulls) * (len(inside) + 1)
        if far[worst] > student_quantile(1 - level / tests, len(inside) - 1):
            last, best = k + 1, kind
    return best, dict(list(far.items())[:last])


def _one_robot(kind: Hierarchy) -> FloatArray:
    """Return the scatter of one robot about the common part, with the doubt about the latter,
    (p,).
    """
    return np.hypot(kind.between, kind.common_std)


def _distances(
    values: FloatArray,
    covariances: FloatArray,
    kind: Hierarchy,
    pulls: FloatArray,
    inside: Sequence[int],
) -> FloatArray:
    """Return how far robots are from a kind along the pull that takes each farthest, over sigma,
    (n,).

    x - mu = M g with covariance S + D + that of mu, solved for each g alone. D is diagonal and
    robots need not be: sigma is at least what the robots inside scatter.
    """
    spread = covariances + np.diag(_one_robot(kind) ** 2)
    weight = np.linalg.solve(
        spread, np.broadcast_to(pulls.T, (len(values), *pulls.T.shape))
    )  # (n, p, k)
    known = np.sqrt(np.einsum("npk,kp->nk", weight, pulls))
    score = np.einsum("npk,np->nk", weight, values - kind.common) / known
    return np.asarray(
        np.max(np.abs(score) / np.maximum(score[inside].std(axis=0, ddof=1), 1.0), axis=1)
    )


def _spread(history: RobotHistory, period: int | None) -> tuple[str, ...]:
    """Return logs of a robot to diagnose: some spread over time, and one of a period that is
    strange.
    """
    others = [k for k in range(len(history.logs)) if k != period]
    few = (
        {others[k] for k in np.round(np.linspace(0, len(others) - 1, LOOKED_AT)).astype(int)}
        if others
        else set()
    )
    return tuple(history.logs[k][0] for k in [*([] if period is None else [period]), *sorted(few)])


def mistakes_of(work: tuple[Job, tuple[str, ...], Kind | None]) -> list[tuple[str, str, str]]:
    """Return name, words and advice of the mistakes that logs of one robot show, beside a kind or
    by themselves.
    """
    job, logs, kind = work
    model, recordings, settings = _logs_of(job, logs)
    if kind is not None:
        with suppress(
            GoughError
        ):  # the diagnosis tries other signs, channels and units where loops do not close
            evidence = evidence_from(model, recordings, (), settings)
            if best_hypothesis(evidence) is None:
                return mistake_beside(evidence, kind)
    return [(m.name, m.text, m.advice) for m in diagnose(model, recordings, settings).mistakes]


def mistake_beside(evidence: Evidence, kind: Kind) -> list[tuple[str, str, str]]:
    """Return the mistake that explains a robot best, if its parameters are like those of its kind.

    Those that explain as much are named with it. Its size is found again on logs without it until
    it stays.
    """
    fits, near = _fitted_beside(evidence, kind)
    if not fits:
        return []
    best, fitted = max(fits, key=lambda pair: pair[1].share)
    alike = dict.fromkeys(
        f"{s.direction.name} of {s.place}"
        for s, f in fits
        if s is not best and fitted.share - f.share < near * fitted.inflation
    )
    size = fitted.size
    for _ in range(ROUNDS if best.direction.undo is not None else 0):
        without = corrected(evidence, partial(best.undo, size=size))
        step = [] if without is None else _fitted_beside(without, kind, [best])[0]
        if not step:
            break
        size, fitted = size + step[0][1].size, step[0][1]
        if (np.abs(fitted.size) <= SMALL * fitted.sigma).all():
            break
    text = words(best, size, fitted.sigma, evidence.views[0])
    return [
        (
            best.direction.name,
            f"{text}; it may also be {' or '.join(alike)}" if alike else text,
            best.direction.advice_at(evidence.views[0], best.place, size),
        )
    ]


def _fitted_beside(
    evidence: Evidence, kind: Kind, only: Sequence[Suspicion] | None = None
) -> tuple[list[tuple[Suspicion, Fitted]], float]:
    """Return suspicions with their sizes, and the share of what is left below which two cannot be
    told apart.

    The score tests of the diagnosis with what is known of the kind as further equations: then a
    mistake cannot hide in the parameters. Of all suspicions, only those that are `possible`.
    """
    standing, names = Standing(evidence, only=only), evidence.base.names
    problem = score_problem(evidence.views, standing.columns, standing.noise)
    own = [k for k, name in enumerate(kind.parameters) if name in names]
    L, known = (
        np.zeros((len(own), len(names))),
        kind.values[own] / kind.std[own],
    )  # whitened, L chi = known
    L[np.arange(len(own)), [names.index(kind.parameters[k]) for k in own]] = 1 / kind.std[own]
    scores = Scores(
        ScoreProblem(
            regressor=np.concatenate([problem.regressor, L]),
            target=np.concatenate([problem.target, known]),
            columns=np.concatenate(
                [problem.columns, np.zeros((len(known), problem.columns.shape[1]))]
            ),
            stretch=np.concatenate(
                [problem.stretch, problem.stretch.max() + 1 + np.arange(len(known))]
            ),
        )
    )
    fits = [
        (s, fit_together(scores, [s]))
        for s in standing.suspicions
        if max(scores.seen[list(s.columns)]) > LEAST_SEEN
    ]
    if only is None:
        fits = [pair for pair in fits if possible(*pair)]
    return fits, CLOSE / scores.power()
