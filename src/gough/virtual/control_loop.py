"""The running loop of controller, drives and robot, and the checks that it is stable."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from gough.core.arrays import FloatArray
from gough.core.errors import SimulationFailed
from gough.core.motion import Motion
from gough.engine.model import Model
from gough.engine.stepping import held_step_kernel
from gough.kernels.kernel import run_in_turns
from gough.mechanism.types import Joint
from gough.virtual.controllers import CompiledLaw, Controller, ControlSetup
from gough.virtual.plant import Actuator, Plant, PlantSettings
from gough.virtual.simulation import Feedback

# of the closures; beyond it the robot is nearly singular
MAX_CLOSURE_CHECK = 1e-6
# Integrator steps of all lanes in a block: its arrays stay within a few
# megabytes.
STEPS_PER_BLOCK = 4096
# per sample, of the count of jumps between the limits of a motor
REVERSAL_DECAY = 0.999
# jumps between the limits of a motor that a stable loop does not reach
MAX_REVERSALS = 10


class LoopSamples(NamedTuple):
    """What happened at t successive controller samples to k variants with a motors."""

    position: FloatArray  # true ones of the motors, (t, k, a)
    command: FloatArray  # to the drives, within their limits, (t, k, a)
    # one where a motor was not at its limit, else zero, (t, k, a)
    free: FloatArray
    effort: FloatArray  # of the drives after the sample, (t, k, a)
    effort_before: FloatArray  # of the drives before the sample, (t, k, a)
    q: FloatArray  # all coordinates, (t, k, n)
    velocity: FloatArray  # of the independent coordinates, (t, k, m)
    acceleration: FloatArray  # of the independent coordinates, (t, k, m)
    check: FloatArray  # error of the closures, (t, k)


class Drives(NamedTuple):
    """How drives change commands."""

    # given effort over wanted effort: wrong drive gains, (a,)
    ratio: FloatArray
    limit: FloatArray  # largest effort, (a,)


def run_compiled(
    settings: PlantSettings,
    law: CompiledLaw,
    start: FloatArray,
    drives: Drives,
    holding: FloatArray,
) -> Iterator[LoopSamples]:
    """Run a law on our own plant with ideal drives, all of it machine code.

    Two kernels are bound to arrays that hold the state of every
    integrator step of a block of controller periods: one for the
    controller's sample, which writes the efforts into the state, one
    for the steps of the robot, each of which writes the state that the
    next one reads (see `Kernel.bind`). Variants are the lanes; one
    robot alone has kernels of one lane.

    Args:
        start: State [q, v, internal states] of every variant, (k, n + m + x).
        holding: Efforts before the first sample, (k, a).
    """
    model = settings.model
    substeps = settings.substeps
    k = settings.n_variants
    n = len(model.home)
    m = model.degrees_of_freedom
    a = len(model.actuated)
    step = held_step_kernel(model, lanes=law.kernel.lanes)
    lanes = -(-k // step.lanes) * step.lanes
    variant_of_lane = np.minimum(np.arange(lanes), k - 1)  # idle lanes repeat the last variant
    n_samples = len(law.reference)
    block_samples = min(n_samples, max(1, STEPS_PER_BLOCK // (substeps * lanes)))
    steps = block_samples * substeps
    state = np.empty((steps + 1, lanes, start.shape[1] + a))
    outputs = np.empty((steps, lanes, n + m + 1))
    controller = np.empty((steps + substeps, lanes, law.state.shape[1] + a))
    reference = np.empty((steps, lanes, law.reference.shape[1]))
    plant_constants = settings.constants
    if plant_constants.ndim > 1:
        plant_constants = np.tile(plant_constants[variant_of_lane], (steps, 1))
    law_constants = np.concatenate([drives.ratio, drives.limit, law.constants])
    control = law.kernel.bind(
        [
            _rows(state[:-1]),
            _rows(controller[:steps]),
            _rows(reference),
            law_constants,
        ],
        [_rows(state[:-1]), _rows(controller[substeps:])],
    )
    move = step.bind(
        [_rows(state[:-1]), plant_constants],
        [_rows(state[1:]), _rows(outputs)],
    )
    state[0] = np.column_stack([start, holding])[variant_of_lane]
    controller[0] = np.column_stack([law.state, np.ones((k, a))])[variant_of_lane]
    effort_before = holding
    for first in range(0, n_samples, block_samples):
        block_reference = law.reference[first : first + block_samples]
        end = len(block_reference) * substeps
        reference[:end:substeps] = block_reference[:, None]
        run_in_turns(control, move, lanes, substeps * lanes, end * lanes)
        sample_states = state[:end:substeps, :k]
        sample_outputs = outputs[:end:substeps, :k]
        checks = outputs[:end, :k, -1].reshape(len(block_reference), substeps, k)
        effort = sample_states[:, :, -a:].copy()
        yield LoopSamples(
            position=sample_states[:, :, list(model.actuated)],
            command=effort,
            free=controller[substeps : end + 1 : substeps, :k, -a:],
            effort=effort,
            effort_before=np.concatenate([effort_before[None], effort[:-1]]),
            q=sample_outputs[:, :, :n],
            velocity=sample_states[:, :, n : n + m],
            acceleration=sample_outputs[:, :, n : n + m],
            check=checks.max(axis=1),
        )
        state[0] = state[end]
        controller[0] = controller[end]
        effort_before = effort[-1]


def _rows(array: FloatArray) -> FloatArray:
    """Return an array as a matrix with the same last axis."""
    return array.reshape(-1, array.shape[-1])


def run_stepped(
    settings: PlantSettings,
    plant: Plant,
    state: Any,
    law: Controller,
    setup: ControlSetup,
    actuator: Actuator,
    drives: Drives,
    holding: FloatArray,
    feedback: Feedback | None,
) -> Iterator[LoopSamples]:
    """Run any controller, drives and plant, sample by sample.

    Args:
        state: Of the plant at the start.
        holding: Efforts before the first sample, (k, a).
    """
    loop = law.start(setup)
    drive_state = actuator.start(holding)
    measure = None
    if feedback is not None:
        measure = feedback.start(*plant.read(state), settings.period)
    effort_before = holding
    free = np.ones_like(holding)
    for k in range(len(setup.reference)):
        true_position, velocity = plant.read(state)
        position = true_position
        if measure is not None:
            position, velocity = measure(true_position)
        wanted = loop(k, position, velocity, free) * drives.ratio
        command = np.clip(wanted, -drives.limit, drives.limit)
        free = (command == wanted).astype(float)
        efforts, drive_state = actuator.drive(
            drive_state, command, settings.period, 2 * settings.substeps + 1
        )
        sample, state = plant.step(state, efforts)
        yield LoopSamples(
            position=true_position[None],
            command=command[None],
            free=free[None],
            effort=efforts[0][None],
            effort_before=effort_before[None],
            q=sample.q[None],
            velocity=sample.velocity[None],
            acceleration=sample.acceleration[None],
            check=sample.check[None],
        )
        effort_before = efforts[-1]


class StabilityCheck:
    """Raises when a simulated loop becomes unstable or the robot singular.

    A stable loop may keep a motor at its limit, but reaches the other
    limit through the efforts between. Jumps from one limit to the other
    within a sample are therefore counted; the count decays, and too
    many of them are instability.

    Args:
        motion: The reference.
    """

    def __init__(self, model: Model, motion: Motion) -> None:
        self._motion = motion
        self._motors = list(model.actuated)
        self._joints = [model.mechanism.joints[i] for i in self._motors]
        self._reach = np.array([_reach(joint, model.loops.length) for joint in self._joints])
        self._last_saturated: FloatArray = np.zeros(len(self._motors))
        self._reversals: FloatArray = np.zeros(len(self._motors))

    def check(self, samples: LoopSamples, first: int) -> None:
        """Raise at the first sample at which something went wrong.

        Args:
            samples: Successive samples of the loop.
            first: Number of the first of them.

        Raises:
            SimulationFailed: A motor is half its range away from its
                reference, or jumps between its limits, or the loops do
                not close; with time and joint.
        """
        target = self._motion.q[first : first + len(samples.command), self._motors][:, None]
        deviation = np.abs(samples.position - target) / self._reach
        reversals = self._count_reversals(samples)
        left_reference = ~np.all(deviation < 1, axis=(1, 2))
        reversed_effort = np.any(reversals > MAX_REVERSALS, axis=(1, 2))
        opened_loops = ~np.all(samples.check < MAX_CLOSURE_CHECK, axis=1)
        failed = left_reference | reversed_effort | opened_loops
        if not failed.any():
            return
        i = int(np.argmax(failed))
        if left_reference[i]:
            failure = "the loop is unstable: the robot leaves its reference"
            severity = deviation[i]
        elif reversed_effort[i]:
            failure = "the loop is unstable: a motor jumps between its limits"
            severity = reversals[i]
        else:
            failure = "the robot has run into a singularity or out of its workspace"
            severity = np.abs(samples.q[i][:, self._motors] - target[i]) / self._reach
        severity = np.where(np.isfinite(severity), severity, np.inf)
        joint = self._joints[int(np.argmax(severity.max(axis=0)))].name
        time = float(self._motion.time[first + i])
        raise SimulationFailed(
            f"{failure} at t = {time:.4g} s, joint '{joint}'; lower the gains or the bandwidth, "
            "raise the controller's rate, or keep away from singular poses",
            time=time,
            joint=joint,
        )

    def _count_reversals(self, samples: LoopSamples) -> FloatArray:
        """Return the decaying count of jumps between the limits, (t, k, a)."""
        counts = np.zeros(samples.command.shape)
        if samples.free.all():
            self._reversals = REVERSAL_DECAY ** len(counts) * self._reversals
            self._last_saturated = np.zeros(counts.shape[1:])
            return counts
        saturated = np.where(samples.free == 0, samples.command, 0.0)
        for i, effort in enumerate(saturated):
            jumps = effort * self._last_saturated < 0
            self._reversals = REVERSAL_DECAY * self._reversals + jumps
            self._last_saturated = effort
            counts[i] = self._reversals
        return counts


def _reach(joint: Joint, length: float) -> float:
    """Return half the range of a motor; a radian or the robot's length [m] without limits."""
    if joint.limits.position:
        return 0.5 * float(np.ptp(joint.limits.position))
    return 1.0 if joint.kind == "revolute" else length
