"""A well excited five-bar on the independent plant, simulated once: what the benchmark of mistakes
starts from.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

from gough.engine import Model
from gough.logs.recording import Recording


@pytest.fixture(scope="session")
def mistakes() -> ModuleType:
    """The benchmark of mistakes, as a module."""
    pytest.importorskip("pinocchio")
    path = Path(__file__).parents[2] / "benchmarks" / "mistakes.py"
    spec = importlib.util.spec_from_file_location("mistakes", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["mistakes"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def stage(mistakes: ModuleType, five_bar: Model) -> object:
    """The five-bar with an identification and a held-out motion."""
    made = mistakes.Stage("five_bar")
    made.__dict__["model"] = five_bar
    return made


@pytest.fixture(scope="session")
def excited(stage: object) -> tuple[Recording, Recording]:
    """A log to identify from and one of another motion."""
    return tuple(stage.clean(run, 1).recording for run in (0, 1))  # type: ignore[attr-defined,return-value]
