"""Real robots with defaults everywhere, beside the best of a grid of cut-offs and the figures that
came with the logs.

    python benchmarks/real_robots.py [tx40] [pendulum] [upv] [emps] [sigmas] [--small]
    python benchmarks/real_robots.py verdicts [upv] [pendulum] [emps] [dvrk] [tx40] [panda]

Errors are relative rms of the recorded, unfiltered effort of logs that were not identified from, in
percent; `counts` leaves out reversals and standstills as the processing does, `moving` is joints
faster than 0.05 rad/s. `sigmas` is the rms difference of estimates from parts of an experiment over
what both say. `verdicts` is what the verdict says, and for every cause that it names the error of
each log (or half) predicted from the others, without and with it. The logs are not part of the project: docs/real-robots.md says where they are from.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "real"))

import machines
from c_judge import c_errors, judged_log
from test_real_robots import TX40_ANCHOR, errors, fitted
from test_sigmas import estimates, rms_z

from gough.app.identify import identify
from gough.core.arrays import FloatArray
from gough.core.errors import GoughError
from gough.engine import Model, as_model
from gough.identification import IdentifySettings
from gough.identification.fit import FittedLogs, fit_logs
from gough.logs.checks import inspected
from gough.logs.readers import read_recording
from gough.logs.recording import Recording
from gough.processing import Processing
from gough.verdict.drift import drifting_efforts
from gough.verdict.explanation import Explanation
from gough.verdict.judge import evidence_of_fit, judge
from gough.verdict.naming import name_fault
from gough.verdict.odd_logs import log_errors
from gough.verdict.search import Search
from gough.verdict.stage import Stage

Row = tuple[str, str, str, str]
LEVELS = ("ok", "info", "warning", "error")
Split = tuple[str, list[Recording], Recording]  # name, logs to identify from, log to judge on
# Cut-off of the motion that the C code is judged with. [Hz]
JUDGED_CUTOFFS = {
    "tx40": 60.0,
    "pendulum": 5.0,
    "upv": 6.0,
    "emps": 50.0,
    "panda": 20.0,
    "dvrk": 10.0,
}
CANDIDATES = {
    "ls": IdentifySettings(estimator="ls"),
    "wls": IdentifySettings(estimator="wls"),
    "gm": IdentifySettings(estimator="gm"),
    "robust": IdentifySettings(estimator="robust"),
    "feasible": IdentifySettings(estimator="feasible"),
    "auto": IdentifySettings(estimator="auto"),
    "gm, terms added": IdentifySettings(estimator="gm", terms="auto"),
}


def halves(log: Recording) -> list[Split]:
    """Return each half of a log to identify from and the other one to judge on."""
    half = len(log) // 2
    first = log.take(slice(0, half))
    second = log.take(slice(half, None))
    return [("first half to second", [first], second), ("second half to first", [second], first)]


def left_out(logs: Sequence[Recording]) -> list[Split]:
    """Return each log to judge on and the others to identify from."""
    splits = []
    for k, log in enumerate(logs):
        others = [other for j, other in enumerate(logs) if j != k]
        splits.append((f"others to {Path(log.source).name}", others, log))
    return splits


def splits_of(robot: str) -> tuple[Model, list[Split]]:
    """Return a robot and how its logs are divided."""
    if robot == "tx40":
        return machines.tx40(), halves(machines.tx40_log())
    if robot == "emps":
        return machines.emps(), halves(machines.emps_log())
    if robot == "pendulum":
        logs = [machines.pendulum_log(name) for name in machines.PENDULUM_LOGS]
        return machines.pendulum(), left_out(logs)
    if robot == "upv":
        return machines.upv(), left_out([machines.upv_log(run) for run in machines.UPV_RUNS])
    if robot == "panda":
        folder = machines.DATA / "panda_2019"
        return as_model(folder / "panda.toml"), halves(read_recording(folder / "train.csv.gz"))
    folder = machines.DATA / "dvrk_psm1"
    logs = [read_recording(folder / f"psm1_{k}.csv.gz") for k in range(1, 5)]
    return as_model(folder / "psm3.toml"), left_out(logs)


def held_out(
    robots: Sequence[str] = (), candidates: Mapping[str, IdentifySettings] = CANDIDATES
) -> Iterator[Row]:
    """Yield the errors of every candidate by the exported C code, over the same samples."""
    for robot in robots or JUDGED_CUTOFFS:
        model, splits = splits_of(robot)
        for name, logs, unseen in splits:
            judged = judged_log(model, inspected(unseen), JUDGED_CUTOFFS[robot])
            processing = Processing()
            for label, settings in candidates.items():
                settings = replace(settings, processing=processing)
                try:
                    result = fit_logs(model, logs, settings).identification
                except GoughError as error:
                    yield f"{robot}, {name}, {label}", "-", "-", f"{type(error).__name__}: {error}"
                    continue
                processing = result.processing  # the same for all candidates
                errors_of_code = c_errors(model, result, judged)
                remark = f"{result.estimator}, refused {errors_of_code.refused}"
                if settings.terms == "auto":
                    steps = [n for n in result.notices if n.rule == "terms" and n.where]
                    added = [f"{n.text.split(' was ')[0]} ({n.where})" for n in steps]
                    remark += f"; {'; '.join(added) or 'nothing added'}"
                yield (
                    f"{robot}, {name}, {label}",
                    shown(errors_of_code.moving),
                    shown(errors_of_code.every),
                    remark,
                )


def verdicts(robots: Sequence[str] = ()) -> Iterator[Row]:
    """Yield level, warnings and named causes, and what each cause does to logs left out."""
    for robot in robots or JUDGED_CUTOFFS:
        model, splits = splits_of(robot)
        for name, logs, unseen in splits:
            fit = fit_logs(model, logs, held_out=[unseen])
            notices, diagnosis = judge(fit)
            warned = [notice for notice in notices if notice.level != "info"]
            named = [] if diagnosis is None else [fault.name for fault in diagnosis.faults]
            rules = sorted({each.rule for each in warned if each.rule not in named})
            level = max((each.level for each in warned), default="ok", key=LEVELS.index)
            causes = "; ".join(named_causes(fit)) if named else "none"
            errors_of_log = shown(100 * fit.identification.validation.relative)
            yield f"{robot}, {name}", errors_of_log, f"{level}: {', '.join(rules) or '-'}", causes


def named_causes(fit: FittedLogs) -> list[str]:
    """Return the named causes in words, with errors of logs left out, without and with them."""
    evidence, processed = evidence_of_fit(fit)
    causes = [fault.text for fault in drifting_efforts(processed)]
    search = Search(evidence, thorough=True)
    groups, _ = search.run()
    stage = Stage(evidence, search.labels)
    accepted: list[Explanation] = []
    for group in groups:
        accepted.append(group[0])
        following = Stage(evidence, search.labels, accepted)
        before = shown(100 * np.exp(log_errors(stage)))
        after = shown(100 * np.exp(log_errors(following)))
        others = f" or {len(group) - 1} more" if len(group) > 1 else ""
        causes.append(f"{name_fault(group, evidence).text}{others}: {before} to {after} %")
        stage = following
    return causes


def shown(values: FloatArray) -> str:
    """Return percentages."""
    return " ".join(f"{v:.1f}" for v in np.atleast_1d(values))


def compared(
    label: str,
    model: Model,
    logs: Sequence[Recording],
    unseen: Recording,
    grid: Sequence[float],
    *,
    faster: float = 0.0,
) -> Iterator[Row]:
    """Yield defaults and the best of a grid, row by row of the robot."""
    ready, values = fitted(model, logs)
    used = ready.processing
    ours = errors(model, ready, values, unseen, faster=faster)
    tried = [
        errors(model, *fitted(model, logs, Processing(cutoff=cutoff)), unseen, faster=faster)
        for cutoff in grid
    ]
    best = np.min(tried, axis=0)
    yield (
        label,
        shown(ours),
        shown(best),
        f"{used.cutoff:.3g} Hz, decimation {used.decimation}, window "
        f"{1e3 * (used.window or 0):.3g} ms; ratio to the best "
        f"{' '.join(f'{r:.2f}' for r in ours / best)}; "
        f"counts {shown(errors(model, ready, values, unseen, counted=True))}",
    )


def tx40() -> Iterator[Row]:
    """First half to second half, and back."""
    model, log = machines.tx40(), machines.tx40_log()
    halves = [log.take(slice(0, 22500)), log.take(slice(22500, None))]
    grid = np.geomspace(20.0, 320.0, 9)
    yield (
        "TX40, anchor of its PROVENANCE, moving",
        shown(TX40_ANCHOR),
        "-",
        "ordinary least squares",
    )
    yield from compared(
        "TX40, first half to second, moving", model, halves[:1], halves[1], grid, faster=0.05
    )
    yield from compared(
        "TX40, second half to first, moving", model, halves[1:], halves[0], grid, faster=0.05
    )


def pendulum() -> Iterator[Row]:
    """Each log from the four others."""
    model = machines.pendulum()
    logs = [machines.pendulum_log(name) for name in machines.PENDULUM_LOGS]
    for k, log in enumerate(logs):
        rest = [other for j, other in enumerate(logs) if j != k]
        yield from compared(
            f"double pendulum, four logs to {log.source}, all samples",
            model,
            rest,
            log,
            np.geomspace(2.5, 40.0, 9),
        )


def upv() -> Iterator[Row]:
    """Each run from the two others."""
    model, logs = machines.upv(), [machines.upv_log(run) for run in machines.UPV_RUNS]
    table = []
    for k, log in enumerate(logs):
        ready, values = fitted(model, [other for j, other in enumerate(logs) if j != k])
        used = ready.processing
        table.append(errors(model, ready, values, log, counted=True))
        yield (
            f"UPV, two runs to {log.source}, counts",
            shown(table[-1]),
            "-",
            f"{used.cutoff:.3g} Hz, decimation {used.decimation}, window "
            f"{1e3 * (used.window or 0):.3g} ms; "
            f"all samples {shown(errors(model, ready, values, log))}",
        )
    yield (
        "UPV, over the runs, counts",
        shown(np.sqrt(np.mean(np.square(table), axis=0))),
        "-",
        "wanted: below 14",
    )


def emps() -> Iterator[Row]:
    """The whole log, and halves."""
    model, log = machines.emps(), machines.emps_log()
    half = len(log) // 2
    first, second = log.take(slice(0, half)), log.take(slice(half, None))
    for label, part, unseen in (
        ("all", log, log),
        ("first half", first, second),
        ("second half", second, first),
    ):
        result = identify(model, [part], held_out=[] if part is unseen else [unseen])
        values = " ".join(
            f"{v:.4g} +- {s:.2g}" for v, s in zip(result.estimate.values, result.estimate.std)
        )
        yield (
            f"EMPS, {label}: M Fv Fc offset",
            values,
            "95.1089 203.5034 20.3935 -3.1648",
            f"{result.processing.cutoff:.3g} Hz; {result.headline}",
        )


def sigmas() -> Iterator[Row]:
    """Parts of an experiment against others."""
    log = machines.tx40_log()
    half = len(log) // 2
    a, b = estimates(machines.tx40(), [[log.take(slice(0, half))], [log.take(slice(half, None))]])
    yield (
        "TX40, halves, rms z",
        f"{rms_z(a, b):.2f}",
        "-",
        f"wanted: 1.3; sigmas from {a.uncertainty}",
    )
    logs = [machines.pendulum_log(name) for name in machines.PENDULUM_LOGS]
    pairs = list(combinations(range(5), 2))
    found = dict(
        zip(pairs, estimates(machines.pendulum(), [[logs[k] for k in pair] for pair in pairs]))
    )
    for label, out in (("but for the shoulder's motor off in both", (3, 4)), ("all", None)):
        apart = [
            rms_z(found[x], found[y])
            for x, y in combinations(found, 2)
            if not set(x) & set(y) and out != y
        ]
        yield (
            f"double pendulum, two logs against two, {label}, rms z",
            f"{min(apart):.2f} to {max(apart):.2f}",
            "-",
            f"wanted: 1.5; {len(apart)} ways",
        )
    logs = [machines.upv_log(run) for run in machines.UPV_RUNS]
    for k, run in enumerate(logs):
        a, b = estimates(machines.upv(), [[run], [*logs[:k], *logs[k + 1 :]]])
        yield (
            f"UPV, {run.source} against the others, rms z",
            f"{rms_z(a, b):.2f}",
            "-",
            "wanted: 1.5",
        )


CASES = {"tx40": tx40, "pendulum": pendulum, "upv": upv, "emps": emps, "sigmas": sigmas}


def main() -> None:
    """Print the tables asked for, or all."""
    words = ["emps"] if "--small" in sys.argv else sys.argv[1:]
    if words[:1] == ["defaults"]:
        for row in held_out(words[1:], {"defaults": IdentifySettings()}):
            print(" | ".join(row), flush=True)
        return
    if words[:1] == ["held_out"]:
        for row in held_out(words[1:]):
            print(" | ".join(row), flush=True)
        return
    if words[:1] == ["verdicts"]:
        for row in verdicts(words[1:]):
            print(" | ".join(row), flush=True)
        return
    for name in words or CASES:
        for row in CASES[name]():
            print(" | ".join(row), flush=True)


if __name__ == "__main__":
    main()
