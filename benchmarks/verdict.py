"""Judge of the verdict: clean logs, and logs with faults, of robots whose file is not the truth.

    python benchmarks/verdict.py --clean 300 --faults 640 --jobs 2 --json verdict.jsonl
    python benchmarks/verdict.py --clean 20 --robots five_bar,delta
    python benchmarks/verdict.py --faults 100 --label payload     # faults whose label holds a word
    python benchmarks/verdict.py --seed 7 --trial f12              # all about one trial

The inertias and frictions of the true robot differ from those of the file; efforts come from
the plant of `verdict_plant.py`, which shares nothing with the estimator but the closure map;
the held-out log is of another motion. Robots, true values, motions, noise and places of faults
are drawn from the seed, by default a number of the commit's hash. A trial depends on the seed
and its name only.

A fault is visible if the mean over twelve blocks of the held-out log of the gain
log(error before / after undoing it) exceeds six of its standard errors and the change of a
prediction is at least 0.5 % of the rms effort of a joint. The benchmark undoes it itself: it
fits the same experiment without the fault, both processed alike.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import time
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from verdict_faults import ALL_MOTORS, FAULTS, LOGS, Draft, Fault, NotApplicable, Scene
from verdict_plant import Array, Plant, clean_recording, draw_plan, draw_rate, draw_sensors
from verdict_robots import ROBOTS, model_and_workspace, true_values

import gough
from gough.core.errors import GoughError
from gough.core.executors import WorkSettings
from gough.core.notices import Notice
from gough.engine import base_parameters
from gough.fitting.cross_validation import weighted_fit
from gough.identification import Identification
from gough.identification.experiment import Experiment, prepare_with_settings
from gough.identification.fit import FittedLogs, fit_logs
from gough.identification.validation import prepare_for_result, validate

# Rules that name a cause; all others describe what is the case.
NAMES = frozenset(
    {
        "effort sign",
        "effort scale",
        "effort curve",
        "effort offset",
        "effort delay",
        "effort lag",
        "encoder offset",
        "encoder scale",
        "position sign",
        "position unit",
        "swapped efforts",
        "swapped positions",
        "swapped channels",
        "clock",
        "clock unit",
        "reversed time",
        "tilt",
        "gravity direction",
        "no gravity",
        "compliance",
        "payload",
        "drift",
        "geometry",
        "missing term",
        "lost counts",
        "jump",
        "samples lost",
    }
)
# How a cause is called where a notice lists several that explain the data equally well.
PHRASES = {
    "effort sign": "effort.*wrong sign",
    "effort scale": "effort.*(times what it should|scaled)",
    "effort curve": "effort.*not proportional",
    "effort offset": "effort.*off by",
    "effort delay": "effort.*lags",
    "effort lag": "effort.*low-passed",
    "encoder offset": "position.*off by",
    "encoder scale": "position.*too large by",
    "position sign": "position.*wrong sign",
    "position unit": "position.*times too",
    "swapped efforts": "efforts.*swapped",
    "swapped positions": "positions.*swapped",
    "swapped channels": "channels.*swapped",
    "clock": "times are too long by",
    "clock unit": "times are .*times too",
    "reversed time": "backwards",
    "tilt": "tilted",
    "gravity direction": "gravity points",
    "no gravity": "not contain gravity",
    "compliance": "transmission.*bends",
    "payload": "payload of",
    "drift": "along the log|from period to period|in the other logs",
    "geometry": "robot file is off",
    "missing term": "^(?!.*along the log).*(friction|spring|offset|ripple|term)",
}
# Faults whose smallest noticed size is printed with an `ok`.
ANNOUNCED = (
    "effort scale",
    "effort offset",
    "encoder offset",
    "effort delay",
    "payload",
    "tilt",
    "no gravity",
    "clock",
)
# Faults without a size that a notice with an `ok` may list as not shown.
EXCHANGES = ("swapped channels", "clock unit", "position unit")
# Warnings that a log is too short or too slow for the parameters: counted apart.
NOT_DETERMINED = frozenset({"conditioning", "not determined", "few samples"})
FILE_ERRORS = (0.0, 0.1, 0.25, 0.5)
NOISES = ("white", "coloured", "quantised")
MOTIONS = ("periods", "multisine", "pick and place")
BLOCKS = 12  # of the held-out log
VISIBLE_T = 6.0
MATERIAL = 0.005  # least change of a prediction, in parts of the rms effort of a joint
WRONG_MODEL = 0.05  # error on clean data beyond which a model must not be called ok
FAULT_STRIDE = 31  # trials walk through the faults in steps that mix the families
ROBOT_STRIDE = 3  # from one pass over the faults to the next


@dataclass(kw_only=True)
class Outcome:
    """What was done in a trial and what the verdict said; a line of the JSON file."""

    trial: str
    seed: int
    robot: str
    family: str  # clean, listed, data, two or unlisted
    label: str
    what: list[str]
    file_error: float
    motions: list[str]
    seconds_of_logs: list[float]
    samples: list[int]
    noise: str
    expected: list[list[str]] = field(default_factory=list)
    true_sizes: list[float] = field(default_factory=list)
    invisible: str = ""
    skipped: str = ""
    failure: str = ""  # error that identify raised
    level: str = ""
    names: list[str] = field(default_factory=list)  # rule: place, as the verdict gave them
    alarms: list[str] = field(default_factory=list)  # rules of warnings and errors
    first_right: bool = False
    right: bool = False  # first or among those named together
    wrong: list[str] = field(default_factory=list)  # names that are not right
    size: float | None = None
    std: float | None = None
    size_errors: float | None = None  # distance from the true size in standard errors
    t: float | None = None  # of the gain by undoing the fault
    error_before: list[float] = field(default_factory=list)  # held-out, by joint
    error_after: list[float] = field(default_factory=list)
    clean_error: float | None = None  # of a model called ok, on the ideal held-out log
    announced: bool = False  # the verdict says that these logs would not have shown such a fault
    runtime: float = 0.0
    notices: list[dict[str, Any]] = field(default_factory=list)

    @property
    def visible(self) -> bool:
        """Undoing the fault lowers the held-out error, beyond doubt and by what matters."""
        if self.t is None or not self.t > VISIBLE_T:
            return False
        if not self.error_before:  # the logs cannot be processed
            return True
        squares = np.array(self.error_before) ** 2 - np.array(self.error_after) ** 2
        return bool((squares > MATERIAL**2).any())

    @property
    def only_not_determined(self) -> bool:
        """All alarms are of parameters that the log does not determine."""
        if self.failure:
            return self.failure.startswith("NotIdentifiable")
        return bool(self.alarms) and set(self.alarms) <= NOT_DETERMINED


# -- one trial


def fault_of(number: int) -> Fault:
    """Return the fault of a trial."""
    return FAULTS[number * FAULT_STRIDE % len(FAULTS)]


def robot_of(kind: str, number: int) -> str:
    """Return the robot of a trial: all faults meet all robots in turn."""
    if kind == "c":
        return ROBOTS[number % len(ROBOTS)]
    passes, fault = divmod(number, len(FAULTS))
    return ROBOTS[(fault + ROBOT_STRIDE * passes) % len(ROBOTS)]


def draw_scene(kind: str, number: int, seed: int) -> tuple[Scene, np.random.Generator, float]:
    """Draw the experiment of a trial, and a generator for what is made wrong with it."""
    rng = np.random.default_rng([seed, ord(kind), number])
    robot = robot_of(kind, number)
    model, workspace = model_and_workspace(robot, seed)
    file_error = float(rng.choice(FILE_ERRORS))
    common = file_error * rng.standard_normal()
    individual = file_error * rng.uniform(0.3, 1.0)
    values = true_values(model.mechanism, rng, common, individual)
    plant = Plant(
        model=model,
        values=values,
        gravity=np.array(model.mechanism.gravity),
        band=float(10 ** rng.uniform(-3, -2)),
    )
    shortest, longest = (3.0, 60.0) if kind == "c" else (8.0, 25.0)
    durations = np.exp(rng.uniform(np.log(shortest), np.log(longest), 2)).tolist()
    rate = draw_rate(rng, max(durations))
    plans = []
    for duration in durations:
        motion = str(rng.choice(MOTIONS, p=[0.5, 0.2, 0.3]))
        plans.append(draw_plan(model, workspace, rng, motion, duration, rate))
    scene = Scene(
        robot=robot,
        model=model,
        workspace=workspace,
        plant=plant,
        plans=(plans[0], plans[1]),
        sensors=draw_sensors(rng, str(rng.choice(NOISES))),
        seed=(seed, ord(kind), number),
    )
    return scene, rng, file_error


def run_trial(task: tuple[str, int, int]) -> Outcome:
    """Run a trial by its kind (c or f), its number and the seed."""
    kind, number, seed = task
    start = time.perf_counter()
    scene, rng, file_error = draw_scene(kind, number, seed)
    draft = Draft(scene=scene, rng=rng)
    sensors = scene.sensors
    fault = fault_of(number) if kind == "f" else None
    outcome = Outcome(
        trial=f"{kind}{number}",
        seed=seed,
        robot=scene.robot,
        family="clean" if fault is None else fault.family,
        label="clean" if fault is None else fault.label,
        what=draft.what,
        file_error=file_error,
        motions=[plan.kind for plan in scene.plans],
        seconds_of_logs=[round(float(plan.time[-1]), 3) for plan in scene.plans],
        samples=[len(plan.time) for plan in scene.plans],
        noise=f"{sensors.kind}, effort {sensors.effort:.2%}, position {sensors.position:.1e}",
    )
    try:
        if fault is not None:
            fault.apply(draft)
        judge_draft(draft, outcome)
    except NotApplicable as reason:
        outcome.skipped = str(reason)
    outcome.runtime = round(time.perf_counter() - start, 2)
    return outcome


def judge_draft(draft: Draft, outcome: Outcome) -> None:
    """Identify from a draft, and compare the notices with what is wrong."""
    outcome.expected = [list(name) for name in draft.expected]
    outcome.true_sizes = draft.sizes
    outcome.invisible = draft.invisible
    logs = [draft.recording(0)]
    held_out = [draft.recording(1)]
    result = None
    notices: Sequence[Notice] = ()
    try:
        result = gough.identify(draft.model, logs, held_out=held_out)
        notices = result.notices
        outcome.level = result.level
    except GoughError as error:
        outcome.failure = f"{type(error).__name__}: {error}"
        outcome.level = "error"
        notices = getattr(error, "notices", ())
    outcome.notices = [notice.to_dict() for notice in notices]
    score_names(draft, outcome, notices)
    if outcome.family != "clean":
        score_visibility(draft, outcome)
    if result is not None and outcome.level == "ok":
        outcome.clean_error = error_on_ideal_log(draft, result)
        outcome.announced = is_announced(draft, notices)


def error_on_ideal_log(draft: Draft, result: Identification) -> float | None:
    """Return the largest error of a joint on the held-out log without noise and payload.

    Efforts are those of the robot as it is: one that stands inclined or has a spring which
    the file lacks is predicted rightly if it is predicted so. The log without noise is
    processed with the cut-off that predicts it best, and with that of the log with noise: with a
    higher one, more equations near reversals of velocities count. The smaller error counts.
    """
    scene = draft.scene
    ideal = clean_recording(draft.robot_as_it_is, scene.motions[1], scene.plans[1], LOGS[1])
    errors = []
    try:
        best = prepare_for_result(result, draft.model, [ideal])
        errors.append(validate(result.estimate, best.regressions).relative.max())
        processing = prepare_for_result(result, draft.model, [draft.recording(1)]).processing
        alike = prepare_with_settings(
            draft.model, [ideal], result.base, processing, None, result.gains or None
        )
        errors.append(validate(result.estimate, alike.regressions).relative.max())
    except GoughError:
        pass
    return float(min(errors)) if errors else None


# -- scores


def is_announced(draft: Draft, notices: Iterable[Notice]) -> bool:
    """Tell whether the verdict says that logs would not have shown faults of these sizes.

    Of faults without a limit in the notice, no size is seen. Errors where joints creep are
    announced by a notice of their own.
    """
    notices = list(notices)
    if any(notice.rule == "low speed" for notice in notices):
        return True
    limits = [notice for notice in notices if notice.rule == "not noticed"]
    if not limits or not draft.expected:
        return False
    for rule, place in draft.expected:
        if rule in EXCHANGES:
            if not is_said_not_to_show(rule, place, draft.sizes, limits[0].text):
                return False
            continue
        if rule == "missing term" and ("effort offset", place) in draft.expected:
            continue  # the same, in other words
        if rule not in ANNOUNCED:
            return False
        smallest = limits[0].numbers.get(rule, np.inf)
        neutral = 1.0 if rule == "effort scale" else 0.0
        sizes = [1.0] if rule == "no gravity" else draft.sizes  # all of the weight
        if sizes and min(abs(size - neutral) for size in sizes) > smallest:
            return False
        if not sizes and np.isfinite(smallest):
            return False
    return True


def is_said_not_to_show(rule: str, place: str, sizes: Sequence[float], text: str) -> bool:
    """Tell whether a notice says that logs may not show exchanged channels or a wrong unit."""
    if rule == "position unit":
        return any(
            f"the position of {place} is {size:.6g} times too large" in text for size in sizes
        )
    if rule == "clock unit":
        return any(f"times are {size:g} times too long" in text for size in sizes)
    first, _, second = place.partition(" and ")
    pairs = (f"{first} and {second}", f"{second} and {first}")
    return any(f"the channels of {pair} are swapped" in text for pair in pairs)


def is_name(notice: Notice) -> bool:
    """Tell whether a notice names a cause."""
    return notice.rule in NAMES and notice.level != "info"


def is_place(place: str, text: str, motors: Sequence[str]) -> bool:
    """Tell whether a text is about a place: a log, motors, all motors or anything."""
    if place == ALL_MOTORS:
        mentioned = [motor for motor in motors if motor in text]
        return len(mentioned) != 1
    return all(word in text for word in place.split(" and "))


def is_right(notice: Notice, expected: Iterable[tuple[str, str]], motors: Sequence[str]) -> bool:
    """Tell whether a notice names the fault and its place."""
    for rule, place in expected:
        if notice.rule == rule and is_place(place, notice.where, motors):
            return True
    return False


def mentions(text: str, expected: Iterable[tuple[str, str]], motors: Sequence[str]) -> bool:
    """Tell whether a text lists the fault and its place as an alternative to the first."""
    for alternative in text.split("; or ")[1:]:
        for rule, place in expected:
            named = re.search(PHRASES.get(rule, rule), alternative) is not None
            placed = place in LOGS or is_place(place, alternative, motors)
            if named and placed:
                return True
    return False


def score_names(draft: Draft, outcome: Outcome, notices: Sequence[Notice]) -> None:
    """Compare the names of the verdict with the right ones."""
    motors = draft.scene.motors
    alarms = [notice for notice in notices if notice.level != "info"]
    names = [notice for notice in alarms if is_name(notice)]
    outcome.alarms = [notice.rule for notice in alarms]
    outcome.names = [f"{notice.rule}: {notice.where}" for notice in names]
    relevant = names
    if outcome.family == "data":  # a remark of the reader is enough
        relevant = list(notices)
    for k, notice in enumerate(relevant):
        right = is_right(notice, draft.expected, motors)
        listed = right or (is_name(notice) and mentions(notice.text, draft.expected, motors))
        outcome.right = outcome.right or listed
        outcome.first_right = outcome.first_right or (right and k == 0)
        if outcome.family == "data" and right:
            outcome.first_right = True
        if is_name(notice) and not listed and notice.rule not in draft.accepted:
            outcome.wrong.append(f"{notice.rule}: {notice.where}")
    for rule, place in draft.expected:
        if rule in outcome.failure and is_place(place, outcome.failure, motors):
            outcome.right = True
            outcome.first_right = True
    if outcome.first_right and names and draft.sizes and names[0].rule == draft.expected[0][0]:
        score_size(outcome, names[0], draft.sizes)


def score_size(outcome: Outcome, notice: Notice, sizes: Sequence[float]) -> None:
    """Compare a size with the true one, in standard errors."""
    size = notice.numbers.get("size")
    std = notice.numbers.get("std")
    if size is None or std is None or not np.isfinite(std):
        return
    nearest = min(sizes, key=lambda true: abs(true - size))
    outcome.size = size
    outcome.std = std
    if std > 0:
        outcome.size_errors = abs(size - nearest) / std
    else:
        outcome.size_errors = 0.0 if np.isclose(size, nearest, rtol=1e-3) else float("inf")


def block_errors(experiment: Experiment, held_out: Experiment) -> Array:
    """Return mean squared errors of a held-out log, (blocks, joints). [unit of the effort squared]

    Of weighted least squares on the experiment. A block is a contiguous stretch of the log,
    or of the period over all periods together.
    """
    problem = experiment.problem
    values = dict(zip(problem.parameters, weighted_fit(problem.statistics()).values.tolist()))
    regression = held_out.regressions[0].select(tuple(values))
    predicted = regression.regressor @ np.array(list(values.values()))
    residual = np.where(regression.valid, regression.effort - predicted, np.nan)
    edges = np.linspace(0, len(residual), BLOCKS + 1).astype(int)
    blocks = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # joints at rest in a block
        for first, last in pairwise(edges.tolist()):
            blocks.append(np.nanmean(residual[first:last] ** 2, axis=0))
    return np.array(blocks)


def processed_alike(draft: Draft, undone: FittedLogs) -> tuple[Experiment, Experiment]:
    """Return the logs of a draft, processed as those without the fault were."""
    assert undone.held_out is not None
    base = base_parameters(draft.model)
    experiments = []
    for log, other in enumerate((undone.experiment, undone.held_out)):
        recordings = [draft.recording(log)]
        experiments.append(
            prepare_with_settings(draft.model, recordings, base, other.processing, None, None)
        )
    return experiments[0], experiments[1]


def score_visibility(draft: Draft, outcome: Outcome) -> None:
    """Find out whether undoing the fault lowers the held-out error, processed alike.

    Errors are those of the effort in its true unit, over its rms without the fault: efforts
    that lack the weight are smaller, and their error is not.
    """
    scene = draft.scene
    power = scene.rms(1) ** 2
    first, second = scene.recordings
    try:
        undone = fit_logs(scene.model, [first], held_out=[second])
        assert undone.held_out is not None
        after = block_errors(undone.experiment, undone.held_out) / power
    except GoughError:  # the logs without the fault do not determine the parameters
        outcome.t = 0.0
        return
    outcome.error_after = relative_errors(after)
    try:
        before = block_errors(*processed_alike(draft, undone)) / power / draft.effort_factor**2
    except GoughError:
        outcome.t = float("inf")
        return
    outcome.error_before = relative_errors(before)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        gain = np.nanmean(np.log(before / after), axis=1) / 2
    gain = gain[np.isfinite(gain)]
    if len(gain) < BLOCKS - 2:
        outcome.t = 0.0
        return
    outcome.t = float(gain.mean() / (gain.std(ddof=1) / np.sqrt(len(gain)) + 1e-12))


def relative_errors(blocks: Array) -> list[float]:
    """Return the relative error of each joint over all blocks."""
    return [round(float(error), 5) for error in np.sqrt(np.nanmean(blocks, axis=0))]


# -- summary


def percent(part: int, whole: int) -> str:
    """Return a fraction in words."""
    if not whole:
        return "0 of 0"
    return f"{part} of {whole} ({100 * part / whole:.1f} %)"


def summary(outcomes: Sequence[Outcome]) -> list[str]:
    """Return the figures of all trials."""
    done = [outcome for outcome in outcomes if not outcome.skipped]
    clean = [outcome for outcome in done if outcome.family == "clean"]
    faulty = [outcome for outcome in done if outcome.family != "clean"]
    lines = []
    if clean:
        lines += _clean_lines(clean)
    if faulty:
        lines += _fault_lines(faulty)
    wrong = [outcome for outcome in done if outcome.wrong]
    lines.append(f"wrong names: {percent(len(wrong), len(done))} of all trials")
    rules = Counter(name.split(":")[0] for outcome in wrong for name in set(outcome.wrong))
    lines += [f"    {rule}: {count}" for rule, count in rules.most_common()]
    skipped = len(outcomes) - len(done)
    if skipped:
        lines.append(f"skipped, the robot cannot have the fault: {skipped}")
    return lines


def _clean_lines(clean: Sequence[Outcome]) -> list[str]:
    alarmed = [outcome for outcome in clean if outcome.level != "ok"]
    apart = [outcome for outcome in alarmed if outcome.only_not_determined]
    false = [outcome for outcome in alarmed if not outcome.only_not_determined]
    lines = [
        f"clean trials not ok: {percent(len(false), len(clean))}, "
        f"and {len(apart)} with parameters that are not determined"
    ]
    rules: Counter[str] = Counter()
    for outcome in false:
        rules.update(set(outcome.alarms) or {outcome.failure[:60]})
    lines += [f"    {rule}: {count}" for rule, count in rules.most_common()]
    return lines


def _fault_lines(faulty: Sequence[Outcome]) -> list[str]:
    lines = []
    named = [outcome for outcome in faulty if outcome.family != "unlisted"]
    visible = [outcome for outcome in named if outcome.visible]
    first = sum(outcome.first_right for outcome in visible)
    right = sum(outcome.right for outcome in visible)
    lines.append(f"visible faults: {percent(len(visible), len(named))}")
    lines.append(f"named rightly, first: {percent(first, len(visible))} of the visible")
    lines.append(f"named rightly, in a group: {percent(right, len(visible))} of the visible")
    unlisted = [outcome for outcome in faulty if outcome.family == "unlisted"]
    without = sum(not outcome.names for outcome in unlisted)
    lines.append(f"unlisted faults without a name: {percent(without, len(unlisted))}")
    sized = [outcome for outcome in faulty if outcome.size_errors is not None]
    near = sum(outcome.size_errors is not None and outcome.size_errors <= 3 for outcome in sized)
    lines.append(f"sizes within three standard errors: {percent(near, len(sized))}")
    missed = [outcome for outcome in faulty if is_missed(outcome)]
    announced = sum(
        outcome.announced and (outcome.clean_error or 0.0) > WRONG_MODEL for outcome in faulty
    )
    lines.append(
        f"called ok with an error above {WRONG_MODEL:.0%} on clean data: {len(missed)}, "
        f"and {announced} in which the verdict says that it would not have seen the fault"
    )
    for outcome in missed:
        lines.append(
            f"    {outcome.trial} {outcome.robot}, {outcome.label}: {outcome.clean_error:.1%}"
        )
    return lines


def is_missed(outcome: Outcome) -> bool:
    """Tell whether a wrong model is called ok although these data could show it."""
    error = outcome.clean_error
    wrong = error is not None and error > WRONG_MODEL
    return wrong and not outcome.invisible and not outcome.announced


HEADER = f"{'trial':>6} {'robot':16} {'fault':32} {'level':8} {'t':>7} {'mark':6} names"


def row(outcome: Outcome) -> str:
    """Return a trial as a line of the table."""
    t = "" if outcome.t is None else f"{outcome.t:.1f}"
    names = ", ".join(outcome.names) or ", ".join(dict.fromkeys(outcome.alarms))
    return (
        f"{outcome.trial:>6} {outcome.robot:16} {outcome.label[:32]:32} {outcome.level:8} "
        f"{t:>7} {mark(outcome):6} {names or outcome.failure[:80] or outcome.skipped}"
    )


def mark(outcome: Outcome) -> str:
    """Return the score of a trial in a word."""
    if outcome.skipped:
        return "skip"
    if outcome.wrong:
        return "WRONG"
    if outcome.family == "clean":
        if outcome.level == "ok":
            return ""
        return "apart" if outcome.only_not_determined else "ALARM"
    if outcome.first_right:
        return "right"
    if outcome.right:
        return "group"
    if is_missed(outcome):
        return "MISSED"
    if outcome.family == "unlisted":
        return "none"
    return "miss" if outcome.visible else "small"


def details(outcome: Outcome) -> str:
    """Return all about a trial."""
    content = asdict(outcome)
    notices = content.pop("notices")
    lines = []
    for key, entry in content.items():
        lines.append(f"{key:16} {entry}")
    for notice in notices:
        where = f"{notice['where']}: " if notice["where"] else ""
        lines.append(f"  {notice['level']:8} {notice['rule']}: {where}{notice['text']}")
        if notice["advice"]:
            lines.append(f"           advice: {notice['advice']}")
        if notice["numbers"]:
            lines.append(f"           numbers: {notice['numbers']}")
    return "\n".join(lines)


# -- command line


def seed_of_commit() -> int:
    """Return a number of the commit's hash."""
    folder = Path(__file__).parent
    command = ["git", "rev-parse", "HEAD"]
    answer = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    return int(answer.stdout[:8] or "0", 16)


