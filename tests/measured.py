"""Mark tests as slow by what they were measured to take.

`tests/slow_tests.txt` lists the tests, and the fixtures of modules and sessions, that take more
than a quarter of a second of processor time. `python tools.py test --measure` measures what it runs and
renews the lines of those files. A test is slow if it is listed or uses a fixture that is.
"""

from __future__ import annotations

import os
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

SLOW_SECONDS = 0.25  # of processor time
LIST = Path(__file__).with_name("slow_tests.txt")
SHARED_SCOPES = ("module", "package", "session")


def processor_time() -> float:
    """Return the processor time of this process and of those it waited for. [s]"""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def listed() -> dict[str, float]:
    """Return the measured times of slow tests and fixtures by their names. [s]"""
    seconds = {}
    for line in LIST.read_text(encoding="utf-8").splitlines():
        number, _, name = line.partition(" ")
        seconds[name] = float(number)
    return seconds


def fixture_names(item: pytest.Item) -> set[str]:
    """Return the fixtures of a test as the list names them."""
    names = set()
    for name, definitions in item._fixtureinfo.name2fixturedefs.items():  # type: ignore[attr-defined]
        names |= {f"{definition.baseid}::{name}" for definition in definitions}
    return names


def renewed(seconds: dict[str, float], measured: dict[str, float]) -> dict[str, float]:
    """Return the list with the files that were measured renewed."""
    files = {name.partition("::")[0] for name in measured}
    kept = {name: s for name, s in seconds.items() if name.partition("::")[0] not in files}
    slow = {name: s for name, s in measured.items() if s > SLOW_SECONDS}
    return kept | slow


class Stopwatch:
    """Measures tests and shared fixtures where they run, and writes the list where they end."""

    def __init__(self) -> None:
        self.measured: dict[str, float] = {}
        self.test: pytest.Item | None = None

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> Generator[None, Any, Any]:
        """Remember the test for which fixtures are set up."""
        self.test = item
        return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: Any) -> Generator[None, Any, Any]:
        """Measure a shared fixture."""
        started = processor_time()
        try:
            return (yield)
        finally:
            if fixturedef.scope in SHARED_SCOPES and self.test is not None:
                name = f"{fixturedef.baseid}::{fixturedef.argname}"
                self.test.user_properties.append((name, processor_time() - started))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, Any, Any]:
        """Measure a test without its fixtures."""
        started = processor_time()
        try:
            return (yield)
        finally:
            item.user_properties.append((item.nodeid, processor_time() - started))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Collect what was measured, also in other processes."""
        if report.when == "call":
            for name, seconds in report.user_properties:
                self.measured[name] = max(float(str(seconds)), self.measured.get(name, 0.0))

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Write the list, in the process that started the others."""
        if not hasattr(session.config, "workerinput"):
            seconds = renewed(listed(), self.measured)
            lines = [f"{seconds[name]:.1f} {name}\n" for name in sorted(seconds)]
            LIST.write_text("".join(lines), encoding="utf-8")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that measures."""
    parser.addoption("--measure", action="store_true", help="renew tests/slow_tests.txt")


def pytest_configure(config: pytest.Config) -> None:
    """Measure if asked to."""
    if config.getoption("--measure"):
        config.pluginmanager.register(Stopwatch())


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the listed tests, before tests are chosen by their marks."""
    slow = listed()
    for item in items:
        if item.nodeid in slow or not slow.keys().isdisjoint(fixture_names(item)):
            item.add_marker(pytest.mark.slow)
