"""Internal states of friction models along a motion: lags of joint terms.

A lag w follows a signal x over a time T or a distance D of its joint,

    d w/dt = rate (x - w),    rate = 1 / T  or  |qd| / D.

Between samples x is replaced by the mean of both, which is exact to
second order:

    w_k = e w_(k-1) + (1 - e) (x_(k-1) + x_k) / 2,
    e = exp(-(t_k - t_(k-1)) / T)  or  exp(-|q_k - q_(k-1)| / D).
"""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

from gough.core.arrays import FloatArray
from gough.core.errors import InvalidRecording, nearest
from gough.core.motion import Motion
from gough.mechanism.terms import JointState
from gough.mechanism.types import Mechanism

# Lag lengths that are summed at once: exp(30) keeps all digits of the
# latest samples.
LAG_BLOCK = 30.0
# Larger exponents overflow; a single step over so many lengths forgets
# the past anyway.
LAG_MAX_EXPONENT = 600.0

ANALYTIC_FUNCTIONS = ("sin", "cos", "tan", "exp", "log", "sqrt", "tanh")
# Functions of NumPy for which a complex step of a constant gives exact
# derivatives.
COMPLEX_STEP_MATH = SimpleNamespace(
    **{name: getattr(np, name) for name in ANALYTIC_FUNCTIONS},
    fabs=lambda x: np.where(np.real(x) < 0, -1.0, 1.0) * x,
    floor=lambda x: np.floor(np.real(x)),
    fmin=lambda a, b: np.where(np.real(a) < np.real(b), a, b),
    fmax=lambda a, b: np.where(np.real(a) > np.real(b), a, b),
)


class FilterState(NamedTuple):
    """State of all lags at the last sample of a block, from which the next block continues."""

    lag: Any  # value of each lag, (k,)
    followed: Any  # signal that each lag follows, (k,)
    # coordinate of the joint of each lag, (k,) [m or rad]
    position: FloatArray
    time: float  # [s]


def joint_state(
    mechanism: Mechanism,
    motion: Motion,
    joint: int,
    dead_band: FloatArray,
    *,
    term: str = "",
    extra_inputs: Any = None,
    constants: Mapping[str, Any] | None = None,
    math: Any = np,
) -> JointState:
    """Return what a term of a joint may depend on along a motion, (t,) each.

    Args:
        joint: Index of the joint.
        dead_band: Of all coordinates, (n,). [m/s or rad/s]
        term: Term whose lags are returned.
        extra_inputs: Lags and channels, (t, x). If None, lags have
            settled and channels have their default values.
        constants: Values of constants by their full name instead of the
            robot's.
        math: Functions of the term.
    """
    lags = None
    channels: dict[str, Any] = {}
    if extra_inputs is not None:
        states = mechanism.internal_states
        lags = [extra_inputs[:, k] for k, s in enumerate(states) if s[:2] == (joint, term)]
        recorded = extra_inputs[:, len(states) :]
        channels = {name: recorded[:, k] for k, name in enumerate(mechanism.channels)}

    def other_state(name: str) -> JointState:
        other = mechanism.resolve_joint(mechanism.joints[joint], name)
        return joint_state(
            mechanism,
            motion,
            mechanism.coordinates.index(other.name),
            dead_band,
            extra_inputs=extra_inputs,
            constants=constants,
            math=math,
        )

    qd = motion.qd[:, joint]
    return JointState(
        q=motion.q[:, joint],
        qd=qd,
        qdd=motion.qdd[:, joint],
        math=math,
        constants=constants or {},
        sign=np.clip(qd / max(float(dead_band[joint]), 1e-300), -1.0, 1.0),
        lags=lags,
        channels=channels,
        other=other_state,
    )


