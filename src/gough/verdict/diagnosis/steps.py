"""Steps in recordings that no machine makes: wrapped or lost counts of encoders, efforts that fade
between periods.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from gough.core.arrays import FloatArray
from gough.core.statistics import robust_scale, student_tail
from gough.fitting.scores import PROBABLE
from gough.identification.diagnosis import Mistake, describe
from gough.logs.checks import GAP_STEPS
from gough.logs.recording import Recording

# times the usual second difference beyond which a step is no motion; 1e4 samples of noise stay
# below 5
STEEP = 12.0
ALONE = 4.0  # times what the steps before and after differ by
BESIDE = 10  # samples on both sides of a jump that tell which way a motor moves
# of sixth differences in a row have other signs: 0.83 of white noise, hardly any of a motion
ALTERNATES = 0.7
STILL = 20  # samples at one value that a frozen channel keeps at least
# instead of STEEP for a stop within one sample, where it is known that positions are wrong
DOUBT = 2.0
WRAPS = 0.02  # relative: jumps of the same size to this are wraps of one counter
TURN = 2 * np.pi
# of a motion's range: no encoder counts finer, so a smaller step of a simulated log is no lost
# count
COUNT = 1e-6
ROUNDING = 1e-9  # of a position's range: smaller steps are no counts
FADED = 0.01  # change of an effort over a log that is worth a word


class Jump(NamedTuple):
    """A step of a motor's position by `size`, behind which `sample` at `time` is the first.

    [s, m or rad]

    A `wrap` is a whole turn of the counter, to be undone by counting on. Where the motor
    reverses (`turning`) it may as well be play or bending of the transmission.
    """

    joint: str
    sample: int
    time: float
    size: float
    sigma: float
    wrap: bool
    turning: bool


def find_jumps(recording: Recording) -> tuple[Jump, ...]:
    """Return steps between two samples that motion does not explain.

    A jump is what one step does beyond the mean of the steps before and after it, found
    where that is 12 times the usual scatter of such numbers. Jumps by whole turns, or up
    and down by one size, are those of a counter that starts again; others must stand alone,
    with like steps before and after them: counts were lost.
    """
    found: list[Jump] = []
    position = recording.position
    if len(position) < STILL:
        return ()
    steps = np.diff(position, axis=0)
    extra = steps[1:-1] - (steps[:-2] + steps[2:]) / 2  # of the step from sample k + 1 to k + 2
    clock = np.diff(recording.time)
    late = clock > GAP_STEPS * float(np.median(clock))
    extra[late[1:-1] | late[:-2] | late[2:]] = 0.0  # a motor moves on while samples are missing
    for j, name in enumerate(recording.joints):
        own, step, reach = (
            extra[:, j],
            steps[1:-1, j],
            float(np.ptp(position[:, j])),
        )
        usual = float(robust_scale(own))
        if usual <= ROUNDING * reach:  # at rest behind a quantised encoder: one count is no jump
            moved = np.abs(steps[:, j])
            usual = float(moved[moved > ROUNDING * reach].min(initial=np.inf))
        high = np.flatnonzero(np.abs(own) > max(STEEP * usual, COUNT * reach))
        # The steps before and after a jump are alike; where a motion starts or stops they are not.
        alone = np.abs(own) > ALONE * np.abs(steps[:-2, j] - steps[2:, j])
        turn = _turn(
            step[high],
            own[high[alone[high]]],
            reach,
            recording.position_units[j],
        )
        for k in high.tolist():
            whole = turn > 0 and abs(abs(step[k]) / turn - 1) < 0.2
            if whole or alone[k]:
                before, after = (
                    steps[max(k + 1 - BESIDE, 0) : k + 1, j].sum(),
                    steps[k + 2 : k + 2 + BESIDE, j].sum(),
                )
                found.append(
                    Jump(
                        name,
                        k + 2,
                        float(recording.time[k + 2]),
                        float(np.sign(step[k]) * turn if whole else own[k]),
                        usual,
                        bool(whole),
                        bool(before * after <= 0),
                    )
                )
    return tuple(sorted(found, key=lambda jump: jump.sample))


def _turn(steps: FloatArray, jumps: FloatArray, reach: float, unit: str) -> float:
    """Return after what a counter starts again; zero if it does not: a counter shows no more than
    one turn.

    Args:
        steps: Those that are too large.
        jumps: Of these that stand alone, what they do beyond the motion.
        reach: Range of the positions.
    """
    size = np.abs(steps)
    large = size > 0.5 * size.max(initial=0.0)
    if not large.any():
        return 0.0
    middle = float(np.median(size[large]))
    turns = round(middle / TURN)
    if unit == "rad" and turns >= 1 and abs(middle / TURN - turns) < WRAPS * turns:
        return turns * TURN
    both = bool((steps[large] > 0).any() and (steps[large] < 0).any())
    alike = float(np.median(np.abs(size[large] - middle))) < WRAPS * middle
    if not (both and alike and int(large.sum()) > 2 and reach < (1 + WRAPS) * middle):
        return 0.0
    exact = np.abs(jumps)[np.abs(np.abs(jumps) / middle - 1) < 0.2]
    return float(np.median(exact)) if exact.size else middle


def without_jumps(
    recording: Recording,
    jumps: Sequence[Jump],
    near: Mapping[str, float] | None = None,
) -> Recording:
    """Return the recording with wrapped counters counted on and the positions behind lost counts
    moved back.

    What jumps where a motor reverses stays: it may be play, which comes back.

    Args:
        near: Where motors are about, by name: a counter may have wrapped before the log
            began. [m or rad]
    """
    position = recording.position.copy()
    for j, joint in enumerate(recording.joints):
        own = [jump for jump in jumps if jump.joint == joint]
        wraps = [abs(jump.size) for jump in own if jump.wrap]
        if wraps:
            turn = float(np.median(wraps))
            position[:, j] = np.unwrap(position[:, j], period=turn)
            position[:, j] += turn * round(
                ((near or {}).get(joint, position[0, j]) - position[:, j].mean()) / turn
            )
        for jump in own:
            if not (jump.wrap or jump.turning):
                position[jump.sample :, j] -= jump.size
    return replace(recording, position=position)


def mistakes_of_jumps(recordings: Sequence[Recording], steep: float = STEEP) -> list[Mistake]:
    """Return wrapped and lost counts and frozen values of encoders, each motor once; `steep` as in
    `find_frozen`.
    """
    kept: dict[tuple[str, str], Mistake] = {}
    for log in recordings:
        jumps = find_jumps(log)
        for joint in dict.fromkeys(jump.joint for jump in jumps):
            own = [jump for jump in jumps if jump.joint == joint]
            first, unit = own[0], log.position_units[log.joints.index(joint)]
            (size, usual), sigma = (
                describe(first.size, unit),
                describe(first.sigma, unit)[0],
            )
            text = (
                f"{joint}: the position of {log.source} jumps {len(own)} time(s), first by "
                f"{size:.4g} +- "
                f"{sigma:.1g} {usual} at {first.time:.3f} s"
            )
            name, alike = "lost counts", tuple[str, ...]()
            advice = (
                f"the encoder of {joint} lost counts: home it and record again, or cut the "
                f"log there"
            )
            if all(jump.wrap for jump in own):
                turn = "true" if unit == "rad" else f"{abs(first.size):.6g}"
                name, advice = (
                    "wrapped counts",
                    f"put unwrap = {turn} in the [position] table of the description",
                )
            elif all(jump.turning and not jump.wrap for jump in own):
                name, text = (
                    "play of the transmission",
                    f"{text}, where the motor reverses",
                )
                alike = (f"compliance of {joint}", f"lost counts of {joint}")
                advice = (
                    f"look for play or a soft transmission at {joint}, and at its encoder; "
                    f"record again"
                )
            kept.setdefault(
                (name, joint),
                Mistake(
                    name=name,
                    place=joint,
                    size=(first.size,),
                    sigma=(first.sigma,),
                    unit=unit,
                    text=text,
                    advice=advice,
                    alike=alike,
                ),
            )
        for frozen in find_frozen(log, steep):
            kept.setdefault((frozen.name, frozen.place), frozen)
    return list(kept.values())


def find_frozen(recording: Recording, steep: float = STEEP) -> tuple[Mistake, ...]:
    """Return positions that keep their value for 20 samples or more after moving at full speed the
    sample before.

    A motor needs time to stop: the step before the stretch is so many times the usual
    change of a step. Where noise never lets a value come twice elsewhere, that says it
    alone; it shows in sixth differences, which alternate.
    """
    found = []
    steps = np.diff(recording.position, axis=0)
    if len(steps) < 2 * STILL:
        return ()
    for j, name in enumerate(recording.joints):
        own = steps[:, j]
        bend = np.diff(own)
        usual = (
            float(robust_scale(bend[bend != 0])) if bend.any() else np.inf
        )  # a motor may stand long
        fine = np.diff(own, n=5)
        turned = (fine[1:] * fine[:-1])[(fine[1:] != 0) & (fine[:-1] != 0)] < 0
        edges = np.flatnonzero(np.diff(np.concatenate([[0], (own == 0).astype(np.int8), [0]])))
        stands = [(a, b) for a, b in zip(edges[::2], edges[1::2]) if b - a >= STILL]
        alone = sum(b - a for a, b in stands) == (own == 0).sum()
        least = ROUNDING * float(np.ptp(recording.position[:, j]))
        noisy = (
            alone and turned.sum() > ALTERNATES * len(turned) and float(np.abs(fine).mean()) > least
        )
        for first, end in stands:
            if first > 0 and (noisy or abs(own[first - 1]) > steep * usual > 0):
                found.append(
                    Mistake(
                        name="frozen encoder",
                        place=name,
                        size=(float(end - first),),
                        sigma=(0.0,),
                        unit="samples",
                        text=f"{name}: the position of {recording.source} stands still from "
                        f"{recording.time[first]:.3f} s "
                        f"on for {end - first} samples, having moved before",
                        advice="cut that part of the log out; is the encoder's cable sound?",
                    )
                )
    return tuple(found)


def find_fading(recording: Recording) -> tuple[Mistake, ...]:
    """Return efforts that fade or grow over the periods of a recording by more than 1 %, beyond
    chance.

    g_k = tau_k . tau / tau . tau of period k with the mean period tau, a line through g_1
    ... g_n. The mean's own noise is the same in all g_k and moves only their level. Fewer
    than four periods say nothing.
    """
    if recording.period_count < 4:
        return ()
    periods = recording.whole_periods().periods(
        "effort" if recording.effort is not None else "current"
    )
    k = np.arange(len(periods)) - (len(periods) - 1) / 2
    found = []
    for j, name in enumerate(recording.joints):
        tau = periods[:, :, j].mean(axis=0)
        g = periods[:, :, j] @ tau / max(float(tau @ tau), 1e-300)
        slope = float(k @ g / (k @ k))
        left = g - g.mean() - slope * k
        spread = float(np.sqrt(left @ left / (len(g) - 2) / (k @ k)))
        chance = (
            2
            * float(student_tail(abs(slope) / max(spread, 1e-300), len(g) - 2))
            * len(recording.joints)
        )
        start = float(g.mean()) - slope * len(g) / 2  # where the first period begins
        change, sigma = (x * len(g) / start if start else 0.0 for x in (slope, spread))
        if chance < PROBABLE and abs(change) > FADED:
            found.append(
                Mistake(
                    name="fading effort",
                    place=name,
                    size=(change,),
                    sigma=(abs(sigma),),
                    unit="1",
                    text=f"{name}: effort {'fades' if change < 0 else 'grows'} by "
                    f"{100 * abs(change):.2g} +- "
                    f"{100 * abs(sigma):.1g} % over {recording.source}",
                    advice="friction or magnets warm up: record after a warm-up, or use only the "
                    "last periods",
                )
            )
    return tuple(found)
