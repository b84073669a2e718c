"""Logs corrupted on purpose: does the verdict notice, does the diagnosis name the mistake and its
size?

    python benchmarks/mistakes.py                     # all robots, all mistakes: a table, then the
    shares python benchmarks/mistakes.py five_bar delta      # some robots
    python benchmarks/mistakes.py five_bar -m delay   # mistakes whose name holds a word
    python benchmarks/mistakes.py --clean 100         # false alarms: clean trials over six robots
    python benchmarks/mistakes.py --workers 4         # shared by four processes: the same table in
    another order

Identification and held-out log (another motion) are corrupted alike. The efforts come from the
Pinocchio plant with the noise of the robot file; each robot is simulated once and its recordings
are corrupted. `error` is that of the identified model on the clean held-out log, `hold` the share
of 95 % intervals that hold the truth in the worst class of parameters (inertial, friction and
others) over a few noises. A mistake is harmful beyond 5 % error or below 80 %.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import numpy as np

from gough.app.identify import identify
from gough.core.arrays import FloatArray
from gough.core.errors import GoughError
from gough.core.executors import Executor, InProcess, WorkSettings
from gough.engine import Model, base_parameters
from gough.engine.derivatives import gravity_regressor
from gough.excitation import design
from gough.identification import Identification
from gough.identification.diagnosis import Diagnosis
from gough.identification.experiment import prepare
from gough.identification.validation import validate
from gough.logs.recording import Recording
from gough.mechanism import load_robot
from gough.verdict.diagnosis.diagnose import (
    DiagnoseSettings,
    diagnose,
    evidence_from,
    limits_of,
)
from gough.verdict.diagnosis.directions import rotated
from gough.verdict.diagnosis.search import Standing
from gough.verdict.rules import BROKEN_CHANNEL_RULES
from gough.virtual import Simulation, record, simulate

PERIODS = 6
NOISES = 3  # for the intervals
SAMPLING = {"serial6": 250.0}  # its motion takes 33 s [Hz]
SEEDS = {"serial6": (1, 2)}  # whose periods are whole numbers of such samples
TIED = ("delta", "palida", "orthoglide")
ROBOTS = ("five_bar", "delta", "orthoglide", "palida", "serial6")
HARMFUL_ERROR, HARMFUL_HOLD = 0.05, 0.8


def repeated(run: Simulation, periods: int) -> Simulation:
    """Return one period several times over: noise comes with `record`, so nothing else would
    differ.
    """
    step, count = run.time[1] - run.time[0], len(run.time) * periods
    again = {
        name: np.tile(getattr(run, name), (1, periods, 1))
        for name in ("q", "velocity", "acceleration", "effort", "mean_effort")
    }
    return replace(
        run,
        time=run.time[0] + step * np.arange(count),
        reference=np.tile(run.reference, (periods, 1)),
        **again,
    )


@dataclass(frozen=True, eq=False)
class Stage:
    """A robot with an identification run and a held-out run of another motion."""

    name: str

    @cached_property
    def model(self) -> Model:
        """The robot."""
        return Model(load_robot(self.name))

    @property
    def tied(self) -> bool:
        """Legs are taken as equal."""
        return self.name in TIED

    @cached_property
    def runs(self) -> tuple[Simulation, Simulation]:
        """One period of each motion on the independent plant."""
        plans = [
            design(self.model, starts=1, iterations=40, seed=seed)
            for seed in SEEDS.get(self.name, (0, 1))
        ]
        first, second = (
            simulate(
                self.model,
                plan.trajectory,
                periods=1,
                plant="pinocchio",
                sampling=SAMPLING.get(self.name),
            )
            for plan in plans
        )
        return first, second

    def clean(self, run: int, seed: int, periods: int = PERIODS) -> Log:
        """Return a recording as the robot would have saved it."""
        simulation = self.runs[run]
        seen = record(repeated(simulation, periods), seed=(run, seed))
        return Log(stage=self, run=simulation, recording=replace(seen, source=f"{self.name} {run}"))

    @cached_property
    def limits(self) -> dict[str, float]:
        """Smallest mistake that the clean log shows in 95 of 100 cases, by name and place; infinite
        if it cannot.
        """
        settings = DiagnoseSettings(tie_legs=self.tied)
        evidence = evidence_from(
            self.model, [self.clean(0, 1).recording], [self.clean(1, 1).recording], settings
        )
        return {
            f"{limit.name}: {limit.place}": limit.size for limit in limits_of(Standing(evidence))
        }

    def hidden(self, corruption: Corruption) -> str:
        """Return why a mistake cannot be seen: it is known, or it is smaller than what the motion
        shows.
        """
        least = min(
            (self.limits[name] for name in corruption.expected if name in self.limits), default=0.0
        )
        if corruption.invisible or corruption.size is None or abs(corruption.size) >= least:
            return corruption.invisible
        return (
            f"its size is {abs(corruption.size):.3g}, and this motion shows it from {least:.3g} on"
        )

    @cached_property
    def truth(self) -> dict[str, float]:
        """True base parameters by name."""
        base = base_parameters(self.model, tie_legs=self.tied)
        return dict(zip(base.names, base.values(self.model.values(base.standard)).tolist()))


@dataclass(frozen=True, eq=False)
class Log:
    """A recording and the simulation behind it, with ways to spoil it."""

    stage: Stage
    run: Simulation
    recording: Recording

    @property
    def signal(self) -> str:
        """Which signal holds the efforts."""
        return "effort" if self.recording.effort is not None else "current"

    @property
    def effort(self) -> FloatArray:
        """Efforts or currents, (t, a)."""
        return np.array(getattr(self.recording, self.signal))

    @property
    def size(self) -> FloatArray:
        """rms of each effort, (a,)."""
        return np.sqrt((self.effort**2).mean(axis=0))

    @property
    def revolute(self) -> bool:
        """The first motor turns."""
        return self.recording.position_units[0] == "rad"

    def with_effort(self, effort: FloatArray) -> Log:
        """Return the log with other efforts or currents."""
        return replace(self, recording=replace(self.recording, **{self.signal: effort}))

    def with_position(self, position: FloatArray) -> Log:
        """Return the log with other positions."""
        return replace(self, recording=replace(self.recording, position=position, reference=None))

    def with_time(self, time: FloatArray) -> Log:
        """Return the log with other times."""
        return replace(self, recording=replace(self.recording, time=time))

    def more(self, efforts: FloatArray) -> Log:
        """Return the log with further true efforts of one period, (N, a). [N or N m]"""
        gains = 1.0 if self.run.gains is None else self.run.gains
        return self.with_effort(
            self.effort + np.tile(efforts / gains, (len(self.effort) // len(efforts), 1))
        )

    @cached_property
    def joint(self) -> tuple[FloatArray, FloatArray]:
        """True position and velocity of the motors in one period, (N, a) each."""
        motion, columns = self.run.motion(), list(self.stage.model.actuated)
        return motion.q[:, columns], motion.qd[:, columns]

    def loaded(self, mass: float) -> Log:
        """Return the log with a ball of this mass carried on the platform. [kg]"""
        model, motion = self.stage.model, self.run.motion()
        # Recorded efforts are the mean of those before and after a sample, so are the accelerations
        # behind them.
        motion = replace(motion, qdd=(motion.qdd + np.roll(motion.qdd, 1, axis=0)) / 2)
        load = mass * np.array([1.0, 0.0, 0.0, 0.03, 2e-3, 0.0, 2e-3, 0.0, 0.0, 2e-3])
        return self.more(model.inverse_dynamics(motion, load=load) - model.inverse_dynamics(motion))

    def under(self, gravity: FloatArray) -> Log:
        """Return the log of the robot under another gravity. [m/s2]"""
        model, motion = self.stage.model, self.run.motion()
        names = tuple(model.mechanism.standard.names)
        by_g = gravity_regressor(model, names)(motion.q)[0].reshape(
            len(motion), 3, len(model.rows), -1
        )
        change = np.einsum(
            "k,tkrp,p->tr",
            gravity - np.array(model.mechanism.gravity),
            by_g,
            model.mechanism.standard.values,
        )
        return self.more(model.min_norm_motor_effort(motion.q, change))


Spoil = Callable[[Log], Log]


@dataclass(frozen=True, kw_only=True)
class Corruption:
    """A mistake made on purpose.

    Args:
        name: What was done.
        spoil: To the identification log.
        other: To the held-out log; the same by default.
        expected: Names that are right, the place behind a colon where it is known.
        size: True size, SI; None where there is none.
        invisible: Why it cannot be seen, if it cannot.
        reuse: The held-out log is the identification log.
    """

    name: str
    spoil: Spoil
    expected: tuple[str, ...]
    other: Spoil | None = None
    size: float | None = None
    invisible: str = ""
    reuse: bool = False


def _column(
    values: FloatArray, which: int, change: Callable[[FloatArray], FloatArray]
) -> FloatArray:
    changed = values.copy()
    changed[:, which] = change(changed[:, which])
    return changed


def _efforts(change: Callable[[FloatArray], FloatArray], which: int | None = None) -> Spoil:
    return lambda log: log.with_effort(
        change(log.effort) if which is None else _column(log.effort, which, change)
    )


def _positions(change: Callable[[FloatArray], FloatArray], which: int | None = None) -> Spoil:
    return lambda log: log.with_position(
        change(log.recording.position)
        if which is None
        else _column(log.recording.position, which, change)
    )


def _swapped(values: FloatArray) -> FloatArray:
    return np.ascontiguousarray(values[:, [1, 0, *range(2, values.shape[1])]])


def _delayed(samples: int, which: int | None = None) -> Spoil:
    return _efforts(lambda e: np.roll(e, samples, axis=0), which)


def corruptions(stage: Stage) -> Iterator[Corruption]:
    """Yield the mistakes, sized for a robot."""
    model = stage.model
    motors = model.mechanism.actuated
    one, pair = motors[0], f"{motors[0]} and {motors[1]}"
    joint = model.mechanism.joint(one)
    turns = joint.unit == "rad"
    step = (
        1 / stage.runs[0].model.mechanism.noise.rate
        if stage.name not in SAMPLING
        else 1 / SAMPLING[stage.name]
    )
    offset = np.deg2rad(1.0) if turns else 2e-3
    big = np.deg2rad(5.0) if turns else 1e-2
    g = np.array(model.mechanism.gravity)
    level = (
        np.eye(3)[2]
        if stage.name == "five_bar"
        else np.eye(3)[np.argsort(np.abs(g), kind="stable")[0]]
    )
    no_offset = (
        f"the robot file has an offset at {one}: it takes the whole of it"
        if "off" in joint.terms
        else ""
    )
    yield Corruption(
        name="effort sign, one", spoil=_efforts(np.negative, 0), expected=(f"effort sign: {one}",)
    )
    yield Corruption(
        name="effort sign, all", spoil=_efforts(np.negative), expected=("effort sign: all motors",)
    )
    yield Corruption(
        name="position sign, one",
        spoil=_positions(np.negative, 0),
        expected=(f"position sign: {one}",),
    )
    yield Corruption(
        name="position sign, all",
        spoil=_positions(np.negative),
        expected=("position sign: all motors",),
    )
    for factor in (1000.0, 2.0):
        yield Corruption(
            name=f"effort x {factor:g}, one",
            spoil=_efforts(lambda e, f=factor: e * f, 0),
            size=factor,
            expected=(f"effort unit: {one}",),
        )
    for factor in (1000.0, 1e-3, 2.0, 180 / np.pi, 1.1):
        yield Corruption(
            name=f"effort x {factor:.4g}, all",
            spoil=_efforts(lambda e, f=factor: e * f),
            size=factor,
            expected=("effort unit: all motors",),
        )
    yield Corruption(
        name="gain 1.1, one",
        spoil=_efforts(lambda e: 1.1 * e, 0),
        size=0.1,
        expected=(f"gain: {one}",),
    )
    unit = 180 / np.pi if turns else 1000.0
    yield Corruption(
        name="position unit, all",
        spoil=_positions(lambda q: q * unit),
        size=unit,
        expected=("position unit: all motors",),
    )
    yield Corruption(
        name="position unit, one",
        spoil=_positions(lambda q: q * unit, 0),
        size=unit,
        expected=(f"position unit: {one}",),
    )
    yield Corruption(
        name="encoder x 1.01, one",
        spoil=_positions(lambda q: 1.01 * q, 0),
        size=0.01,
        expected=(f"encoder scale: {one}",),
    )
    yield Corruption(
        name="encoder x 1.01, all",
        spoil=_positions(lambda q: 1.01 * q),
        size=0.01,
        expected=("encoder scale: all motors",),
    )
    yield Corruption(
        name="homing, small",
        spoil=_positions(lambda q: q + offset, 0),
        size=offset,
        expected=(f"encoder offset: {one}",),
    )
    yield Corruption(
        name="homing, large",
        spoil=_positions(lambda q: q + big, 0),
        size=big,
        expected=(f"encoder offset: {one}",),
    )
    for samples in (1, 2, 5, -2):
        yield Corruption(
            name=f"effort {samples} samples late, all",
            spoil=_delayed(samples),
            size=samples * step,
            expected=("effort delay: all motors",),
        )
    yield Corruption(
        name="effort 2 samples late, one",
        spoil=_delayed(2, 0),
        size=2 * step,
        expected=(f"effort delay: {one}",),
    )
    for factor in (2.0, 60.0, 1000.0):
        yield Corruption(
            name=f"times x {factor:g}",
            size=factor,
            expected=("clock unit: clock",),
            spoil=lambda log, f=factor: log.with_time(log.recording.time * f),
        )
    yield Corruption(
        name="times x 1.05",
        spoil=lambda log: log.with_time(log.recording.time * 1.05),
        size=0.05,
        expected=("clock: clock",),
    )
    yield Corruption(
        name="time reversed",
        expected=("reversed time: clock",),
        spoil=lambda log: log.with_effort(log.effort[::-1]).with_position(
            log.recording.position[::-1]
        ),
    )
    yield Corruption(
        name="efforts swapped", spoil=_efforts(_swapped), expected=(f"swapped efforts: {pair}",)
    )
    yield Corruption(
        name="positions swapped",
        spoil=_positions(_swapped),
        expected=(f"swapped positions: {pair}",),
    )
    yield Corruption(
        name="channels swapped",
        expected=(f"swapped channels: {pair}",),
        invisible="a robot with equal legs about the vertical is its own mirror image"
        * (stage.name == "delta"),
        spoil=lambda log: _efforts(_swapped)(_positions(_swapped)(log)),
    )
    yield Corruption(
        name="effort offset 5 %",
        spoil=lambda log: log.with_effort(_column(log.effort, 0, lambda e: e + 0.05 * log.size[0])),
        invisible=no_offset,
        expected=(f"effort offset: {one}", f"missing offset: {one}"),
    )
    for angle in (2.0, 5.0):
        turned = rotated(g, np.deg2rad(angle) * level)
        yield Corruption(
            name=f"tilt {angle:g} deg",
            spoil=lambda log, t=turned: log.under(t),
            size=np.deg2rad(angle),
            expected=("tilt: base",),
        )
    yield Corruption(
        name="gravity reversed",
        spoil=lambda log: log.under(-g),
        expected=("gravity reversed: base",),
    )
    across = np.linalg.norm(g) * np.eye(3)[np.argsort(np.abs(g), kind="stable")[0]]
    yield Corruption(
        name="gravity along another axis",
        spoil=lambda log: log.under(across),
        expected=("gravity along another axis: base",),
        invisible="offset terms take in the weight of a platform that does not turn"
        * (stage.name == "orthoglide"),
    )
    mass = 0.5 if stage.name != "palida" else 3.0
    yield Corruption(
        name="load, all logs",
        spoil=lambda log: log.loaded(mass),
        expected=("unmentioned load",),
        size=mass,
        invisible="a load that all logs carry is part of the platform; only the file tells",
    )
    yield Corruption(
        name="load, identification only",
        spoil=lambda log: log.loaded(mass),
        other=lambda log: log,
        expected=(f"unmentioned load: {stage.name} 0",),
        size=mass,
    )
    yield Corruption(
        name="load, held-out only",
        spoil=lambda log: log,
        other=lambda log: log.loaded(mass),
        expected=(f"unmentioned load: {stage.name} 1",),
        size=mass,
    )
    lost = 0.02 if turns else 2e-3
    yield Corruption(
        name="lost counts",
        size=lost,
        expected=(f"lost counts: {one}",),
        spoil=_positions(lambda q: q + lost * (np.arange(len(q)) > 0.4 * len(q)), 0),
    )
    around = 2 * np.pi if turns else 0.6 * float(np.ptp(stage.runs[0].position[0, :, 0]))
    low = float(np.median(stage.runs[0].position[0, :, 0])) - around
    yield Corruption(
        name="wrapped encoder",
        expected=(f"wrapped counts: {one}",),
        spoil=_positions(lambda q: low + np.mod(q - low, around), 0),
    )
    yield from _physical(stage, one)
    yield from _broken(stage, one)


def _physical(stage: Stage, one: str) -> Iterator[Corruption]:
    """What the model lacks."""

    def friction(
        log: Log, shape: Callable[[FloatArray, FloatArray], FloatArray], share: float
    ) -> Log:
        q, qd = log.joint
        column = shape(q[:, 0], qd[:, 0])
        gains = 1.0 if log.run.gains is None else log.run.gains[0]
        extra = np.zeros(q.shape)
        extra[:, 0] = (
            share * log.size[0] * gains * column / max(float(np.abs(column).max()), 1e-300)
        )
        return log.more(extra)

    top = float(np.abs(stage.runs[0].motion().qd[:, stage.model.actuated[0]]).max())
    reach = float(np.ptp(stage.runs[0].position[0, :, 0]))
    friction_names = (
        f"Stribeck friction: {one}",
        f"friction curved over speed: {one}",
        f"friction with memory: {one}",
    )
    yield Corruption(
        name="Stribeck friction",
        expected=friction_names,
        spoil=lambda log: friction(
            log, lambda q, qd: np.sign(qd) * np.exp(-np.abs(qd) / (0.06 * top)), 0.15
        ),
    )
    yield Corruption(
        name="friction curved over speed",
        expected=friction_names,
        spoil=lambda log: friction(log, lambda q, qd: qd * np.abs(qd), 0.1),
    )
    yield Corruption(
        name="cogging",
        expected=(f"ripple: {one}",),
        spoil=lambda log: friction(log, lambda q, qd: np.sin(2 * np.pi * 12 * q / reach), 0.04),
    )
    yield Corruption(
        name="spring",
        expected=(f"missing spring about the zero position: {one}",),
        spoil=lambda log: friction(log, lambda q, qd: q, 0.1),
    )

    def bent(log: Log) -> Log:
        tau = log.effort * (1.0 if log.run.gains is None else log.run.gains)
        give = 2e-3 * reach / float(np.abs(tau[:, 0]).max())
        smooth = np.tile(log.run.mean_effort[0], (len(tau) // len(log.run.time), 1))
        return log.with_position(
            _column(log.recording.position, 0, lambda q: q + give * smooth[:, 0])
        )

    yield Corruption(
        name="elastic transmission",
        spoil=bent,
        expected=(f"compliance: {one}", f"play of the transmission: {one}"),
    )
    yield Corruption(
        name="fading effort",
        expected=("fading effort",),
        size=-0.08,
        spoil=lambda log: log.with_effort(
            log.effort * np.linspace(1.0, 0.92, len(log.effort))[:, None]
        ),
    )

    def lagging(log: Log) -> Log:
        rate = log.recording.rate
        keep = np.exp(-2 * np.pi * 20.0 / rate)
        spectrum = np.fft.rfft(log.effort, axis=0)
        z = np.exp(2j * np.pi * np.fft.rfftfreq(len(log.effort)))
        return log.with_effort(
            np.fft.irfft(spectrum * ((1 - keep) / (1 - keep / z))[:, None], len(log.effort), axis=0)
        )

    rate = stage.clean(0, 1).recording.rate
    keep = np.exp(-2 * np.pi * 20.0 / rate)
    yield Corruption(
        name="efforts filtered at 20 Hz",
        spoil=lagging,
        expected=("effort lag: all motors",),
        size=keep / (1 - keep) / rate,
    )  # its delay of slow efforts


def _broken(stage: Stage, one: str) -> Iterator[Corruption]:
    """Channels and logs that are no measurement."""
    yield Corruption(name="dead effort", spoil=_efforts(np.zeros_like, 0), expected=("data",))
    yield Corruption(
        name="clipped effort",
        expected=("data",),
        spoil=lambda log: log.with_effort(np.clip(log.effort, -1.2 * log.size, 1.2 * log.size)),
    )
    yield Corruption(
        name="duplicated effort",
        expected=("data",),
        spoil=lambda log: log.with_effort(_column(log.effort, 0, lambda e: log.effort[:, 1])),
    )
    yield Corruption(
        name="frozen encoder",
        expected=(f"frozen encoder: {one}",),
        spoil=_positions(
            lambda q: np.where(np.arange(len(q)) < 0.7 * len(q), q, q[int(0.7 * len(q))]), 0
        ),
    )
    yield Corruption(
        name="held-out log is the identification log",
        spoil=lambda log: log,
        expected=("same log",),
        reuse=True,
        invisible="the model is right; only the test is none",
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class Outcome:
    """One row of the table."""

    robot: str
    corruption: Corruption
    level: str
    first: str
    size: float
    sigma: float
    alike: tuple[str, ...]
    error: float
    hold: float
    hidden: str = ""
    note: str = ""

    @property
    def harmful(self) -> bool:
        """The model is wrong on clean data, or its intervals are."""
        return self.error > HARMFUL_ERROR or self.hold < HARMFUL_HOLD

    @property
    def missed(self) -> bool:
        """Called ok although it is harmful."""
        return self.level == "ok" and self.harmful

    @property
    def named(self) -> bool:
        """The right name comes first."""
        return self.matches(self.first)

    def matches(self, name: str) -> bool:
        """Tell whether a name is a right one."""
        return any(
            name == right or name.startswith(f"{right}:") for right in self.corruption.expected
        )

    @property
    def sigmas(self) -> float:
        """How far the size is off, in its sigmas; NaN where there is no size."""
        if self.corruption.size is None or not np.isfinite(self.size) or not self.named:
            return float("nan")
        if self.sigma == 0:
            return 0.0 if abs(self.size / self.corruption.size - 1) < 1e-3 else np.inf
        return abs(self.size - self.corruption.size) / self.sigma

    def row(self) -> list[str]:
        """Return the outcome as text."""
        size = (
            ""
            if not np.isfinite(self.size) or self.corruption.size is None
            else (f"{self.size:.4g} +- {self.sigma:.2g} / {self.corruption.size:.4g}")
        )
        mark = "" if not self.missed else "invisible" if self.hidden else "MISSED"
        other = (
            "" if self.named else ("alike" if any(self.matches(a) for a in self.alike) else "other")
        )
        return [
            self.robot,
            self.corruption.name,
            self.level,
            self.first,
            other,
            size,
            "" if np.isnan(self.sigmas) else f"{self.sigmas:.1f}",
            "" if np.isnan(self.error) else f"{100 * self.error:.1f} %",
            "" if np.isnan(self.hold) else f"{100 * self.hold:.0f} %",
            mark or self.note,
        ]


HEADER = [
    "robot",
    "mistake",
    "level",
    "first name",
    "",
    "size found / true",
    "sigmas",
    "error",
    "hold",
    "",
]


def trial(stage: Stage, corruption: Corruption, seed: int = 1) -> Outcome:
    """Corrupt, identify, judge, diagnose and compare with the truth."""
    logs = [corruption.spoil(stage.clean(0, seed)).recording]
    spoil = corruption.other or corruption.spoil
    held_out = logs if corruption.reuse else [spoil(stage.clean(1, seed)).recording]
    try:
        result = identify(stage.model, logs, held_out=held_out, tie_legs=stage.tied)
    except GoughError as error:
        return _refused(stage, corruption, logs, held_out, error)
    found = result.diagnosis
    error, hold = _on_clean(stage, corruption, result, seed)
    first, size, sigma, alike = _first(found)
    warned = [notice.rule for notice in result.notices if notice.level != "info"]
    if not first and warned:
        first = warned[0]
    if corruption.expected == ("same log",) and "same log" in warned:
        first = "same log"
    if corruption.expected == ("data",) and set(BROKEN_CHANNEL_RULES) & set(warned):
        first = "data"
    return Outcome(
        robot=stage.name,
        corruption=corruption,
        level=result.level,
        first=first,
        size=size,
        sigma=sigma,
        alike=alike,
        error=error,
        hold=hold,
        hidden=stage.hidden(corruption) if result.level == "ok" else corruption.invisible,
    )


def _first(found: Diagnosis | None) -> tuple[str, float, float, tuple[str, ...]]:
    if found is None or not found.mistakes:
        return "", float("nan"), float("nan"), ()
    m = found.mistakes[0].to_dict()
    return (
        f"{m['name']}: {m['place']}",
        m["size"],
        m["std"],
        tuple(a.replace(" of ", ": ", 1) for a in m["alike"]),
    )


def _refused(
    stage: Stage,
    corruption: Corruption,
    logs: list[Recording],
    held_out: list[Recording],
    error: GoughError,
) -> Outcome:
    """The identification stops with an error: ask the diagnosis what it is."""
    try:
        first, size, sigma, alike = _first(
            diagnose(stage.model, logs, held_out=held_out, tie_legs=stage.tied)
        )
        note = "refused"
    except GoughError:
        first, size, sigma, alike = "", float("nan"), float("nan"), ()
        note = f"refused: {str(error)[:60]}"
    if corruption.expected == ("data",):
        first = "data"
    return Outcome(
        robot=stage.name,
        corruption=corruption,
        level="error",
        first=first,
        size=size,
        sigma=sigma,
        alike=alike,
        error=float("nan"),
        hold=float("nan"),
        note=note,
    )


def _on_clean(
    stage: Stage, corruption: Corruption, result: Identification, seed: int
) -> tuple[float, float]:
    """Return the error on the clean held-out log, and the share of intervals that hold in the worst
    class.
    """
    clean = stage.clean(1, seed).recording
    part = prepare(stage.model, [clean], result.base, gains=result.gains).regressions
    error = float(np.sqrt(np.mean(validate(result.estimate, part).relative ** 2)))
    held: dict[str, list[bool]] = {}
    for noise in range(NOISES):
        estimate = result.estimate
        if noise:
            log = corruption.spoil(stage.clean(0, seed + 100 * noise)).recording
            try:
                estimate = identify(stage.model, [log], tie_legs=stage.tied).estimate
            except GoughError:
                continue
        interval = estimate.interval()
        for name, (low, high) in zip(estimate.parameters, interval):
            kind = "inertial" if name.standard.inertial else "friction"
            if name in stage.truth:
                held.setdefault(kind, []).append(bool(low <= stage.truth[name] <= high))
    return error, min(float(np.mean(each)) for each in held.values())


# -- false alarms


def coloured(
    recording: Recording, rng: np.random.Generator, truth: Recording, memory: float = 0.9
) -> Recording:
    """Return a recording whose effort noise has the same variance but a memory of some samples."""
    kind = "effort" if recording.effort is not None else "current"
    noise = getattr(recording, kind) - getattr(truth, kind)
    fresh = rng.standard_normal(noise.shape) * noise.std(axis=0) * np.sqrt(1 - memory**2)
    out = np.empty_like(fresh)
    value = rng.standard_normal(noise.shape[1]) * noise.std(axis=0)
    for k, step in enumerate(fresh):
        value = memory * value + step
        out[k] = value
    return replace(recording, **{kind: getattr(truth, kind) + out})


def clean_trial(stage: Stage, seed: int, *, colour: bool, periodic: bool) -> Identification:
    """Identify from clean logs."""
    from gough.mechanism import Noise

    logs = []
    for run in (0, 1):
        log = stage.clean(run, seed, PERIODS if periodic else 3).recording
        if colour:
            truth = record(repeated(stage.runs[run], PERIODS if periodic else 3), noise=Noise())
            log = coloured(log, np.random.default_rng((run, seed)), truth)
        logs.append(log if periodic else replace(log, period_samples=None))
    return identify(stage.model, logs[:1], held_out=logs[1:], tie_legs=stage.tied)


def false_alarms(
    count: int, robots: tuple[str, ...] = (*ROBOTS, "redundant"), executor: Executor | None = None
) -> Iterator[list[str]]:
    """Yield the verdicts of clean trials: white and coloured noise, with and without periods."""
    tasks = [(robots[k % len(robots)], k, k // len(robots)) for k in range(count)]
    for _, row in (executor or InProcess()).run(false_alarm, tasks):
        yield row


def false_alarm(task: tuple[str, int, int]) -> list[str]:
    """Return the verdict of one clean trial: robot, number, and which kinds of noise and motion."""
    name, k, kinds = task
    colour, periodic = bool(kinds % 2), bool(kinds // 2 % 2 == 0)
    kind = f"{'coloured' if colour else 'white'}, {'periods' if periodic else 'no periods'}"
    try:
        result = clean_trial(stage_of(name), 1000 + k, colour=colour, periodic=periodic)
        warned = [f"{n.rule}: {n}" for n in result.notices if n.level != "info"]
        return [name, kind, result.level, "; ".join(warned)[:160]]
    except GoughError as error:
        return [name, kind, "error", str(error)[:160]]


@lru_cache
def stage_of(name: str) -> Stage:
    """Return the stage of a robot, once for each process."""
    return Stage(name)


def one_trial(task: tuple[str, int]) -> Outcome:
    """Return the outcome of one corruption of a robot, by its number; what spoils a log cannot
    travel and stays.
    """
    stage = stage_of(task[0])
    outcome = trial(stage, list(corruptions(stage))[task[1]])
    return replace(outcome, corruption=replace(outcome.corruption, spoil=unspoilt, other=None))


def unspoilt(log: Log) -> Log:
    """Return a log as it is."""
    return log


def summary(outcomes: list[Outcome]) -> list[str]:
    """Return the shares asked for."""
    seen = [o for o in outcomes if not o.hidden]
    missed = [o for o in seen if o.missed]
    named = [o for o in seen if o.named]
    alike = [o for o in seen if not o.named and any(o.matches(a) for a in o.alike)]
    sized = [o for o in named if np.isfinite(o.sigmas) or o.sigmas == np.inf]
    hidden = [o for o in outcomes if o.hidden and o.level == "ok"]
    lines = [
        f"{len(outcomes)} corruptions, {len(seen)} of them visible: {len(missed)} harmful ones "
        f"called ok",
        f"right name first: {len(named)} of {len(seen)} "
        f"({100 * len(named) / max(len(seen), 1):.0f} %), among "
        f"those that cannot be told apart: {len(alike)} more",
        f"size within three sigmas: {sum(o.sigmas <= 3 for o in sized)} of {len(sized)} that have "
        f"one",
    ]
    return lines + [
        f"invisible, called ok: {o.robot}, {o.corruption.name}: {o.hidden}" for o in hidden
    ]


def main() -> None:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("robots", nargs="*", default=list(ROBOTS))
    parser.add_argument("-m", "--mistake", default="", help="only mistakes whose name holds this")
    parser.add_argument("--clean", type=int, default=0, help="so many clean trials instead")
    parser.add_argument("--workers", type=int, default=1, help="processes that share the work")
    parser.add_argument("--small", action="store_true", help="one clean trial of the five-bar")
    asked = parser.parse_args()
    if asked.small:
        asked.robots = ["five_bar"]
        asked.clean = 1
    executor = WorkSettings(workers=asked.workers).executor
    if asked.clean:
        robots = tuple(asked.robots) if asked.robots != list(ROBOTS) else (*ROBOTS, "redundant")
        rows = []
        for row in false_alarms(asked.clean, robots, executor):
            rows.append(row)
            print(" | ".join(row), flush=True)
        bad = sum(row[2] != "ok" for row in rows)
        print(f"{bad} of {len(rows)} clean trials not ok ({100 * bad / len(rows):.0f} %)")
        return
    tasks = [
        (name, k)
        for name in asked.robots
        for k, corruption in enumerate(corruptions(stage_of(name)))
        if asked.mistake in corruption.name
    ]
    outcomes: dict[int, Outcome] = {}
    print(" | ".join(HEADER), flush=True)
    for k, outcome in executor.run(one_trial, tasks):
        if isinstance(outcome, Exception):
            raise outcome
        outcomes[k] = outcome
        print(" | ".join(outcome.row()), flush=True)
    print("\n".join(summary([outcomes[k] for k in sorted(outcomes)])))


if __name__ == "__main__":
    main()
