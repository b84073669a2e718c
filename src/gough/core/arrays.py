"""Array types, read-only copies, and checks of type, shape and content."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gough.core.errors import InvalidInput

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]
TINY = float(np.finfo(float).tiny)  # lower bound of a divisor that may be zero


def frozen(values: ArrayLike, dtype: Any = np.float64) -> NDArray[Any]:
    """Return a read-only C-ordered copy.

    An array that is already read-only and C-ordered is returned without
    copying, unless it is a part of another one or of an array that can
    be written.
    """
    if isinstance(values, np.ndarray) and values.dtype == dtype and values.flags.c_contiguous:
        owner: Any = values if values.base is None else values.base
        whole = isinstance(owner, np.ndarray) and owner.base is None and owner.size == values.size
        if whole and not values.flags.writeable and not owner.flags.writeable:
            return values
    array = np.array(values, dtype=dtype, order="C", copy=True)
    array.flags.writeable = False
    return array


def without_copy(array: NDArray[Any]) -> NDArray[Any]:
    """Return a new array that nobody else has as read-only: `frozen` does not copy it."""
    if isinstance(array.base, np.ndarray):
        array.base.flags.writeable = False
    array.flags.writeable = False
    return array


def check_shapes(record: object, **shapes: tuple[int | None, ...]) -> None:
    """Raise `InvalidInput` unless attributes of an object have these shapes.

    The shape of a tuple is its length. Attributes that are None pass.
    """
    for name, shape in shapes.items():
        content = getattr(record, name)
        if isinstance(content, tuple) and len(content) != shape[0]:
            raise InvalidInput(f"{name} has {len(content)} entries, expected {shape[0]}")
        if isinstance(content, np.ndarray):
            check_shape(content, shape, name)


def check_shape(array: NDArray[Any], shape: tuple[int | None, ...], name: str) -> None:
    """Raise `InvalidInput` unless the array has the shape; None matches any length."""
    fits = array.ndim == len(shape)
    for length, wanted in zip(array.shape, shape):
        fits = fits and wanted in (None, length)
    if not fits:
        expected = str(shape).replace("None", "any")
        raise InvalidInput(
            f"{name} has shape {array.shape}, expected {expected}",
            shape=array.shape,
            expected=shape,
        )


def check_finite(array: FloatArray, name: str) -> None:
    """Raise `InvalidInput` naming the first entry that is not finite."""
    with np.errstate(over="ignore", invalid="ignore"):
        total = array.sum()
    if np.isfinite(total):  # most arrays: one pass without a copy
        return
    bad = ~np.isfinite(array)
    if not bad.any():
        return
    index = tuple(int(i) for i in np.argwhere(bad)[0])
    count = int(bad.sum())
    raise InvalidInput(
        f"{name} is not finite at index {index} ({count} such values); "
        "remove or repair these samples",
        index=index,
        count=count,
    )


def check_type(argument: Any, kind: type | tuple[type, ...], name: str, wanted: str) -> None:
    """Raise `InvalidInput` unless an argument has a type.

    Args:
        argument: Its content.
        kind: Type or types, as for `isinstance`.
        name: Of the argument, for the message.
        wanted: What was expected, in words.
    """
    if isinstance(argument, kind):
        return
    if isinstance(argument, str | int | float | None):
        shown = repr(argument)
    else:
        shown = f"a {type(argument).__name__}"
    raise InvalidInput(f"{name} is {shown}, expected {wanted}", argument=name)
