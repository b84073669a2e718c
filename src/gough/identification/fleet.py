"""Many robots of one kind over months of ordinary logs: who differs, what drifts, what is wrong with whom."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from gough.core.arrays import FloatArray
from gough.core.blas import one_blas_thread
from gough.core.documents import parse_json
from gough.core.errors import GoughError, InvalidInput, NotIdentifiable
from gough.core.executors import Executor, InProcess
from gough.core.factors import Factor, load_factor, merge_all
from gough.core.names import Parameter
from gough.core.options import Settings, nested, option, settle, takes
from gough.core.statistics import normal_quantile
from gough.engine import Model
from gough.engine.base import TIE_LEGS
from gough.estimators.estimate import Estimate
from gough.estimators.fleet.drift import Drifts, Trend, drifts, trend
from gough.estimators.fleet.hierarchy import Hierarchy, hierarchy
from gough.estimators.linear.least_squares import WeightedLeastSquares
from gough.identification.diagnosis.diagnose import diagnose
from gough.identification.many import FactorSettings, frozen_job, looked_at, sample_of
from gough.mechanism import load_robot
from gough.processing import Processing
from gough.processing.factors import Collected, Job, collect, name_of, robot_of

DAY = 86400.0  # [s]
LIKELY = 1e-4  # chance of a trend below which a robot's residual is taken about its line instead of its mean
LOOKED_AT = 3  # logs of a robot that its diagnosis looks at, beside one of the period that is strange
FAR = 6.0  # robust standard deviations from which on a period is no part of a robot's usual behaviour
MAD = 1.4826  # standard deviation over median |deviation| of Gaussian noise
UNTOLD = 0.3  # smallest drift over value beyond which ordinary motion is said to tell little


@dataclass(frozen=True, kw_only=True)
class FleetSettings(Settings):
    """How the logs of a fleet are looked at."""

    period: float = option(1.0, "Time over which parameters are taken as constant.", unit="d", above=0)
    level: float = option(0.01, "Chance of naming any drift in the fleet although nothing drifts.", above=0)
    tie_legs: bool = option(False, TIE_LEGS)
    gains: Mapping[str, float] | None = option(
        None, "Drive gains, motor=value; the robot file's by default.", unit="N or N m per recorded unit", above=0)
    diagnosed: int = option(6, "Robots to diagnose at most, the strangest first.", least=0)
    processing: Processing = nested(Processing)
    many: FactorSettings = nested(FactorSettings)


@dataclass(frozen=True, kw_only=True)
class FleetLog:
    """One log of a fleet.

    Args:
        path: The file, `log.csv@its.toml` with a description of its own.
        robot: Which robot.
        time: When it was recorded. [s since 1970, UTC]
        temperature: Of the robot; not a number where it was not recorded. [K or degC, the same for all]
    """

    path: str
    robot: str
    time: float
    temperature: float = float("nan")


@dataclass(frozen=True, kw_only=True, eq=False)
class RobotHistory:
    """One robot over time.

    Args:
        robot: Its name.
        estimate: From all its logs.
        starts: Of its periods, (t,). [s since 1970]
        temperature: Mean of the logs of each period, (t,).
        values, std, noise_std: Of the parameters in each period, sigma by scatter and by noise alone, (t, p).
        residual: Root mean square of what its own line or mean leaves, (t, r). [row unit]
        gain, gain_std: By how much the effort of each row is larger than the other rows allow, (r,). [1]
        pull: Change of the estimate with the gain of each row, (r, p).
        trend: Lines over time, or None where there are too few periods; periods that stand out are not in them.
        logs: Paths of each period.
        notes: Periods that say too little.
    """

    robot: str
    estimate: Estimate
    starts: FloatArray
    temperature: FloatArray
    values: FloatArray
    std: FloatArray
    noise_std: FloatArray
    residual: FloatArray
    gain: FloatArray
    gain_std: FloatArray
    pull: FloatArray
    trend: Trend | None
    logs: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Alert:
    """One thing about one robot that somebody should look at: `drift`, `mistake` or `strange`."""

    robot: str
    kind: str
    text: str
    advice: str = ""


@dataclass(frozen=True, kw_only=True, eq=False)
class Fleet:
    """What the logs of a fleet tell.

    Args:
        kind: Name of the robots' kind.
        parameters, units: Names and units, (p,).
        histories: Each robot over time, by name.
        common: Common part and deviations, in the order of the histories.
        drift: Which trends are more than chance; rows are the robots in `trending`.
        trending: Robots that have trends.
        alerts: What to look at, the surest first.
        level: Chance of a false drift.
        notes: Logs that were left out or counted once.
        told: What ordinary motion tells of each parameter, in words.
    """

    kind: str
    parameters: tuple[Parameter, ...]
    units: tuple[str, ...]
    histories: tuple[RobotHistory, ...]
    common: Hierarchy
    drift: Drifts | None
    trending: tuple[str, ...]
    alerts: tuple[Alert, ...]
    level: float
    notes: tuple[str, ...]
    told: tuple[str, ...]

    def drift_of(self, robot: str) -> int | None:
        """Return the row of a robot in `drift`, or None."""
        return self.trending.index(robot) if robot in self.trending else None

    def tables(self) -> dict[str, dict[str, list[Any]]]:
        """Return all numbers as columns of four tables: `common`, `robots`, `periods`, `alerts`."""
        c, robots, periods = self.common, _Columns(), _Columns()
        for i, h in enumerate(self.histories):
            row = self.drift_of(h.robot)
            for k, (name, unit) in enumerate(zip(self.parameters, self.units)):
                trends: dict[str, Any] = dict.fromkeys(
                    ("drift", "drift_std", "drift_p", "drift_found", "smallest_drift", "per_kelvin", "per_kelvin_std"))
                if row is not None and h.trend is not None and self.drift is not None:
                    warm = bool(h.trend.temperature_std[k])
                    trends = {"drift": h.trend.change[k], "drift_std": h.trend.std[k], "drift_p": self.drift.p[row, k],
                              "drift_found": bool(self.drift.found[row, k]), "smallest_drift": self.drift.least[row, k],
                              "per_kelvin": h.trend.temperature[k] if warm else None,
                              "per_kelvin_std": h.trend.temperature_std[k] if warm else None}
                robots.add(robot=h.robot, parameter=str(name), unit=unit, value=c.values[i, k], std=c.std[i, k],
                           alone=h.estimate.values[k], alone_std=h.estimate.std[k],
                           deviation=c.values[i, k] - c.common[k], own_share=c.own[i, k], **trends)
                for t, start in enumerate(h.starts):
                    periods.add(robot=h.robot, start=_date(start), parameter=str(name), unit=unit,
                                value=h.values[t, k], std=h.std[t, k], temperature=_known(h.temperature[t]),
                                logs=len(h.logs[t]), worst_residual=h.residual[t].max())
        common = {"parameter": [str(name) for name in self.parameters], "unit": list(self.units),
                  "value": c.common.tolist(), "std": c.common_std.tolist(), "between_robots": c.between.tolist(),
                  "told": list(self.told)}
        found = {name: [getattr(w, name) for w in self.alerts] for name in ("robot", "kind", "text", "advice")}
        return {"common": common, "robots": robots.columns, "periods": periods.columns, "alerts": found}

    def to_dict(self) -> dict[str, Any]:
        """Return the documented JSON form; the period table stays in its file."""
        tables = self.tables()
        rows = {name: [dict(zip(tables[name], row)) for row in zip(*tables[name].values())]
                for name in ("alerts", "common")}
        return {"kind": self.kind, "robots": len(self.histories), "level": self.level, **rows,
                "notes": list(self.notes)}

    def summary(self) -> str:
        """Return the fleet as plain text, alerts first."""
        logs = sum(len(own) for h in self.histories for own in h.logs)
        periods = sum(len(h.starts) for h in self.histories)
        lines = [f"{len(self.histories)} robots '{self.kind}', {periods} periods, {logs} logs: "
                 f"{len({w.robot for w in self.alerts}) or 'none'} to look at"]
        lines += [f"  {w.robot}: {w.text}" + (f"; {w.advice}" if w.advice else "") for w in self.alerts]
        lines += ["", f"The chance of any false drift among them is {100 * self.level:g} %.",
                  "What ordinary motion tells of each parameter:"]
        lines += [f"  {name}: {text}" for name, text in zip(self.parameters, self.told)]
        return "\n".join([*lines, *(["", *self.notes] if self.notes else [])])


class _Columns:
    def __init__(self) -> None:
        self.columns: dict[str, list[Any]] = {}

    def add(self, **row: Any) -> None:
        for name, value in row.items():
            self.columns.setdefault(name, []).append(value.item() if isinstance(value, np.generic) else value)


def _date(seconds: float) -> str:
    return datetime.fromtimestamp(float(seconds), UTC).isoformat()


def _known(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


@takes(FleetSettings)
def fleet(robot: str, logs: Sequence[FleetLog], settings: FleetSettings | None = None, *,
          progress: Callable[[float], None] | None = None, **options: Any) -> Fleet:
    """Look at the logs of many robots of one kind, recorded in ordinary motion over time.

    Every log becomes a factor. From these: parameters of each robot in each period; the common part and each robot's
    deviation (`hierarchy`); straight lines over time, apart from temperature where it is known, tested all together
    (`drifts`); the residual of each robot and period beside the others, and the diagnosis of those that stand out.

    Args:
        robot: Name or path of the robot file of the kind.
        logs: Whose, when, how warm.
        settings: How; single options may be given by name instead.
        progress: Called with the fraction done, over all workers.
        options: See `FleetSettings`.

    Raises:
        InvalidInput: Fewer than three robots.
        InvalidRecording: Logs that cannot be used, all of them named, unless they are to be skipped.
    """
    chosen = settle(FleetSettings, settings, options)
    tell, model = progress or (lambda fraction: None), Model(load_robot(robot))
    paths = [log.path for log in logs]
    job = frozen_job(robot, model, sample_of(model, paths), chosen.processing, gains=chosen.gains,
                     tie_legs=chosen.tie_legs)
    work = chosen.many.work
    collected = collect(job, paths, chosen.many.folder, work.executor, bad=chosen.many.bad,
                        progress=lambda fraction: tell(0.05 + 0.6 * fraction))
    tasks = _tasks(collected, logs, chosen.period)
    reducer = InProcess() if work.cluster is not None else work.executor  # factors are here, not on the cluster
    found: dict[int, RobotHistory] = {}
    notes = list(collected.notes)
    for k, result in reducer.run(history_of, tasks):
        if isinstance(result, RobotHistory):
            found[k] = result
        elif isinstance(result, GoughError):
            notes.append(f"left out: all of {tasks[k].robot}: {result}")
        else:
            raise result
        tell(0.65 + 0.2 * len(found) / len(tasks))
    histories = tuple(found[k] for k in sorted(found))
    if len(histories) < 3:
        raise InvalidInput(f"{len(histories)} robots have logs that can be used, expected three or more: " +
                           "; ".join(notes[:4]), robots=len(histories))
    notes += [note for h in histories for note in h.notes]
    common = hierarchy(np.array([h.estimate.values for h in histories]),
                       np.array([h.estimate.covariance for h in histories]))
    trends = {h.robot: h.trend for h in histories if h.trend is not None}
    drift = drifts(list(trends.values()), chosen.level) if trends else None
    tell(0.9)
    strange, odd = _strange(histories, common, job, chosen, work.executor)
    notes += odd
    alerts = [*_drifting(histories, drift, tuple(trends), chosen.level), *strange]
    names = histories[0].estimate.parameters
    return Fleet(kind=model.mechanism.name, parameters=names, units=histories[0].estimate.units, histories=histories,
                 common=common, drift=drift, trending=tuple(trends), alerts=tuple(alerts), level=chosen.level,
                 notes=tuple(notes), told=_told(common, drift, len(names)))


@dataclass(frozen=True, kw_only=True)
class _Task:
    """The factors of one robot by period."""

    robot: str
    folder: str
    starts: tuple[float, ...]
    temperature: tuple[float, ...]
    logs: tuple[tuple[str, ...], ...]
    keys: tuple[tuple[str, ...], ...]


def _tasks(collected: Collected, logs: Sequence[FleetLog], period: float) -> list[_Task]:
    """Return the logs that count by robot and period; of copies only the first counts."""
    length, groups = period * DAY, dict[str, dict[int, list[FleetLog]]]()
    for log in sorted({log.path: log for log in logs if log.path in collected.keys}.values(), key=lambda log: log.path):
        groups.setdefault(log.robot, {}).setdefault(int(log.time // length), []).append(log)
    return [_Task(robot=robot, folder=str(collected.folder), starts=tuple(k * length for k in sorted(own)),
                  temperature=tuple(float(np.mean([log.temperature for log in own[k]])) for k in sorted(own)),
                  logs=tuple(tuple(log.path for log in own[k]) for k in sorted(own)),
                  keys=tuple(tuple(collected.keys[log.path] for log in own[k]) for k in sorted(own)))
            for robot, own in sorted(groups.items())]


@one_blas_thread
def history_of(task: _Task) -> RobotHistory:
    """Return one robot over time, from its factors alone."""
    estimator, factors, kept = WeightedLeastSquares(), [], []
    estimates: list[Estimate] = []
    notes = []
    for k, keys in enumerate(task.keys):
        factor = merge_all([partial(load_factor, Path(task.folder) / f"{key}.npz") for key in keys])
        factors.append(factor)
        try:
            estimates.append(estimator.fit(factor.condensed))
            kept.append(k)
        except NotIdentifiable as error:
            notes.append(f"{task.robot}, {_date(task.starts[k])}: says too little by itself: {error}")
    usual = np.ones(len(kept), bool)
    for _ in range(2):  # once more without periods that stand out: they are no part of what is usual
        every = merge_all([partial(_itself, factors[k]) for k, here in zip(kept, usual) if here])
        whole = estimator.fit(every.condensed)
        values, std, noise = (np.array([getattr(e, name) for e in estimates]).reshape(-1, len(whole))
                              for name in ("values", "std", "white_std"))
        starts, warm = np.array(task.starts)[kept], np.array(task.temperature)[kept]
        line = trend(starts[usual], values[usual], noise[usual], warm[usual])
        about = np.broadcast_to(whole.values, values.shape).copy()
        if line is not None:
            moving = line.p < LIKELY
            lines = np.asarray(line.fitted - line.fitted.mean(axis=0))
            about[np.ix_(usual, moving)] += lines[:, moving]
        residual = np.array([factors[k].condensed.residual(own).rms for k, own in zip(kept, about)])
        far = _robust(np.log(np.maximum(residual, np.finfo(float).tiny))).max(axis=1) > FAR
        if not far.any() or not usual.all() or 2 * far.sum() >= len(far):
            break
        usual = ~far
    gain, gain_std, pull = _gains(every, whole)
    return RobotHistory(robot=task.robot, estimate=whole, starts=starts, temperature=warm, values=values, std=std,
                        noise_std=noise, residual=residual, gain=gain, gain_std=gain_std, pull=pull,
                        trend=line, logs=tuple(task.logs[k] for k in kept), notes=tuple(notes))


def _itself(factor: Factor) -> Factor:
    return factor


def _gains(factor: Factor, estimate: Estimate) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return gain, sigma and pull of each row; see `RobotHistory`.

    One more column: the row's own predicted effort W_j chi, zero in the other rows; all rows over their residual. The
    estimate moves with a gain by (W^T W)^-1 W_j^T W_j chi; of all rows together that is chi.
    """
    A = factor.condensed.factors / np.maximum(estimate.residual_rms, np.finfo(float).tiny)[:, None, None]
    r, k, c = A.shape
    found = np.zeros((2, r))
    for j in range(r):
        more = np.zeros((r, k, 1))
        more[j, :, 0] = A[j, :, :-1] @ estimate.values
        wide = np.concatenate([A[:, :, :-1], more, A[:, :, -1:]], axis=2).reshape(r * k, c + 1)
        R = np.asarray(np.linalg.qr(wide, mode="r"))
        found[:, j] = R[c - 1, c] / R[c - 1, c - 1], 1 / abs(R[c - 1, c - 1])
    share = np.einsum("rki,rkj,j->ri", A[:, :, :-1], A[:, :, :-1], estimate.values, optimize=True)
    total = np.einsum("rki,rkj->ij", A[:, :, :-1], A[:, :, :-1], optimize=True)
    return found[0], found[1], np.linalg.solve(total, share.T).T