def integrate_internal_states(
    mechanism: Mechanism,
    motion: Motion,
    dead_band: FloatArray,
    *,
    channels: Mapping[str, FloatArray] | None = None,
    filter_state: FilterState | None = None,
    periodic: bool = False,
    constants: Mapping[str, Any] | None = None,
    math: Any = np,
) -> tuple[Any, FilterState]:
    """Return lags and channels along a motion, (t, x), and the state at its end.

    Args:
        motion: Consecutive samples of a log.
        dead_band: Of all coordinates, (n,). [m/s or rad/s]
        channels: Recorded channels by name, (t,) each; default values
            for the others.
        filter_state: State at the end of the block before; a log starts
            with settled lags.
        periodic: Whether the samples are one period of a repeated
            motion.
        constants, math: As in `joint_state`.
    """
    columns: list[Any] = []
    followed: list[Any] = []
    positions: list[FloatArray] = []
    for k, (joint, name, number) in enumerate(mechanism.internal_states):
        term = mechanism.terms[name]
        lag = term.lags[number]
        state = joint_state(mechanism, motion, joint, dead_band, constants=constants, math=math)
        x = np.broadcast_to(term.value(state, lag.operands[0]), (len(motion),))
        length = term.value(state, lag.operands[1])
        over_distance = term.lag_is_distance(lag)
        path = motion.q[:, joint] if over_distance else motion.time
        if periodic:
            columns.append(_periodic_lag(x, path, length, wrap=over_distance))
        elif filter_state is None:
            steps = np.abs(np.diff(path, prepend=path[0])) / length
            columns.append(_follow(x, steps, x[0], x[0]))
        else:
            before = filter_state.position[k] if over_distance else filter_state.time
            steps = np.abs(np.diff(path, prepend=before)) / length
            columns.append(_follow(x, steps, filter_state.followed[k], filter_state.lag[k]))
        followed.append(x[-1])
        positions.append(motion.q[-1, joint])
    last_state = FilterState(
        lag=[column[-1] for column in columns],
        followed=followed,
        position=np.array(positions),
        time=float(motion.time[-1]),
    )
    for name, default in mechanism.channels.items():
        recorded = (channels or {}).get(name, default)
        columns.append(np.broadcast_to(recorded, (len(motion),)))
    if not columns:
        return np.zeros((len(motion), 0)), last_state
    return np.stack(columns, axis=1), last_state


def _periodic_lag(x: Any, path: FloatArray, length: Any, *, wrap: bool) -> Any:
    """Return the lag of one period of a repeated signal, (t,).

    Args:
        x: Signal that the lag follows, (t,).
        path: Time or position of the joint, (t,).
        length: Time or distance of the lag.
        wrap: Whether the path returns to its start (a position); a time
            goes on.
    """
    steps = np.abs(np.diff(path, prepend=path[0])) / length
    steps[0] = np.abs(path[0] - path[-1]) / length if wrap else steps[1]
    end = _follow(x, steps, x[-1], 0.0)[-1]
    start = end / (1 - np.exp(-steps.sum()))
    return _follow(x, steps, x[-1], start)


def _follow(x: Any, steps: Any, x_before: Any, lag_before: Any) -> Any:
    """Return the lag of a signal x, (t,).

    The recursion of the module docstring is summed in blocks, in which
    e^s w is a cumulative sum.

    Args:
        x: Signal, (t,).
        steps: Length of each step in units of the lag's time or
            distance, (t,).
        x_before, lag_before: Signal and lag before the first step.
    """
    gain = -np.expm1(-steps) * (x + np.concatenate([[x_before], x[:-1]])) / 2
    travelled = np.cumsum(steps)
    lag = np.empty(len(x), dtype=gain.dtype)
    start = 0
    origin = 0.0
    while start < len(x):
        block_end = int(np.searchsorted(np.real(travelled), np.real(origin) + LAG_BLOCK))
        stop = max(start + 1, block_end)
        exponent = travelled[start:stop] - origin
        growth = np.exp(_at_most(exponent, LAG_MAX_EXPONENT))
        lag[start:stop] = (lag_before + np.cumsum(growth * gain[start:stop])) / growth
        start = stop
        origin = travelled[stop - 1]
        lag_before = lag[stop - 1]
    return lag


def _at_most(exponent: Any, largest: float) -> Any:
    """Return numbers with their real parts limited."""
    limited = np.minimum(np.real(exponent), largest)
    return limited + 1j * np.imag(exponent) if np.iscomplexobj(exponent) else limited


def select_channels(
    mechanism: Mechanism, recorded: Mapping[str, FloatArray], source: str
) -> dict[str, FloatArray]:
    """Return the recorded channels that joint terms of a robot depend on, (t,) each.

    Raises:
        InvalidRecording: One of them was not recorded.
    """
    for name in mechanism.channels:
        if name not in recorded:
            users = ", ".join(t.name for t in mechanism.terms.values() if name in t.channels)
            raise InvalidRecording(
                f"{source}: the terms {users} depend on the channel '{name}', which was not "
                f"recorded{nearest(name, recorded)}; add it to the log, or identify without them",
                source=source,
                channel=name,
            )
    return {name: recorded[name] for name in mechanism.channels}
