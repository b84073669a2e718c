"""Steps in recordings that no machine makes: wrapped or lost counts of encoders, efforts that fade between periods."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy import stats

from gough.core.arrays import FloatArray
from gough.logs.recording import Recording

STEEP = 12.0  # times the usual second difference beyond which a step is no motion; 1e4 samples of noise stay below 5
ALONE = 4.0  # times what the steps before and after differ by
STILL = 20  # samples at one value that a frozen channel keeps at least
WRAPS = 0.02  # relative: jumps of the same size to this are wraps of one counter
TURN = 2 * np.pi


@dataclass(frozen=True, kw_only=True, eq=False)
class Jump:
    """A step in a position.

    Args:
        joint: Which motor.
        sample: The first sample behind it.
        time: Its time. [s]
        size: How far the position jumps. [m or rad]
        sigma: Of the size, from the noise beside it.
        wrap: It is a whole turn of the counter, to be undone by counting on.
    """

    joint: str
    sample: int
    time: float
    size: float
    sigma: float
    wrap: bool


def find_jumps(recording: Recording) -> tuple[Jump, ...]:
    """Return steps between two samples that motion does not explain.

    A step of s at one sample makes second differences of s and -s beside each other, where those of a motion are
    smooth. s is what the position does beyond the mean of the steps before and after; it is found where it is 12 times
    the usual scatter of such numbers.
    """
    found: list[Jump] = []
    position = recording.position
    if len(position) < 20:
        return ()
    steps = np.diff(position, axis=0)
    extra = steps[1:-1] - (steps[:-2] + steps[2:]) / 2  # of the step from sample k + 1 to k + 2
    for j, name in enumerate(recording.joints):
        own = extra[:, j]
        usual = 1.4826 * float(np.median(np.abs(own)))
        fine = float(np.min(np.abs(steps[:, j])[steps[:, j] != 0], initial=np.inf))
        usual = max(usual, fine if np.isfinite(fine) and usual == 0 else 0.0)
        if usual <= 0:
            continue
        # The steps before and after a jump are alike; where a motion starts or stops they are not.
        alone = np.abs(own) > ALONE * np.abs(steps[:-2, j] - steps[2:, j])
        high = np.flatnonzero((np.abs(own) > STEEP * usual) & alone)
        peaks = [k for k in high if np.abs(own[max(k - 1, 0):k + 2]).max() == np.abs(own[k])]
        sizes = np.abs(own[peaks])
        for k, size in zip(peaks, own[peaks]):
            turns = abs(size) / TURN
            whole = recording.position_units[j] == "rad" and abs(turns - round(turns)) < WRAPS and round(turns) >= 1
            again = int((np.abs(sizes / abs(size) - 1) < WRAPS).sum()) > 2
            found.append(Jump(joint=name, sample=int(k) + 2, time=float(recording.time[k + 2]), size=float(size),
                              sigma=usual, wrap=bool(whole or again)))
    return tuple(sorted(found, key=lambda jump: jump.sample))


def without_jumps(recording: Recording, jumps: tuple[Jump, ...]) -> Recording:
    """Return the recording with the positions behind each jump moved back."""
    position = recording.position.copy()
    for jump in jumps:
        if jump.joint in recording.joints:
            position[jump.sample:, recording.joints.index(jump.joint)] -= jump.size
    return replace(recording, position=position)


@dataclass(frozen=True, kw_only=True, eq=False)
class Frozen:
    """A position that stops within one sample and stays.

    Args:
        joint: Which motor.
        sample: The first sample of the stretch.
        time: Its time. [s]
        samples: How long it stays.
    """

    joint: str
    sample: int
    time: float
    samples: int


def find_frozen(recording: Recording) -> tuple[Frozen, ...]:
    """Return positions that keep their value for 20 samples or more after moving at full speed the sample before.

    A motor needs time to stop: the step before the stretch is 12 times the usual change of a step.
    """
    found = []
    steps = np.diff(recording.position, axis=0)
    if len(steps) < 2 * STILL:
        return ()
    for j, name in enumerate(recording.joints):
        own = steps[:, j]
        usual = 1.4826 * float(np.median(np.abs(np.diff(own))))
        edges = np.flatnonzero(np.diff(np.concatenate([[0], (own == 0).astype(np.int8), [0]])))
        for first, end in zip(edges[::2], edges[1::2]):
            if end - first >= STILL and first > 0 and abs(own[first - 1]) > STEEP * usual > 0:
                found.append(Frozen(joint=name, sample=int(first), time=float(recording.time[first]),
                                    samples=int(end - first)))
    return tuple(found)


@dataclass(frozen=True, kw_only=True, eq=False)
class Fading:
    """An effort that changes from period to period.

    Args:
        joint: Which motor.
        change: From the beginning to the end of the recording, relative to its beginning. [1]
        sigma: Of it.
        chance: That noise alone does this, for this motor.
    """

    joint: str
    change: float
    sigma: float
    chance: float


def find_fading(recording: Recording, period: FloatArray) -> tuple[Fading, ...]:
    """Return the change of each motor's effort over the periods of a recording.

    g_k = tau_k . tau / tau . tau of period k with the mean period tau, a line through g_1 ... g_n. The mean's own noise
    is the same in all g_k and moves only their level.

    Args:
        recording: At least four periods.
        period: Efforts (or currents) of the mean period, (N, a).
    """
    kind = "effort" if recording.effort is not None else "current"
    if recording.period_count < 4:
        return ()
    periods = recording.whole_periods().periods(kind)
    k = np.arange(len(periods)) - (len(periods) - 1) / 2
    found = []
    for j, name in enumerate(recording.joints):
        tau = period[:, j]
        power = float(tau @ tau)
        if power <= 0 or len(tau) != periods.shape[1]:
            continue
        g = periods[:, :, j] @ tau / power
        slope = float(k @ g / (k @ k))
        left = g - g.mean() - slope * k
        sigma = float(np.sqrt(left @ left / (len(g) - 2) / (k @ k)))
        start = float(g.mean()) - slope * len(g) / 2  # where the first period begins
        chance = float(2 * stats.t.sf(abs(slope) / max(sigma, 1e-300), len(g) - 2))
        found.append(Fading(joint=name, change=slope * len(g) / start, sigma=sigma * len(g) / start, chance=chance))
    return tuple(found)
