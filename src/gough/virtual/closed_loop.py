"""Closed-loop experiments on the virtual robot."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from gough.core.arrays import FloatArray, check_finite, check_shape
from gough.core.blas import one_blas_thread
from gough.core.display import check_type
from gough.core.errors import InvalidInput, SimulationFailed
from gough.core.motion import Motion
from gough.core.options import Settings, merge_settings, option, with_settings
from gough.core.trajectory import Trajectory
from gough.engine.model import Model, Robot, as_model
from gough.engine.stepping import held_step_kernel
from gough.virtual.controllers import (
    PID,
    CompiledLaw,
    ComputedTorque,
    Controller,
    ControlSetup,
    RobotModel,
    for_motors,
)
from gough.virtual.plant import (
    STABLE,
    Actuator,
    GoughPlant,
    IdealDrive,
    Plant,
    PlantFactory,
    PlantSettings,
    count_substeps,
    friction_rate,
)
from gough.virtual.reference import build_reference
from gough.virtual.simulation import Feedback, Simulation

# By name: from the robot and the payload of the first trial. A controller of one's own is passed as
# an object.
CONTROLLERS: dict[str, Callable[[Model, FloatArray], Controller]] = {
    "pid": lambda model, load: PID(),
    "pid+": lambda model, load: PID(velocity_feedforward=True),
    "feedforward": lambda model, load: PID(feedforward=RobotModel(model=model, load=load)),
    "ctc": lambda model, load: ComputedTorque(),
}
# By name: module and function, imported when asked for.
PLANTS = {
    "gough": ("gough.virtual.plant", "GoughPlant"),
    "pinocchio": ("gough.virtual.pinocchio_plant", "pinocchio_plant"),
    "mujoco": ("gough.virtual.mujoco_plant", "mujoco_plant"),
}
# default dead band of friction, relative to the largest speed of a joint along the reference
BAND = 5e-3
STEPS = 12e3  # integrator steps in a second beyond which the default dead band is widened
TRUSTED = 1e-6  # check value of the closures beyond which the robot is as good as singular
LOGGED = (
    "q",
    "velocity",
    "acceleration",
    "effort",
    "mean_effort",
)  # what a simulation keeps of every sample
TROUBLES = (
    "the loop is unstable: the robot leaves its reference",
    "the loop is unstable: a motor hammers between its limits",
    "the robot has run into a singularity or out of its workspace",
)
TOGETHER = 4096  # integrator steps of all lanes in a block: its arrays stay within a few megabytes


class Block(NamedTuple):
    """What happened at successive controller samples, (t, k, ...); position and efforts of the
    motors, (t, k, a).
    """

    position: FloatArray
    command: FloatArray  # asked of the drives, within their limits
    free: FloatArray  # one where a motor was not at its limit
    effort: FloatArray  # of the drives after the sample
    before: FloatArray  # and before it
    q: FloatArray  # these as in `Sample`
    velocity: FloatArray
    acceleration: FloatArray
    check: FloatArray


def compiled_blocks(
    settings: PlantSettings,
    law: CompiledLaw,
    start: FloatArray,
    drives: FloatArray,
    holding: FloatArray,
) -> Iterator[Block]:
    """Run a law on our own plant with ideal drives, all of it machine code.

    Two kernels are bound to arrays that hold the state of every integrator step of a block of
    controller periods: one for the controller's sample, which writes the efforts into the state,
    one for the steps of the robot, each of which writes the state that the next one reads (see
    `Kernel.bind`). Trials are the lanes; one robot alone has kernels of one lane.

    Args:
        start: State [q, v, lags] of every trial, (k, n + m + x).
        drives: Ratio of given to wanted effort and limits of the motors, (2a,).
        holding: Efforts before the first sample, (k, a).
    """
    model, substeps, trials = settings.model, settings.substeps, settings.trials
    step = held_step_kernel(model, lanes=law.kernel.lanes)
    n, m, a = len(model.home), model.degrees_of_freedom, len(model.actuated)
    lanes = -(-trials // step.lanes) * step.lanes
    own = np.minimum(np.arange(lanes), trials - 1)  # idle lanes repeat the last trial
    total = len(law.reference)
    count = min(total, max(1, TOGETHER // (substeps * lanes)))
    steps = count * substeps
    state, seen = (
        np.empty((steps + 1, lanes, start.shape[1] + a)),
        np.empty((steps, lanes, n + m + 1)),
    )
    memory = np.empty((steps + substeps, lanes, law.memory.shape[1] + a))
    reference = np.empty((steps, lanes, law.reference.shape[1]))
    robot = settings.constants
    constants = robot if robot.ndim == 1 else np.tile(robot[own], (steps, 1))

    def flat(array: FloatArray) -> FloatArray:
        return array.reshape(-1, array.shape[-1])

    control = law.kernel.bind(
        [
            flat(state[:-1]),
            flat(memory[:steps]),
            flat(reference),
            np.concatenate([drives, law.constants]),
        ],
        [flat(state[:-1]), flat(memory[substeps:])],
    )
    move = step.bind([flat(state[:-1]), constants], [flat(state[1:]), flat(seen)])
    state[0] = np.column_stack([start, holding])[own]
    memory[0] = np.column_stack([law.memory, np.ones((trials, a))])[own]
    before = holding
    for first in range(0, total, count):
        ahead = law.reference[first : first + count]
        end = len(ahead) * substeps
        reference[:end:substeps] = ahead[:, None]
        for at in range(0, end * lanes, substeps * lanes):
            control(at, at + lanes)
            move(at, at + substeps * lanes)
        here, there = state[:end:substeps, :trials], seen[:end:substeps, :trials]
        effort = here[:, :, -a:].copy()
        yield Block(
            position=here[:, :, list(model.actuated)],
            command=effort,
            effort=effort,
            before=np.concatenate([before[None], effort[:-1]]),
            q=there[:, :, :n],
            velocity=here[:, :, n : n + m],
            acceleration=there[:, :, n : n + m],
            free=memory[substeps : end + 1 : substeps, :trials, -a:],
            check=seen[:end, :trials, -1].reshape(len(ahead), substeps, trials).max(axis=1),
        )
        state[0], memory[0], before = state[end], memory[end], effort[-1]


def stepped_blocks(
    settings: PlantSettings,
    plant: Plant,
    state: Any,
    law: Controller,
    setup: ControlSetup,
    actuator: Actuator,
    drives: tuple[FloatArray, FloatArray],
    holding: FloatArray,
    feedback: Feedback | None,
) -> Iterator[Block]:
    """Step controller, drives and robot, sample by sample; whatever they are."""
    ratio, limit = drives
    loop, drive = law.start(setup), actuator.start(holding)
    measure = None if feedback is None else feedback.start(*plant.read(state), settings.period)
    before, free = holding, np.ones_like(holding)
    for k in range(len(setup.reference)):
        true, velocity = plant.read(state)
        position, velocity = (true, velocity) if measure is None else measure(true)
        wanted = loop(k, position, velocity, free) * ratio
        command = np.clip(wanted, -limit, limit)
        free = (command == wanted).astype(float)
        efforts, drive = actuator.drive(drive, command, settings.period, 2 * settings.substeps + 1)
        sample, state = plant.step(state, efforts)
        yield Block(*(x[None] for x in (true, command, free, efforts[0], before, *sample)))
        before = efforts[-1]


def watched(model: Model, motion: Motion, blocks: Iterator[Block]) -> Iterator[tuple[int, Block]]:
    """Yield blocks with the sample they begin at, as long as nothing has gone wrong.

    `SimulationFailed` with time and joint at the first sample at which a motor was half its stroke
    away from its reference, or nowhere, or hammered between its limits, or the loops could not be
    closed any more. Hammering is a leaky count of jumps from one limit to the other within a
    sample: a stable loop may sit at a limit, but comes to the other one through what lies between.
    """
    motors, k = list(model.actuated), 0
    joints = [model.mechanism.joints[i] for i in motors]
    reach = np.array(
        [
            0.5 * float(np.ptp(j.limits.position))
            if j.limits.position
            else 1.0
            if j.kind == "revolute"
            else model.loops.length
            for j in joints
        ]
    )
    last, reversals = np.zeros(len(motors)), np.zeros(len(motors))
    for block in blocks:
        target = motion.q[k : k + len(block.command), motors][:, None]
        away, hammered = np.abs(block.position - target) / reach, np.zeros(block.command.shape)
        if block.free.all():
            reversals, last = 0.999 ** len(hammered) * reversals, np.zeros(hammered.shape[1:])
        else:
            for i, held in enumerate(np.where(block.free == 0, block.command, 0.0)):
                reversals = 0.999 * reversals + (held * last < 0)
                last, hammered[i] = held, reversals
        bad = np.array(
            [
                ~(away < 1).all(axis=(1, 2)),
                (hammered > 10).any(axis=(1, 2)),
                ~(block.check < TRUSTED).all(axis=1),
            ]
        )
        if bad.any():
            i = int(np.argmax(bad.any(axis=0)))
            trouble = int(np.argmax(bad[:, i]))
            badness = (away[i], hammered[i], np.abs(block.q[i][:, motors] - target[i]) / reach)[
                trouble
            ]
            motor = int(np.argmax(np.where(np.isfinite(badness), badness, np.inf).max(axis=0)))
            name, time = joints[motor].name, float(motion.time[k + i])
            raise SimulationFailed(
                f"{TROUBLES[trouble]} at t = {time:.4g} s, joint '{name}'; lower the gains or the "
                "bandwidth, raise the controller's rate, or keep away from singular poses",
                time=time,
                joint=name,
            )
        yield k, block
        k += len(block.command)


@dataclass(frozen=True, kw_only=True)
class SimulateSettings(Settings):
    """How an experiment on the virtual robot is run."""

    controller: str | Controller = option(
        "ctc",
        "Control law; pid+ has velocity feed-forward, feedforward the a-priori model, ctc is "
        "computed torque.",
        choices=lambda: CONTROLLERS,
    )
    plant: str | PlantFactory = option(
        "gough",
        "Whose equations the robot obeys: gough, or an independent one.",
        choices=lambda: PLANTS,
    )
    payload: str | Sequence[str | None] | None = option(
        None, "Name of the payload carried; in Python also one for each trial."
    )
    channels: Mapping[str, float] | None = option(
        None,
        "Values of recorded channels that joint terms depend on, such as temperature=35; the robot "
        "file's by "
        "default.",
    )
    periods: int | None = option(
        None,
        "Periods to record; all of the trajectory's by default, and 10 in `gough simulate`.",
        least=1,
    )
    rate: float | None = option(
        None, "Rate of the controller; the robot file's by default.", unit="Hz", above=0
    )
    sampling: float | None = option(
        None,
        "Rate of the record, a whole fraction of the controller's; the same by default.",
        unit="Hz",
        above=0,
    )
    lead_in: int = option(1, "Periods run before the first recorded one.", least=0)
    dead_band: float | Sequence[float] | None = option(
        None,
        "Velocity band in which Coulomb friction grows linearly, of all or of each joint; 0.5 % of "
        "the largest "
        "speeds along the reference by default, wider where the integrator would need tiny steps.",
        unit="m/s or rad/s",
        above=0,
    )
    substeps: int | None = option(
        None, "Integrator steps in a controller period; as the dynamics need by default.", least=1
    )


@with_settings(SimulateSettings)
@one_blas_thread
def simulate(
    model: Robot,
    trajectory: Trajectory,
    settings: SimulateSettings | None = None,
    *,
    values: ArrayLike | Mapping[str, float] | None = None,
    gains: ArrayLike | None = None,
    believed_gains: ArrayLike | None = None,
    actuator: Actuator | None = None,
    feedback: Feedback | None = None,
    progress: Callable[[float], None] | None = None,
    **options: Any,
) -> Simulation:
    """Run a robot along a trajectory in closed loop and return its true motion and efforts.

    Trials with different parameters or payloads advance together. Sensor noise is drawn afterwards
    by `record`, so experiments that differ only in noise are one simulation. What the robot cannot
    follow is an `InvalidTrajectory` before anything moves, a loop that is unstable or meets a
    singularity a `SimulationFailed`; both with time and joint.

    Args:
        trajectory: Of task or actuated coordinates.
        settings: How to run; single options may be given by name instead.
        values: True standard parameters, (p,) or (k, p), or changes by name; a priori by default.
        gains: True drive gains, (a,); the robot file's by default.
        believed_gains: Drive gains by which the controller turns efforts into currents, (a,); the
            true ones by default.
        actuator: Ideal drive by default.
        feedback: Let the controller see measured positions; true ones by default.
        progress: Called now and then with the fraction done.
    """
    chosen = merge_settings(SimulateSettings, settings, options)
    model = as_model(model)
    if chosen.channels:
        model = Model(model.mechanism.with_channels(chosen.channels))
    check_type(
        trajectory,
        Trajectory,
        "the trajectory",
        "what gough.design or gough.load_trajectory returned",
    )
    rate = chosen.rate or model.mechanism.noise.rate
    sampling = chosen.sampling or rate
    every = round(rate / sampling)  # controller samples that make one recorded sample
    if every < 1 or abs(rate / sampling - every) > 1e-9 * every:
        raise InvalidInput(
            f"the controller's rate of {rate:g} Hz is not a whole multiple of the sampling rate of "
            f"{sampling:g} Hz",
            rate=rate,
            sampling=sampling,
        )
    payloads, load, chi = _trials(model, chosen.payload, values)
    motion, lead, period = build_reference(model, trajectory, rate, chosen.periods, chosen.lead_in)
    band, fastest = _dead_band(model, motion, chosen.dead_band, chi, load)
    robot = PlantSettings(
        model=model,
        values=chi,
        load=load,
        dead_band=band,
        period=1 / rate,
        substeps=chosen.substeps or count_substeps(fastest, 1 / rate),
    )
    plant, controller = chosen.plant, chosen.controller
    factory = _plant_factory(plant) if isinstance(plant, str) else plant
    law = CONTROLLERS[controller](model, load[0]) if isinstance(controller, str) else controller
    in_file = [
        joint.gain for joint in model.mechanism.joints if joint.actuated and joint.gain is not None
    ]
    if gains is None and len(in_file) == len(model.actuated):
        gains = in_file
    true_gains = None if gains is None else _gains(model, gains)
    ratio = np.ones(
        len(model.actuated)
    )  # effort the drive gives for an effort the controller asks for
    if believed_gains is not None:
        if true_gains is None:
            raise InvalidInput(
                f"believed drive gains are given, but '{model.mechanism.name}' has no true ones; "
                f"give "
                "gains as well"
            )
        ratio = true_gains / _gains(model, believed_gains)
    kept: dict[str, list[FloatArray]] = {name: [] for name in LOGGED}
    saturated = np.zeros((len(chi), len(model.actuated)))
    for k, block in watched(
        model,
        motion,
        _blocks(robot, motion, factory(robot), law, actuator or IdealDrive(), ratio, feedback),
    ):
        at = np.arange(max(lead - k, 0), len(block.command))
        saturated += (1 - block.free[at]).sum(axis=0)
        at = at[(k + at - lead) % every == 0]
        for name, parts in kept.items():
            own = (
                (block.before + block.effort) / 2 if name == "mean_effort" else getattr(block, name)
            )
            parts.append(own[at].swapaxes(0, 1))
        done = k + len(block.command)
        if progress is not None and (done % 200 < len(block.command) or done == len(motion)):
            progress(done / len(motion))
    recorded = slice(lead, None, every)
    return Simulation(
        model=model,
        plant=plant if isinstance(plant, str) else getattr(plant, "__name__", "own"),
        controller=law.name,
        time=motion.time[recorded],
        reference=motion.q[recorded][:, list(model.actuated)],
        dead_band=band,
        gains=true_gains,
        payloads=payloads,
        period_samples=period // every if period and period % every == 0 else None,
        settings=chosen,
        saturated=saturated,
        **{name: np.concatenate(parts, axis=1) for name, parts in kept.items()},
    )


def _blocks(
    settings: PlantSettings,
    motion: Motion,
    plant: Plant,
    law: Controller,
    actuator: Actuator,
    ratio: FloatArray,
    feedback: Feedback | None,
) -> Iterator[Block]:
    """Return the run of a controller, its drives and a robot, as machine code where all three have
    it.
    """
    model, trials = settings.model, settings.trials
    limit = np.array([model.mechanism.joints[i].limits.effort or np.inf for i in model.actuated])
    q, qd = (np.repeat(x[:1], trials, axis=0) for x in (motion.q, motion.qd))
    still = np.zeros((trials, model.degrees_of_freedom))
    held = model.effort_kernel()(
        q, still, still, settings.dead_band, settings.values, settings.load
    )[0]
    holding = model.min_norm_motor_effort(
        q, held
    )  # the efforts that hold the robot at rest, (k, a)
    setup = ControlSetup(
        model=model,
        reference=motion,
        period=settings.period,
        holding=holding / ratio,
        dead_band=settings.dead_band,
        load=settings.load[0],
    )
    state = plant.start(q, qd)
    if (
        type(plant) is GoughPlant
        and type(actuator) is IdealDrive
        and feedback is None
        and not model.loops.redundant
    ):
        compiled = getattr(law, "compiled", lambda setup: None)(setup)
        if compiled is not None:
            return compiled_blocks(
                settings, compiled, state, np.concatenate([ratio, limit]), holding
            )
    return stepped_blocks(
        settings, plant, state, law, setup, actuator, (ratio, limit), holding, feedback
    )


def _trials(
    model: Model,
    payload: str | Sequence[str | None] | None,
    values: ArrayLike | Mapping[str, float] | None,
) -> tuple[tuple[str | None, ...], FloatArray, FloatArray]:
    """Return payload names (k,), loads (k, 10 l) and parameters (k, p)."""
    names = (payload,) if payload is None or isinstance(payload, str) else tuple(payload)
    load = np.array([model.load(name) for name in names])
    if values is None or isinstance(values, Mapping):
        chi = model.standard_values(values)[None]
    else:
        chi = np.atleast_2d(np.asarray(values, dtype=float))
    check_shape(chi, (None, len(model.mechanism.standard)), "parameter values")
    check_finite(chi, "parameter values")
    trials = max(len(names), len(chi))
    if not names or {len(names), len(chi)} - {1, trials}:
        raise InvalidInput(
            f"{len(names)} payloads for {len(chi)} parameter sets; expected as many of both, or "
            f"one",
            payloads=len(names),
            sets=len(chi),
        )
    return (
        names * (trials // len(names)),
        np.array(np.broadcast_to(load, (trials, load.shape[1]))),
        np.array(np.broadcast_to(chi, (trials, chi.shape[1]))),
    )


def _dead_band(
    model: Model,
    motion: Motion,
    given: ArrayLike | None,
    values: FloatArray,
    load: FloatArray,
) -> tuple[FloatArray, float]:
    """Return the velocity band of Coulomb friction, (n,), and the rate of friction inside it: see
    `simulate`.
    """
    some = motion.q[:: max(1, len(motion) // 20)]
    if given is not None:
        band = model._band(given)
        return band, friction_rate(model, values, load, band, some)
    speed: FloatArray = np.abs(motion.qd).max(axis=0)
    revolute = np.array([joint.kind == "revolute" for joint in model.mechanism.joints])
    band = np.empty_like(speed)
    for kind in (revolute, ~revolute):
        if kind.any():
            band[kind] = BAND * np.maximum(speed[kind], max(0.1 * speed[kind].max(), 1e-2))
    fastest = friction_rate(model, values, load, band, some)
    wider = max(1.0, fastest / (STABLE * STEPS))
    return wider * band, fastest / wider


def _gains(model: Model, gains: ArrayLike) -> FloatArray:
    result = for_motors(gains, len(model.actuated), "drive gains")
    if not (result > 0).all():
        raise InvalidInput(f"drive gains are {result.tolist()}, expected numbers above zero")
    return result


def _plant_factory(name: str) -> PlantFactory:
    module, factory = PLANTS[name]
    try:
        found: PlantFactory = getattr(import_module(module), factory)
    except ImportError as error:
        raise InvalidInput(
            f"the plant '{name}' needs another package ({error.name} is missing); install it with "
            "pip install 'gough[plant]'",
            name=name,
        ) from error
    return found
