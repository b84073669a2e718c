"""The control loop as machine code: controller, drives at their limits, friction, integration and closures.

Two kernels are bound to arrays that hold the state of every integrator step of a block of controller periods: one for
the controller's sample, which writes the efforts into the state, one for the steps of the robot, each of which writes
the state that the next one reads (see `Kernel.bind`). Trials are the lanes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from gough.core.arrays import FloatArray
from gough.engine.stepping import held_step_kernel
from gough.virtual.controllers import CompiledLaw
from gough.virtual.plant import PlantSettings

STEPS = 4096  # integrator steps of all lanes in a block: its arrays stay within a few megabytes


class Block(NamedTuple):
    """What happened at successive controller samples.

    Args:
        position: True positions of the motors, (t, k, a). [m or rad]
        command: Efforts asked of the drives, within their limits, (t, k, a). [N or N m]
        free: One where a motor was not at its limit, (t, k, a).
        effort: Of the drives after the sample, (t, k, a).
        before: Of the drives before it, (t, k, a).
        q, velocity, acceleration, check: As in `Sample`, (t, k, ...).
    """

    position: FloatArray
    command: FloatArray
    free: FloatArray
    effort: FloatArray
    before: FloatArray
    q: FloatArray
    velocity: FloatArray
    acceleration: FloatArray
    check: FloatArray


def compiled_blocks(settings: PlantSettings, law: CompiledLaw, start: FloatArray, drives: FloatArray,
                    holding: FloatArray) -> Iterator[Block]:
    """Run a law on our own plant with ideal drives.

    Args:
        settings: The robot.
        law: The controller.
        start: State [q, v, lags] of every trial, (k, n + m + x).
        drives: Ratio of given to wanted effort and limits of the motors, (2a,).
        holding: Efforts before the first sample, (k, a).
    """
    model, substeps, trials = settings.model, settings.substeps, settings.trials
    step, n, m, a = held_step_kernel(model), len(model.home), model.degrees_of_freedom, len(model.actuated)
    lanes = -(-trials // step.lanes) * step.lanes
    own = np.minimum(np.arange(lanes), trials - 1)  # idle lanes repeat the last trial
    total = len(law.reference)
    count = min(total, max(1, STEPS // (substeps * lanes)))
    steps = count * substeps
    state, seen = np.empty((steps + 1, lanes, start.shape[1] + a)), np.empty((steps, lanes, n + m + 1))
    memory = np.empty((steps + substeps, lanes, law.memory.shape[1] + a))
    reference = np.empty((steps, lanes, law.reference.shape[1]))
    robot = settings.constants
    constants = robot if robot.ndim == 1 else np.tile(robot[own], (steps, 1))

    def flat(array: FloatArray) -> FloatArray:
        return array.reshape(-1, array.shape[-1])

    control = law.kernel.bind(
        [flat(state[:-1]), flat(memory[:steps]), flat(reference), np.concatenate([drives, law.constants])],
        [flat(state[:-1]), flat(memory[substeps:])])
    move = step.bind([flat(state[:-1]), constants], [flat(state[1:]), flat(seen)])
    state[0] = np.column_stack([start, holding])[own]
    memory[0] = np.column_stack([law.memory, np.ones((trials, a))])[own]
    before = holding
    for first in range(0, total, count):
        ahead = law.reference[first:first + count]
        reference[:len(ahead) * substeps:substeps] = ahead[:, None]
        for at in range(0, len(ahead) * substeps * lanes, substeps * lanes):
            control(at, at + lanes)
            move(at, at + substeps * lanes)
        end = len(ahead) * substeps
        here, there = state[:end:substeps, :trials], seen[:end:substeps, :trials]
        effort = here[:, :, -a:].copy()
        yield Block(
            position=here[:, :, list(model.actuated)], command=effort, effort=effort,
            before=np.concatenate([before[None], effort[:-1]]), q=there[:, :, :n], velocity=here[:, :, n:n + m],
            acceleration=there[:, :, n:n + m], free=memory[substeps:end + 1:substeps, :trials, -a:],
            check=seen[:end, :trials, -1].reshape(len(ahead), substeps, trials).max(axis=1))
        state[0], memory[0], before = state[end], memory[end], effort[-1]
