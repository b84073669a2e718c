"""Results to export, made without an experiment."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gough.core.parameters import BaseParameters
from gough.fitting.estimate import Estimate
from gough.identification import Identification
from gough.identification.validation import Validation


def result_with(std: Sequence[float] = (0.1, 0.2, 0.3), **fields: Any) -> Identification:
    """A small result; the numbers mean nothing."""
    names, units = ("left.rod.m", "left.motor.fv", "right.tip<&>.mx"), ("kg", "N m s/rad", "kg m")
    estimate = Estimate(
        parameters=names,
        units=units,
        values=np.array([1 / 3, -2.5e-300, np.pi]),
        covariance=np.diag(np.square(std)),
        rows=("left.motor",),
        row_units=("N m",),
        residual_rms=np.ones(1),
        residual_relative=np.ones(1),
        samples=7,
        degrees_of_freedom=np.array(4.0),
        condition_number=2.0,
        method="none",
        uncertainty="white",
    )
    base = BaseParameters(
        names=names,
        units=units,
        standard=names,
        matrix=np.eye(3),
        independent=(0, 1, 2),
        singular_values=np.ones(3),
        tolerance=1e-9,
    )
    validation = Validation(
        rows=("left.motor",),
        row_units=("N m",),
        rms=np.ones(1),
        relative=np.ones(1),
        relative_all=np.ones(1),
        share=np.ones(1),
        whiteness=np.ones(1),
        numerics=True,
        predicts="not tested",
        notices=(),
        source="",
    )
    return Identification(
        robot='two "arms"',
        estimator="gm",
        estimate=estimate,
        base=base,
        tied=False,
        validation=validation,
        **fields,
    )