def _told(common: Hierarchy, drift: Drifts | None, count: int) -> tuple[str, ...]:
    """Say what ordinary motion tells of each parameter: the drift it would show, and whose value it is."""
    words = []
    for k in range(count):
        size = max(abs(common.common[k]), np.finfo(float).tiny)
        own = float(np.median(common.own[:, k]))
        least = np.inf if drift is None else float(np.median(drift.least[:, k])) / size
        seen = (f"a drift of {100 * least:.2g} % would be found" if least < UNTOLD else
                "ordinary motion does not show whether it drifts" if least > 1 else
                f"only a drift beyond {100 * least:.0f} % would be found")
        whose = "" if own > 0.5 else (f"; the value of a robot is mostly that of the kind ({100 * (1 - own):.0f} %)")
        words.append(seen + whose)
    return tuple(words)


def _drifting(histories: Sequence[RobotHistory], drift: Drifts | None, trending: Sequence[str],
              level: float) -> list[Alert]:
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


def _strange(histories: Sequence[RobotHistory], common: Hierarchy, job: Job, settings: FleetSettings,
             executor: Executor) -> tuple[list[Alert], list[str]]:
    """Return robots and periods whose residual stands out with what explains it, and periods that nothing explains."""
    logs = [np.log(np.maximum(h.residual, np.finfo(float).tiny)) for h in histories]
    middle = np.array([np.median(own, axis=0) for own in logs])  # (n, r)
    robot_z = _robust(middle).max(axis=1)
    period_z = np.split(_robust(np.concatenate([own - m for own, m in zip(logs, middle)])).max(axis=1),
                        np.cumsum([len(own) for own in logs])[:-1])
    tests = sum(own.size for own in logs) + 2 * middle.size
    limit = normal_quantile(1 - settings.level / tests)
    found: list[tuple[float, int, int | None]] = []
    beside, std = _gains_beside(histories, common)
    gain_z = np.abs(beside) / std
    alerts, notes = list[Alert](), list[str]()
    for i, (z, own) in enumerate(zip(robot_z, period_z)):
        j = int(gain_z[i].argmax())
        if gain_z[i, j] > limit:
            alerts.append(Alert(
                robot=histories[i].robot, kind="mistake", advice="check its current sensor, gear and drive gain",
                text=f"{histories[i].estimate.rows[j]}: effort is too {'large' if beside[i, j] > 0 else 'small'} by "
                     f"{100 * abs(beside[i, j]):.1f} +- {100 * std[i, j]:.1f} % beside the other robots "
                     f"({gain_z[i, j]:.1f} sigma)"))
        elif z > limit:  # which a wrong drive explains
            found.append((float(z), i, None))
        elif len(own) and own.max() > limit:
            found.append((float(own.max()), i, int(own.argmax())))
    found.sort(key=lambda item: -item[0])
    usual = int(np.argsort(robot_z)[len(robot_z) // 2])  # what it shows too is no robot's own
    tasks = [(job, _spread(histories[i], t)) for _, i, t in [(0.0, usual, None), *found[:settings.diagnosed]]]
    answers = dict(executor.run(mistakes_of, tasks)) if found and settings.diagnosed else {}
    shared = {name for name, *_ in answers.get(0, [])} if isinstance(answers.get(0), list) else set()
    for n, (z, i, t) in enumerate(found, start=1):
        h = histories[i]
        when = "in all its logs" if t is None else f"on {_date(h.starts[t])[:10]} ({name_of(h.logs[t][0])})"
        text = f"the model leaves more than elsewhere {when}, {z:.1f} sigma"
        own = answers.get(n, [])
        named = [m for m in dict.fromkeys(own) if m[0] not in shared] if isinstance(own, list) else []
        alerts += [Alert(robot=h.robot, kind="mistake", text=f"{text}: {what}", advice=advice)
                     for _, what, advice in named[:2]]
        if not named and (t is not None or not any(alert.robot == h.robot for alert in alerts)):
            why = str(own) if isinstance(own, GoughError) else "no usual mistake explains it" if n in answers else \
                "not diagnosed"
            if t is None:
                alerts.append(Alert(robot=h.robot, kind="strange", text=f"{text}: {why}"))
            else:  # one bad log is no reason to send somebody to a robot
                notes.append(f"{h.robot}: {text}: {why}")
    return alerts, notes


def _gains_beside(histories: Sequence[RobotHistory], common: Hierarchy) -> tuple[FloatArray, FloatArray]:
    """Return by how much the effort of each row of each robot is too large, and sigma, (n, r) each.

    What the rows of a robot say of each other, and how far its estimate is from the kind along the pull of a gain,
    x - mu = M g with covariance D + S: independent of each other, so their information adds up.
    """
    size, sigma = [], []
    for h in histories:
        weight = np.linalg.inv(h.estimate.covariance + np.diag(common.between**2))
        known = np.einsum("rp,pq,rq->r", h.pull, weight, h.pull) + h.gain_std**-2
        sums = h.pull @ weight @ (h.estimate.values - common.common) + h.gain / h.gain_std**2
        size.append(sums / known)
        sigma.append(known**-0.5)
    gap, std = np.array(size) - np.median(size, axis=0), np.array(sigma)
    return gap, std * np.maximum(MAD * np.median(np.abs(gap / std), axis=0), 1.0)


def _robust(values: FloatArray) -> FloatArray:
    """Return values in robust standard deviations from their median, column by column, (n, r)."""
    gap = values - np.median(values, axis=0)
    return np.asarray(gap / np.maximum(MAD * np.median(np.abs(gap), axis=0), np.finfo(float).tiny))


def _spread(history: RobotHistory, period: int | None) -> tuple[str, ...]:
    """Return logs of a robot to diagnose: some spread over time, and one of a period that is strange."""
    others = [k for k in range(len(history.logs)) if k != period]
    few = {others[k] for k in np.round(np.linspace(0, len(others) - 1, LOOKED_AT)).astype(int)} if others else set()
    return tuple(history.logs[k][0] for k in [*([] if period is None else [period]), *sorted(few)])


def mistakes_of(work: tuple[Job, tuple[str, ...]]) -> list[tuple[str, str, str]]:
    """Return name, words and advice of the mistakes that logs of one robot show."""
    job, logs = work
    model, _ = robot_of(job)
    found = diagnose(model, [looked_at(log) for log in logs], tie_legs=job.tie_legs, processing=job.settings,
                     gains=parse_json(job.gains))
    return [(m.name, m.text, m.advice) for m in found.mistakes]
