"""What a robot remembers along a motion: the lags of its joint terms, carried from sample to
sample.

A lag w follows x over a time T or a distance D of its joint, d w/dt = rate (x - w), rate = 1 / T or
|qd| / D. Between samples x is taken as the mean of both, which is exact to second order:

    w_k = e w_(k-1) + (1 - e) (x_(k-1) + x_k) / 2,    e = exp(-(t_k - t_(k-1)) / T)  or  exp(-|q_k -
    q_(k-1)| / D)
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

# lengths of a lag that are summed at once: exp(30) leaves all digits of the latest samples
PIECE = 30.0

# NumPy's functions, such that a complex step of a constant gives exact derivatives.
COMPLEX_STEP_MATH = SimpleNamespace(
    **{name: getattr(np, name) for name in ("sin", "cos", "tan", "exp", "log", "sqrt", "tanh")},
    fabs=lambda x: np.where(np.real(x) < 0, -1.0, 1.0) * x,
    floor=lambda x: np.floor(np.real(x)),
    fmin=lambda a, b: np.where(np.real(a) < np.real(b), a, b),
    fmax=lambda a, b: np.where(np.real(a) > np.real(b), a, b),
)


class FilterState(NamedTuple):
    """The last sample of a piece of a log: lags, what they follow, positions of their joints, (k,)
    each, and time.
    """

    lag: Any
    followed: Any
    position: FloatArray
    time: float


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
        dead_band: Of all coordinates, (n,). [m/s or rad/s]
        term: Whose lags are wanted.
        extra_inputs: Lags and channels, (t, x). If None, lags have settled and channels have their
            default values.
        constants: Values of constants by their full name instead of the robot's.
        math: Functions of the term.
    """
    at = mechanism.internal_states
    return JointState(
        q=motion.q[:, joint],
        qd=motion.qd[:, joint],
        qdd=motion.qdd[:, joint],
        math=math,
        constants=constants or {},
        sign=np.clip(motion.qd[:, joint] / max(float(dead_band[joint]), 1e-300), -1.0, 1.0),
        lags=None
        if extra_inputs is None
        else [extra_inputs[:, k] for k, m in enumerate(at) if m[:2] == (joint, term)],
        channels={}
        if extra_inputs is None
        else {name: extra_inputs[:, len(at) + k] for k, name in enumerate(mechanism.channels)},
        other=lambda name: joint_state(
            mechanism,
            motion,
            mechanism.coordinates.index(
                mechanism.resolve_joint(mechanism.joints[joint], name).name
            ),
            dead_band,
            extra_inputs=extra_inputs,
            constants=constants,
            math=math,
        ),
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
    """Return lags and channels along a motion, (t, x), and what the next piece of it starts from.

    Args:
        motion: Consecutive samples of a log.
        dead_band: Of all coordinates, (n,). [m/s or rad/s]
        channels: Recorded ones by name, (t,) each; usual values where there are none.
        filter_state: From the piece before; a log starts with settled lags.
        periodic: The samples are a period that repeats.
        constants, math: As in `joint_state`.
    """
    lags, followed = [], []
    positions = np.array([motion.q[:, m.joint] for m in mechanism.internal_states]).reshape(
        -1, len(motion)
    )
    for k, (joint, name, number) in enumerate(mechanism.internal_states):
        term = mechanism.terms[name]
        lag = term.lags[number]
        state = joint_state(mechanism, motion, joint, dead_band, constants=constants, math=math)
        x = np.broadcast_to(term.value(state, lag.operands[0]), (len(motion),))
        length, far = term.value(state, lag.operands[1]), term.lag_is_distance(lag)
        along = positions[k] if far else motion.time
        first = (
            along[0]
            if periodic or filter_state is None
            else filter_state.position[k]
            if far
            else filter_state.time
        )
        way = np.abs(np.diff(along, prepend=first)) / length
        if periodic:
            way[0] = np.abs(along[0] - along[-1]) / length if far else way[1]
            end = _follow(x, way, x[-1], 0.0)[-1]
            lags.append(_follow(x, way, x[-1], end / (1 - np.exp(-way.sum()))))
        else:
            lags.append(
                _follow(
                    x,
                    way,
                    *(
                        (x[0], x[0])
                        if filter_state is None
                        else (filter_state.followed[k], filter_state.lag[k])
                    ),
                )
            )
        followed.append(x[-1])
    recorded = [
        np.broadcast_to((channels or {}).get(name, usual), (len(motion),))
        for name, usual in mechanism.channels.items()
    ]
    whole = np.stack([*lags, *recorded], axis=1) if lags or recorded else np.zeros((len(motion), 0))
    return whole, FilterState(
        [w[-1] for w in lags], followed, positions[:, -1], float(motion.time[-1])
    )


def _follow(x: Any, way: Any, x_before: Any, w_before: Any) -> Any:
    """Return the lag of x over steps of its own length, (t,)."""
    gain = -np.expm1(-way) * (x + np.concatenate([[x_before], x[:-1]])) / 2
    done = np.cumsum(way)
    out = np.empty(len(x), dtype=gain.dtype)
    start, base, w = 0, 0.0, w_before
    while start < len(x):
        stop = max(start + 1, int(np.searchsorted(np.real(done), np.real(base) + PIECE)))
        grown = np.exp(
            np.minimum(np.real(done[start:stop] - base), 600.0)
            + 1j * np.imag(done[start:stop] - base)
            if np.iscomplexobj(done)
            else np.minimum(done[start:stop] - base, 600.0)
        )
        out[start:stop] = (w + np.cumsum(grown * gain[start:stop])) / grown
        start, base, w = stop, done[stop - 1], out[stop - 1]
    return out


def select_channels(
    mechanism: Mechanism, recorded: Mapping[str, FloatArray], source: str
) -> dict[str, FloatArray]:
    """Return the recorded channels that a robot's terms depend on, (t,) each; all must have been
    recorded.
    """
    for name in mechanism.channels:
        if name not in recorded:
            users = ", ".join(t.name for t in mechanism.terms.values() if name in t.channels)
            raise InvalidRecording(
                f"{source}: the terms {users} depend on the channel '{name}', which was not "
                f"recorded"
                f"{nearest(name, recorded)}; add it to the log, or identify without them",
                source=source,
                channel=name,
            )
    return {name: recorded[name] for name in mechanism.channels}
