"""BLAS runs with one thread inside, and as before outside."""

from __future__ import annotations

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from gough.core.blas import one_blas_thread
from gough.fitting.regression import Regression, block_statistics


def threads() -> set[int]:
    return {
        library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"
    }


def test_one_thread_inside_and_the_callers_setting_after() -> None:
    with threadpool_limits(limits=2, user_api="blas"):
        before = threads()
        assert one_blas_thread(threads)() == {1}
        assert threads() == before
        assert 2 in before

        def fail() -> None:
            raise RuntimeError

        with pytest.raises(RuntimeError):
            one_blas_thread(fail)()
        assert threads() == before


def test_condensing_runs_with_one_thread() -> None:
    seen = []
    problem = Regression(
        regressor=np.ones((4, 1, 1)),
        effort=np.ones((4, 1)),
        rows=("a",),
        row_units=("N",),
        parameters=("p",),
        units=("kg",),
    )

    def blocks():
        seen.append(threads())
        yield problem

    with threadpool_limits(limits=2, user_api="blas"):
        block_statistics(blocks())
    assert seen == [{1}]
