"""Jumps of positions: one channel that steps alone, as when an encoder loses counts or wraps.

Only signals are used. Whether counts were really lost is for the residual of a model to
confirm: it then has a step that stays.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from gough.core.arrays import BoolArray, FloatArray
from gough.core.notices import Notice
from gough.core.signals import running
from gough.logs.checks import GAP_STEPS
from gough.logs.clocks import is_even
from gough.logs.messages import log_notice
from gough.logs.neighbours import local_resolution, usual_size
from gough.logs.recording import Recording

MIN_JUMP_SAMPLES = 16  # of a log, below which none is sought
# Times what increments nearby usually differ from the motion; of noise none in 1e12.
JUMP_RATIO = 15.0
JUMP_RESOLUTIONS = 3.0  # and times the resolution of the channel
# Other channels step at the same time if they do by so many times what is usual for them.
SHARED_JUMP_RATIO = 5.0
JUMP_WINDOW = 10  # samples that a cubic and a step are fitted to
# Fraction of what a cubic does not explain that a cubic with a step may leave: a start, a stop or
# an impact leaves more.
MAX_UNEXPLAINED = 0.1
MIN_JUMP_RANGE = 1e-6  # of the range of a position: no encoder counts finer
# Times the local motion that a joint jumps which moves alone: a lost row looks alike.
ALONE_MOTION_RATIO = 2.0
WRAP_TOLERANCE = 0.02  # relative: jumps of one size to this are those of one counter
TURN = 2 * np.pi


@dataclass(frozen=True, kw_only=True)
class Jump:
    """A step of one position that its motion and the other joints do not explain."""

    joint: str  # name of the motor or passive joint
    unit: str  # `m` or `rad`
    sample: int  # number of the first sample behind it
    time: float  # of that sample [s]
    size: float  # beyond the motion; one turn of the counter if it wraps [m or rad]
    deviation: float  # usual size of what was measured as `size` nearby [m or rad]
    wraps: bool  # the counter starts again


def find_jumps(recording: Recording) -> tuple[Jump, ...]:
    """Return the jumps of positions in the order of time.

    A cubic with a step in the middle is fitted to `JUMP_WINDOW` samples of one position. The
    position jumps there if the step is `JUMP_RATIO` times what is usual nearby, more than the
    resolution, and explains what the cubic alone does not, while no other joint steps with it
    and the times between the samples are usual. Samples that were not measured are left out.
    Apply it to rows on their true instants (`gough.logs.clocks`), before they are resampled:
    interpolation hides the resolution of positions.
    """
    if len(recording) < MIN_JUMP_SAMPLES:
        return ()
    names, units, position = _positions(recording)
    step, explained = _fitted_steps(position, recording.time)
    usual = usual_size(step, skip=JUMP_WINDOW // 2)
    least = JUMP_RESOLUTIONS * local_resolution(position)[1:]
    magnitude = np.abs(step)
    large = magnitude > np.maximum(JUMP_RATIO * usual, least)
    large &= magnitude > MIN_JUMP_RANGE * np.ptp(position, axis=0)
    if recording.measured is not None or not is_even(recording.time):
        large &= _usual_intervals(recording)[:, None]
    large &= magnitude >= running(np.maximum, magnitude, JUMP_WINDOW + 1)
    alone = (magnitude > np.maximum(SHARED_JUMP_RATIO * usual, least)).sum(axis=1) <= 1
    increments = np.diff(position, axis=0)
    motion = usual_size(increments)
    moves = motion > np.maximum(SHARED_JUMP_RATIO * usual, least)
    others_move = moves.sum(axis=1, keepdims=True) > moves
    # the lost or repeated row of a joint that moves alone looks like a jump
    no_lost_row = others_move | (magnitude > ALONE_MOTION_RATIO * motion)
    lost = large & alone[:, None] & explained & no_lost_row
    jumps = []
    for j in np.flatnonzero(large.any(axis=0)):
        too_large = increments[large[:, j], j]
        turn = _turn(too_large, float(np.ptp(position[:, j])), units[j])
        wraps = large[:, j] & (np.abs(np.abs(increments[:, j]) - turn) < 0.2 * turn)
        for k in np.flatnonzero(wraps | lost[:, j]):
            size = float(np.sign(increments[k, j]) * turn if wraps[k] else step[k, j])
            jumps.append(
                Jump(
                    joint=names[j],
                    unit=units[j],
                    sample=int(k) + 1,
                    time=float(recording.time[k + 1]),
                    size=size,
                    deviation=float(usual[k, j]),
                    wraps=bool(wraps[k]),
                )
            )
    return tuple(sorted(jumps, key=lambda jump: jump.sample))


def _positions(recording: Recording) -> tuple[list[str], list[str], FloatArray]:
    """Return names, units and samples of the positions of motors and passive joints, (t, k)."""
    names = list(recording.joints)
    units = list(recording.position_units)
    position = recording.position
    if recording.passive is not None:
        names += recording.passive.names
        units += recording.passive.units
        position = np.concatenate([position, recording.passive.values], axis=1)
    return names, units, position


def _fitted_steps(position: FloatArray, time: FloatArray) -> tuple[FloatArray, BoolArray]:
    """Return the step between each two samples, (t - 1, a), and whether it explains the window.

    A cubic and a step are fitted to `JUMP_WINDOW` samples around it by least squares. It
    explains the window if at most `MAX_UNEXPLAINED` of the squares that a cubic leaves stay.
    """
    half = JUMP_WINDOW // 2
    step = np.zeros((len(position) - 1, position.shape[1]))
    explained = np.zeros(step.shape, bool)
    windows = np.lib.stride_tricks.sliding_window_view(position, JUMP_WINDOW, axis=0)
    windows = windows - windows.mean(axis=2, keepdims=True)  # (s, a, w)
    inner = slice(half - 1, half - 1 + len(windows))
    if is_even(time):  # times from the middle of each window, in steps; one row if even
        moment = (np.arange(JUMP_WINDOW) - (JUMP_WINDOW - 1) / 2)[None]
    else:
        times = np.lib.stride_tricks.sliding_window_view(time, JUMP_WINDOW)
        middle = (times[:, half - 1 : half] + times[:, half : half + 1]) / 2
        moment = (times - middle) / float(np.median(np.diff(time)))
    cubics = np.stack([moment**0, moment, moment**2, moment**3], axis=2)
    basis = np.linalg.qr(cubics)[0]  # orthonormal columns, (s, w, 4), or (1, w, 4) if even
    unit_step = (np.arange(JUMP_WINDOW) >= half).astype(float)
    residual_step = unit_step - np.einsum("swp,sp->sw", basis, unit_step @ basis)
    power = (residual_step**2).sum(axis=1)[:, None]
    if len(basis) == 1:
        products = np.tensordot(windows, np.column_stack([basis[0], residual_step[0]]), axes=1)
        coefficients = products[:, :, :-1]
        signal = products[:, :, -1]
    else:
        signal = np.einsum("skw,sw->sk", windows, residual_step)
        coefficients = np.einsum("skw,swp->skp", windows, basis)
    step[inner] = signal / power
    total = (windows**2).sum(axis=2) - (coefficients**2).sum(axis=2)
    total = total.clip(min=0.0)  # that a cubic alone does not explain, (s, a)
    remaining = total - signal**2 / power
    explained[inner] = remaining < MAX_UNEXPLAINED * total
    return step, explained


def _usual_intervals(recording: Recording) -> BoolArray:
    """Tell which steps have measured samples and usual times around them, (t - 1,)."""
    interval = np.diff(recording.time)
    good = interval < GAP_STEPS * float(np.median(interval))
    if recording.measured is not None:
        good &= recording.measured[1:] & recording.measured[:-1]
    around = np.pad(good, 2, constant_values=True)
    return np.asarray(around[:-4] & around[1:-3] & around[2:-2] & around[3:-1] & around[4:])


def _turn(steps: FloatArray, span: float, unit: str) -> float:
    """Return after what a counter starts again; infinite if it does not.

    Whole turns, or steps of one size up and down that is the range of the position.

    Args:
        steps: Increments that are too large.
        span: Range of the position.
        unit: Of the position.
    """
    size = np.abs(steps)
    large = size > 0.5 * size.max(initial=0.0)
    if not large.any():
        return np.inf
    middle = float(np.median(size[large]))
    turns = round(middle / TURN)
    if unit == "rad" and turns >= 1 and abs(middle / TURN - turns) < WRAP_TOLERANCE * turns:
        return turns * TURN
    up_and_down = bool((steps[large] > 0).any() and (steps[large] < 0).any())
    scatter = float(np.median(np.abs(size[large] - middle)))
    whole_range = span < (1 + WRAP_TOLERANCE) * middle
    if up_and_down and whole_range and large.sum() > 2 and scatter < WRAP_TOLERANCE * middle:
        return middle
    return np.inf


def jump_notices(jumps: Sequence[Jump]) -> Iterator[Notice]:
    """Yield a notice for each joint whose position jumps: a counter that wraps, or lost counts."""
    for joint in dict.fromkeys(jump.joint for jump in jumps):
        wraps = [jump for jump in jumps if jump.joint == joint and jump.wraps]
        steps = [jump for jump in jumps if jump.joint == joint and not jump.wraps]
        if wraps:
            turn = abs(wraps[0].size)
            yield log_notice(
                "wrap",
                f"{joint}.position",
                f"jumps {len(wraps)} time(s) by about {turn:.6g} {wraps[0].unit}, its whole range: "
                "the counter wraps",
                "write unwrap = true in the description",
                count=len(wraps),
                size=turn,
                sample=wraps[0].sample,
            )
        if steps:
            largest = max(steps, key=lambda jump: abs(jump.size))
            yield log_notice(
                "jump",
                f"{joint}.position",
                f"jumps {len(steps)} time(s) alone, by {largest.size:.4g} {largest.unit} at most, "
                f"first at {steps[0].time:.4f} s",
                "check whether encoder counts were lost",
                count=len(steps),
                size=largest.size,
                sample=steps[0].sample,
                time=steps[0].time,
            )
