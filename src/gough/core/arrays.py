"""Arrays as values: copied, checked, read-only."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gough.core.errors import InvalidInput

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]
TINY = float(np.finfo(float).tiny)  # never a divisor of zero


def frozen(values: ArrayLike, dtype: Any = np.float64) -> NDArray[Any]:
    """Copy into a read-only C-ordered array; an array that already is one and owns its data is
    returned as is.
    """
    if (
        isinstance(values, np.ndarray)
        and values.dtype == dtype
        and not values.flags.writeable
        and (values.flags.c_contiguous and values.base is None)
    ):
        return values
    array = np.array(values, dtype=dtype, order="C", copy=True)
    array.flags.writeable = False
    return array


def check_shapes(thing: object, **shapes: tuple[int | None, ...]) -> None:
    """Raise `InvalidInput` unless attributes have these shapes; of a tuple that is its length, None
    has any.
    """
    for name, shape in shapes.items():
        value = getattr(thing, name)
        if isinstance(value, tuple) and len(value) != shape[0]:
            raise InvalidInput(f"{name} has {len(value)} entries, expected {shape[0]}")
        if isinstance(value, np.ndarray):
            check_shape(value, shape, name)


def check_shape(array: NDArray[Any], shape: tuple[int | None, ...], name: str) -> None:
    """Raise `InvalidInput` unless the array has the shape; None matches any length."""
    fits = array.ndim == len(shape) and all(w is None or w == h for h, w in zip(array.shape, shape))
    if not fits:
        wanted = "(" + ", ".join("any" if n is None else str(n) for n in shape) + ")"
        raise InvalidInput(
            f"{name} has shape {array.shape}, expected {wanted}", shape=array.shape, expected=shape
        )


def check_finite(array: FloatArray, name: str) -> None:
    """Raise `InvalidInput` naming the first sample that is not finite."""
    bad = ~np.isfinite(array)
    if bad.any():
        where = tuple(int(i) for i in np.argwhere(bad)[0])
        raise InvalidInput(
            f"{name} is not finite at index {where} ({int(bad.sum())} such values); "
            "remove or repair these samples",
            index=where,
            count=int(bad.sum()),
        )