def chosen_tasks(asked: argparse.Namespace) -> list[tuple[str, int, int]]:
    """Return the trials that the command line asks for."""
    if asked.trial:
        return [(name[0], int(name[1:]), asked.seed) for name in asked.trial.split(",")]
    robots = asked.robots.split(",") if asked.robots else ROBOTS
    tasks = []
    for kind, count in (("c", asked.clean), ("f", asked.faults)):
        matching = _numbers(kind, robots, asked.label)
        for _ in range(count):
            tasks.append((kind, next(matching), asked.seed))
    return tasks


def _numbers(kind: str, robots: Sequence[str], label: str) -> Iterator[int]:
    """Yield the numbers of trials with some robots and faults."""
    unknown = set(robots) - set(ROBOTS)
    if unknown:
        raise SystemExit(f"no robot {', '.join(unknown)}; there are {', '.join(ROBOTS)}")
    if kind == "f" and not any(label in fault.label for fault in FAULTS):
        raise SystemExit(f"no fault '{label}'; there are {[fault.label for fault in FAULTS]}")
    number = 0
    while True:
        has_label = kind == "c" or label in fault_of(number).label
        if has_label and robot_of(kind, number) in robots:
            yield number
        number += 1


def main(arguments: Sequence[str] | None = None) -> list[Outcome]:
    """Run the trials that the command line asks for, and print a table and the figures."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seed", type=int, default=seed_of_commit())
    parser.add_argument("--clean", type=int, default=0, help="number of trials without fault")
    parser.add_argument("--faults", type=int, default=0, help="number of trials with a fault")
    parser.add_argument("--robots", default="", help="only these robots, with commas between")
    parser.add_argument("--label", default="", help="only faults whose label holds this")
    parser.add_argument("--jobs", type=int, default=1, help="processes that share the work")
    parser.add_argument("--json", default="", help="file to which each trial adds a line")
    parser.add_argument("--trial", default="", help="only this trial, in full: c3 or f12")
    asked = parser.parse_args(arguments)
    tasks = chosen_tasks(asked)
    if not tasks:
        parser.error("nothing to do; give --clean, --faults or --trial")
    outcomes = []
    print(f"seed {asked.seed}\n{HEADER}", flush=True)
    for _, outcome in WorkSettings(workers=asked.jobs).executor.run(run_trial, tasks):
        if isinstance(outcome, Exception):
            raise outcome
        outcomes.append(outcome)
        print(details(outcome) if asked.trial else row(outcome), flush=True)
        if asked.json:
            with Path(asked.json).open("a") as file:
                file.write(json.dumps(asdict(outcome)) + "\n")
    print("\n".join(summary(outcomes)))
    return outcomes


if __name__ == "__main__":
    main(sys.argv[1:])
