"""How much of a task is done, reported from wherever the work is.

A caller that shows progress opens `reporting`. Functions inside divide
the task into portions and report the fraction of the portion they are
in; without a caller that listens this does nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TypeVar

Progress = Callable[[float], None]  # called with the fraction done
_Element = TypeVar("_Element")


@dataclass(frozen=True)
class _Portion:
    """A part of a task, from `start` to `end` of the whole."""

    listener: Progress
    start: float = 0.0
    end: float = 1.0

    def at(self, fraction: float) -> float:
        """Return the fraction of the whole task at a fraction of this portion."""
        return self.start + (self.end - self.start) * min(max(fraction, 0.0), 1.0)


_current: ContextVar[_Portion | None] = ContextVar("portion", default=None)


@contextmanager
def reporting(listener: Progress) -> Iterator[None]:
    """Report what is done inside to a listener, which never hears less than before."""
    largest = 0.0

    def forward(fraction: float) -> None:
        nonlocal largest
        largest = max(largest, fraction)
        listener(largest)

    token = _current.set(_Portion(forward))
    try:
        yield
    finally:
        _current.reset(token)


@contextmanager
def portion(start: float, end: float) -> Iterator[None]:
    """Let what is reported inside be a part of the task, which is done at the end.

    Args:
        start: Fraction of the task that is done before.
        end: Fraction that is done after.
    """
    outer = _current.get()
    if outer is None:
        yield
        return
    token = _current.set(_Portion(outer.listener, outer.at(start), outer.at(end)))
    try:
        yield
    finally:
        _current.reset(token)
    outer.listener(outer.at(end))


def report(fraction: float) -> None:
    """Report the fraction of the task, or of the portion of it, that is done."""
    current = _current.get()
    if current is not None:
        current.listener(current.at(fraction))


def tracked(elements: Sequence[_Element]) -> Iterator[_Element]:
    """Yield elements, each a portion of the same size of the task."""
    for k, element in enumerate(elements):
        report(k / len(elements))
        yield element
    report(1.0)
