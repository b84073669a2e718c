"""Columns of joint terms along processed logs, evaluated by NumPy: for constants, and terms a robot file lacks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from gough.core.arrays import FloatArray
from gough.core.names import Parameter
from gough.core.regression import Regression
from gough.engine import Model
from gough.engine.memory import ANALYTIC, joint_state, remember
from gough.mechanism.types import Mechanism
from gough.processing import Processed
from gough.processing.decimation import decimated

STEP = 1e-30  # of a constant, along the imaginary axis: derivatives are exact to rounding


class TermColumns:
    """Joint terms along one processed log.

    Args:
        model: The robot, for its closures.
        mechanism: The same robot, perhaps with more terms.
        processed: The log.
        members: Standard parameters of each column, tied ones summed.
        maps: The closure map of the log's samples, (t, n, m), if it is known already.
    """

    def __init__(self, model: Model, mechanism: Mechanism, processed: Processed,
                 members: Sequence[Sequence[Parameter]], maps: FloatArray | None = None) -> None:
        self._model, self._mechanism, self._log, self._members = model, mechanism, processed, members
        joints = [mechanism.coordinates.index(name.owner) for group in members for name in group]
        whole = model.kinematics.closure_map(processed.motion.q) if maps is None else maps
        self._maps = {j: np.ascontiguousarray(whole[:, j]) for j in set(joints)}
        kept, known = len(model.mechanism.memories), processed.motion.remembered
        self._channels = {} if known is None else dict(zip(model.mechanism.channels, known[:, kept:].T))
        self._efforts: dict[int, FloatArray] = {}
        if mechanism.loaded:
            passed = model.passed_on(processed.motion, processed.dead_band, model.load(processed.payload))
            self._efforts = {i: passed[:, model.independent.index(i)] for i in mechanism.loaded}

    def at(self, constants: Mapping[str, Any], math: Any = np) -> Any:
        """Return the columns before decimation, (t, r, k), at values of constants by full name."""
        mechanism, motion, band = self._mechanism, self._log.motion, self._log.dead_band
        known = remember(mechanism, motion, band, channels=self._channels, around=self._log.average is not None,
                         constants=constants, math=math)[0]
        columns = []
        for group in self._members:
            total: Any = 0.0
            for name in group:
                j = mechanism.coordinates.index(name.owner)
                state = joint_state(mechanism, motion, j, band, term=name.kind, remembered=known, constants=constants,
                                    math=math)
                state = replace(state, effort=self._efforts.get(j, 0.0))
                value = np.broadcast_to(mechanism.terms[name.kind].value(state), (len(motion),))
                total = total + self._maps[j] * value[:, None]
            columns.append(total)
        return np.stack(columns, axis=2)

    def regressor(self, constants: Mapping[str, float]) -> FloatArray:
        """Return the columns as a regression of the log has them, (s, r, k)."""
        return self._processed(self.at(constants))

    def with_derivatives(self, constants: Mapping[str, float], names: Sequence[str]) -> FloatArray:
        """Return the columns and their derivatives by constants, (1 + c, s, r, k)."""
        parts = [np.real(self.at(constants))]
        for name in names:
            stepped = {**constants, name: constants[name] + 1j * STEP}
            parts.append(np.imag(self.at(stepped, ANALYTIC)) / STEP)
        flat = self._processed(np.concatenate(parts, axis=2))
        return np.stack(np.split(flat, len(parts), axis=2))

    def _processed(self, columns: FloatArray) -> FloatArray:
        """Return columns after what the processing does to a regressor."""
        log, model = self._log, self._model
        if log.decimation == 1:
            return columns
        names = tuple(Parameter(f"column{k}") for k in range(columns.shape[2]))
        whole = Regression(
            regressor=columns, effort=np.zeros(columns.shape[:2]), rows=model.rows, row_units=model.row_units,
            parameters=names, units=("1",) * len(names), time=log.motion.time, sample=log.sample, mask=log.mask,
            group=log.group)
        around = log.average is not None
        return np.concatenate([part.regressor for part in decimated([whole], log.decimation, around=around)])
