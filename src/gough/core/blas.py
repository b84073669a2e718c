"""One BLAS thread for work on many small matrices.

Gough spreads samples over the cores itself. BLAS threads on top of that
gain nothing on matrices of this size, and on a busy machine they wait
for each other: the triangular factors of a log then took seventy times
as long.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import lru_cache, wraps
from typing import ParamSpec, TypeVar

from threadpoolctl import ThreadpoolController

P = ParamSpec("P")
T = TypeVar("T")


@lru_cache
def _blas_libraries(scipy: bool) -> ThreadpoolController:
    """Find the BLAS libraries loaded so far, which takes milliseconds.

    Args:
        scipy: SciPy is loaded, which brings a BLAS of its own;
            distinguishes the cached answers.
    """
    return ThreadpoolController()


def one_blas_thread(function: Callable[P, T]) -> Callable[P, T]:
    """Make a function run with one BLAS thread; the caller's setting is restored after."""

    @wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> T:
        libraries = _blas_libraries("scipy.linalg" in sys.modules)
        with libraries.limit(limits=1, user_api="blas"):
            return function(*args, **kwargs)

    return run
