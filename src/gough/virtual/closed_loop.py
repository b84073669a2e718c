"""Closed-loop experiments on the virtual robot."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike

from gough.core.arrays import FloatArray, check_finite, check_shape, check_type
from gough.core.blas import one_blas_thread
from gough.core.errors import InvalidInput
from gough.core.motion import Motion
from gough.core.options import Settings, merge_settings, option, with_settings
from gough.core.trajectory import Trajectory
from gough.engine.model import Model, Robot, as_model
from gough.virtual.control_loop import (
    Drives,
    LoopSamples,
    StabilityCheck,
    run_compiled,
    run_stepped,
)
from gough.virtual.controllers import (
    PID,
    ComputedTorque,
    Controller,
    ControlSetup,
    RobotModel,
    for_motors,
)
from gough.virtual.plant import (
    FRICTION_STEP_LIMIT,
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

# By name: from the robot and the payload of the first variant. Other
# controllers are passed as objects.
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
# Default dead band of friction, relative to the largest speed of a
# joint along the reference.
RELATIVE_DEAD_BAND = 5e-3
# integrator steps beyond which the default dead band is widened
MAX_STEPS_PER_SECOND = 12e3
# of the reference at which the rate of friction is computed
FRICTION_RATE_POSES = 20
PROGRESS_SAMPLES = 200  # controller samples between two calls of `progress`


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
        "Library that computes the motion of the robot: gough, or an independent one.",
        choices=lambda: PLANTS,
    )
    payload: str | Sequence[str | None] | None = option(
        None,
        "Name of the payload carried; in Python also one for each variant.",
    )
    channels: Mapping[str, float] | None = option(
        None,
        "Values of recorded channels that joint terms depend on, such as temperature=35; the robot "
        "file's by default.",
    )
    periods: int | None = option(
        None,
        "Periods to record; all of the trajectory's by default, and 10 in `gough simulate`.",
        least=1,
    )
    rate: float | None = option(
        None,
        "Rate of the controller; the robot file's by default.",
        unit="Hz",
        above=0,
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
        "Velocity band in which Coulomb friction grows linearly, of all or of each joint; the "
        "robot file's friction_width by default, else 0.5 % of the largest speeds along the "
        "reference, wider where the integrator would need tiny steps.",
        unit="m/s or rad/s",
        above=0,
    )
    substeps: int | None = option(
        None,
        "Integrator steps in a controller period; as the dynamics need by default.",
        least=1,
    )


class Designed(Protocol):
    """What `gough.design` returns: it has a trajectory."""

    @property
    def trajectory(self) -> Trajectory:
        """The trajectory of the first run."""
        ...


@with_settings(SimulateSettings)
@one_blas_thread
def simulate(
    model: Robot,
    trajectory: Trajectory | Designed,
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

    Variants of the robot with different parameters or payloads advance
    together. Sensor noise is drawn afterwards by `record`, so
    experiments that differ only in noise are one simulation.

    Args:
        trajectory: Of task or actuated coordinates; of a design the
            first one.
        settings: How to run; single options may be given by name
            instead.
        values: True standard parameters, (p,) or (k, p), or changes by
            name; a priori by default.
        gains: True drive gains, (a,); the robot file's by default.
        believed_gains: Drive gains with which the controller converts
            efforts to currents, (a,); the true ones by default.
        actuator: Ideal drive by default.
        feedback: Let the controller see measured positions; true ones
            by default.
        progress: Called every 200 samples with the fraction done.

    Raises:
        InvalidTrajectory: The robot cannot follow the trajectory; with
            time and joint.
        SimulationFailed: The loop is unstable or meets a singularity;
            with time and joint.
    """
    chosen = merge_settings(SimulateSettings, settings, options)
    model = as_model(model)
    if chosen.channels:
        model = Model(model.mechanism.with_channels(chosen.channels))
    path = _path_of(trajectory)
    rate = chosen.rate or model.mechanism.noise.rate
    every = _recorded_every(rate, chosen.sampling or rate)
    payloads, load, parameters = _variants(model, chosen.payload, values)
    motion, lead, period = build_reference(model, path, rate, chosen.periods, chosen.lead_in)
    poses = motion.q[:: max(1, len(motion) // FRICTION_RATE_POSES)]
    dead_band = _dead_band(model, motion, chosen.dead_band, parameters, load, poses)
    factory, plant_name = _plant_factory(chosen.plant)
    substeps = chosen.substeps
    if not substeps:
        implicit = bool(getattr(factory, "implicit_friction", False))
        stiffest = friction_rate(model, parameters, load, dead_band, poses, coulomb=not implicit)
        fewest = 1 if implicit and actuator is None else 2
        substeps = count_substeps(stiffest, 1 / rate, fewest)
    plant_settings = PlantSettings(
        model=model,
        values=parameters,
        load=load,
        dead_band=dead_band,
        period=1 / rate,
        substeps=substeps,
    )
    law = chosen.controller
    if isinstance(law, str):
        law = CONTROLLERS[law](model, load[0])
    true_gains = _true_gains(model, gains)
    drives = Drives(
        ratio=_effort_ratio(model, true_gains, believed_gains),
        limit=_effort_limits(model),
    )
    samples = _run(
        plant_settings,
        motion,
        factory(plant_settings),
        law,
        actuator or IdealDrive(),
        drives,
        feedback,
    )
    log = _log_samples(model, motion, samples, lead, every, progress)
    recorded = slice(lead, None, every)
    return Simulation(
        model=model,
        plant=plant_name,
        controller=law.name,
        time=motion.time[recorded],
        q=log.q,
        velocity=log.velocity,
        acceleration=log.acceleration,
        effort=log.effort,
        mean_effort=log.mean_effort,
        reference=motion.q[recorded][:, list(model.actuated)],
        dead_band=dead_band,
        gains=true_gains,
        payloads=payloads,
        period_samples=period // every if period and period % every == 0 else None,
        settings=chosen,
        saturated=log.saturated,
    )


def _path_of(trajectory: Trajectory | Designed) -> Trajectory:
    """Return a trajectory, of a design the first one; raise if it is none."""
    path: Any = trajectory
    if not isinstance(path, Trajectory):
        path = getattr(path, "trajectory", path)
    check_type(
        path,
        Trajectory,
        "the trajectory",
        "what gough.design or gough.load_trajectory returned",
    )
    assert isinstance(path, Trajectory)
    return path


class _LoopLog(NamedTuple):
    """The recorded samples of a loop; see `Simulation`."""

    q: FloatArray
    velocity: FloatArray
    acceleration: FloatArray
    effort: FloatArray
    mean_effort: FloatArray
    saturated: FloatArray


def _log_samples(
    model: Model,
    motion: Motion,
    blocks: Iterator[LoopSamples],
    lead: int,
    every: int,
    progress: Callable[[float], None] | None,
) -> _LoopLog:
    """Run a loop to its end and keep its recorded samples.

    Args:
        motion: The reference.
        lead: Samples of the lead-in, which are not recorded.
        every: Controller samples per recorded sample.
    """
    stability = StabilityCheck(model, motion)
    kept: list[list[FloatArray]] = []
    saturated: FloatArray = np.zeros(len(model.actuated))
    first = 0
    for block in blocks:
        stability.check(block, first)
        after_lead = np.arange(max(lead - first, 0), len(block.command))
        saturated = saturated + (1 - block.free[after_lead]).sum(axis=0)
        rows = after_lead[(first + after_lead - lead) % every == 0]
        recorded = (
            block.q,
            block.velocity,
            block.acceleration,
            block.effort,
            (block.effort_before + block.effort) / 2,
        )
        kept.append([signal[rows].swapaxes(0, 1) for signal in recorded])
        first += len(block.command)
        at_mark = first % PROGRESS_SAMPLES < len(block.command)
        if progress is not None and (at_mark or first == len(motion)):
            progress(first / len(motion))
    joined = [np.concatenate(signals, axis=1) for signals in zip(*kept)]
    return _LoopLog._make([*joined, saturated])


def _recorded_every(rate: float, sampling: float) -> int:
    """Return the number of controller samples per recorded sample."""
    every = round(rate / sampling)
    if every < 1 or abs(rate / sampling - every) > 1e-9 * every:
        raise InvalidInput(
            f"the controller's rate of {rate:g} Hz is not a whole multiple of the sampling rate of "
            f"{sampling:g} Hz",
            rate=rate,
            sampling=sampling,
        )
    return every


def _run(
    settings: PlantSettings,
    motion: Motion,
    plant: Plant,
    law: Controller,
    actuator: Actuator,
    drives: Drives,
    feedback: Feedback | None,
) -> Iterator[LoopSamples]:
    """Return the running loop, as machine code if controller, drives and plant allow it.

    Args:
        motion: The reference.
    """
    model = settings.model
    k = settings.n_variants
    q = np.repeat(motion.q[:1], k, axis=0)
    qd = np.repeat(motion.qd[:1], k, axis=0)
    holding = _holding_effort(settings, q)
    setup = ControlSetup(
        model=model,
        reference=motion,
        period=settings.period,
        holding=holding / drives.ratio,
        dead_band=settings.dead_band,
        load=settings.load[0],
    )
    state = plant.start(q, qd)
    own_plant = type(plant) is GoughPlant and type(actuator) is IdealDrive
    if own_plant and feedback is None and not model.loops.redundant and hasattr(law, "compiled"):
        compiled = law.compiled(setup)
        if compiled is not None:
            return run_compiled(settings, compiled, state, drives, holding)
    return run_stepped(settings, plant, state, law, setup, actuator, drives, holding, feedback)


def _holding_effort(settings: PlantSettings, q: FloatArray) -> FloatArray:
    """Return the motor efforts that hold each variant at rest in its configuration, (k, a)."""
    model = settings.model
    at_rest = np.zeros((len(q), model.degrees_of_freedom))
    kernel = model.effort_kernel()
    efforts = kernel(q, at_rest, at_rest, settings.dead_band, settings.values, settings.load)[0]
    return model.min_norm_motor_effort(q, efforts)


def _variants(
    model: Model,
    payload: str | Sequence[str | None] | None,
    values: ArrayLike | Mapping[str, float] | None,
) -> tuple[tuple[str | None, ...], FloatArray, FloatArray]:
    """Return payload names (k,), loads (k, 10 l) and parameters (k, p) of all variants."""
    names = (payload,) if payload is None or isinstance(payload, str) else tuple(payload)
    load = np.array([model.load(name) for name in names])
    if values is None or isinstance(values, Mapping):
        parameters = model.standard_values(values)[None]
    else:
        parameters = np.atleast_2d(np.asarray(values, dtype=float))
    check_shape(parameters, (None, len(model.mechanism.standard)), "parameter values")
    check_finite(parameters, "parameter values")
    k = max(len(names), len(parameters))
    if not names or {len(names), len(parameters)} - {1, k}:
        raise InvalidInput(
            f"{len(names)} payloads for {len(parameters)} parameter sets; expected as many of "
            "both, or one",
            payloads=len(names),
            sets=len(parameters),
        )
    return (
        names * (k // len(names)),
        np.array(np.broadcast_to(load, (k, load.shape[1]))),
        np.array(np.broadcast_to(parameters, (k, parameters.shape[1]))),
    )


def _dead_band(
    model: Model,
    motion: Motion,
    given: ArrayLike | None,
    values: FloatArray,
    load: FloatArray,
    poses: FloatArray,
) -> FloatArray:
    """Return the velocity band of Coulomb friction, (n,).

    By default that of the robot file, else a fraction of the largest
    speed of each joint along the reference; slow joints get at least a
    tenth of that of the fastest joint of their kind.

    Args:
        motion: The reference.
        given: Band asked for, of all or of each joint.
        poses: Some configurations of the reference, (s, n).
    """
    if given is not None:
        return model._band(given)
    speed: FloatArray = np.abs(motion.qd).max(axis=0)
    revolute = np.array([joint.kind == "revolute" for joint in model.mechanism.joints])
    band = np.empty_like(speed)
    for kind in (revolute, ~revolute):
        if kind.any():
            slowest = max(0.1 * speed[kind].max(), 1e-2)
            band[kind] = RELATIVE_DEAD_BAND * np.maximum(speed[kind], slowest)
    known = model.mechanism.friction_widths
    band = np.where(known > 0, known, band)
    rate = friction_rate(model, values, load, band, poses)
    widening = max(1.0, rate / (FRICTION_STEP_LIMIT * MAX_STEPS_PER_SECOND))
    return np.where(known > 0, band, widening * band)


def _true_gains(model: Model, gains: ArrayLike | None) -> FloatArray | None:
    """Return the true drive gains, (a,), those of the robot file by default; None without any."""
    if gains is not None:
        return _check_gains(model, gains)
    in_file = model.mechanism.drive_gains
    if len(in_file) < len(model.actuated):
        return None
    return _check_gains(model, list(in_file.values()))


def _effort_ratio(
    model: Model,
    true_gains: FloatArray | None,
    believed_gains: ArrayLike | None,
) -> FloatArray:
    """Return the effort that a drive gives over the effort that the controller wants, (a,)."""
    if believed_gains is None:
        return np.ones(len(model.actuated))
    if true_gains is None:
        raise InvalidInput(
            f"believed drive gains are given, but '{model.mechanism.name}' has no true ones; give "
            "gains as well"
        )
    return true_gains / _check_gains(model, believed_gains)


def _effort_limits(model: Model) -> FloatArray:
    """Return the effort limits of the motors, (a,); infinite without."""
    joints = [model.mechanism.joints[i] for i in model.actuated]
    return np.array([joint.limits.effort or np.inf for joint in joints])


def _check_gains(model: Model, gains: ArrayLike) -> FloatArray:
    """Return drive gains, one for each motor, (a,); raise unless all are positive."""
    checked = for_motors(gains, len(model.actuated), "drive gains")
    if not (checked > 0).all():
        raise InvalidInput(f"drive gains are {checked.tolist()}, expected numbers above zero")
    return checked


def _plant_factory(plant: str | PlantFactory) -> tuple[PlantFactory, str]:
    """Return the factory of a plant, given by name or itself, and the plant's name."""
    if not isinstance(plant, str):
        return plant, getattr(plant, "__name__", "own")
    module, name = PLANTS[plant]
    try:
        factory: PlantFactory = getattr(import_module(module), name)
    except ImportError as error:
        raise InvalidInput(
            f"the plant '{plant}' needs another package ({error.name} is missing); install it with "
            "pip install 'gough[plant]'",
            name=plant,
        ) from error
    return factory, plant
