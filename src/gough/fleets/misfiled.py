"""Logs that are filed under the wrong robot, by content and by the parameters they show."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

import numpy as np

from gough.core.arrays import TINY
from gough.fleets.history import FleetLog, RobotHistory
from gough.processing.many_logs import Collected

# fraction of the squared residual above its usual size that the
# parameters of the robot that recorded a log have to explain
OWNER_FRACTION = 0.8


def shared_files(logs: Sequence[FleetLog], copies: Mapping[str, str]) -> list[list[FleetLog]]:
    """Return groups of logs of different robots that are the same file or have its content.

    Args:
        logs: All logs.
        copies: Path of the first log with the same content, by path.
    """
    groups: dict[str, list[FleetLog]] = {}
    for log in logs:
        groups.setdefault(copies.get(log.path, log.path), []).append(log)
    shared = []
    for group in groups.values():
        if len({log.robot for log in group}) > 1:
            shared.append(group)
    return shared


def without_logs(collected: Collected, groups: Sequence[Sequence[FleetLog]]) -> Collected:
    """Return the statistics without some logs."""
    left_out: set[str] = set()
    for group in groups:
        left_out.update(log.path for log in group)
    keys = {path: key for path, key in collected.keys.items() if path not in left_out}
    copies = {path: first for path, first in collected.copies.items() if path not in left_out}
    return replace(collected, keys=keys, copies=copies)


def owners_of_period(
    histories: Sequence[RobotHistory],
    robot: int,
    period: int,
    collected: Collected,
    left_out: Collection[int] = (),
) -> list[int]:
    """Return the other robots whose parameters explain an unusual period, the best one first.

    They have to explain most of the squared residual above its usual
    size, all joint equations over their usual residual. Robots that are
    alike may all do so.

    Args:
        histories: The robots.
        robot: The robot under which the period is filed.
        period: The period.
        collected: Statistics of all logs.
        left_out: Robots that are not considered.
    """
    paths = histories[robot].logs[period]
    keys = {path: collected.keys[path] for path in paths}
    statistics = replace(collected, keys=keys).merged().statistics
    usual = np.median([np.median(history.residual, axis=0) for history in histories], axis=0)
    squares = np.full(len(histories), np.inf)
    for k, history in enumerate(histories):
        if k in left_out and k != robot:
            continue
        rms = statistics.residual_statistics(history.estimate.values).rms
        squares[k] = float(((rms / np.maximum(usual, TINY)) ** 2).sum())
    above_usual = squares[robot] - len(usual)
    explained = squares[robot] - squares
    owners = [int(k) for k in np.argsort(squares) if explained[k] >= OWNER_FRACTION * above_usual]
    return [] if robot in owners else owners
