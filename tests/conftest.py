"""Recordings that several rooms' tests share; simulated once per test process."""

from __future__ import annotations

import gc
import signal
from collections.abc import Iterator

import pytest

from gough.app.identify import identify
from gough.engine import Model
from gough.identification import Identification
from gough.logs.recording import Recording
from gough.virtual import Simulation, record, simulate
from tests_support import fourier, made_once, model_of

pytest_plugins = ["measured"]


def pytest_collection_finish() -> None:
    """Let the garbage collector forget what was collected: it all stays until the end."""
    gc.freeze()


@pytest.fixture
def default_interrupt() -> Iterator[None]:
    """Give child processes the usual reaction to Ctrl-C.

    Background jobs of a shell ignore it, and their children inherit that.
    """
    inherited = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, inherited)


@pytest.fixture(scope="session")
def five_bar() -> Model:
    return model_of("five_bar")


@pytest.fixture(scope="session")
def five_bar_run(five_bar: Model) -> Simulation:
    return simulate(five_bar, fourier(five_bar, 0.4, 0.5, harmonics=5), periods=5)


@pytest.fixture(scope="session")
def five_bar_log(five_bar_run: Simulation) -> Recording:
    return record(five_bar_run, seed=1)


@pytest.fixture(scope="session")
def five_bar_result(five_bar: Model, five_bar_log: Recording) -> Identification:
    """What identification with its defaults makes of the log."""
    return identify(five_bar, [five_bar_log])


@pytest.fixture(scope="session")
def five_bar_other(five_bar: Model, tmp_path_factory: pytest.TempPathFactory) -> Recording:
    """Another motion, on the plant that does not share our equations."""
    pytest.importorskip("pinocchio")

    def recorded() -> Recording:
        trajectory = fourier(five_bar, 0.4, 0.5, seed=3, harmonics=5)
        return record(simulate(five_bar, trajectory, periods=3, plant="pinocchio"), seed=2)

    return made_once(tmp_path_factory, "five_bar_other", recorded)
