"""The page of a fleet: what is to be checked, when, how severe it is, and one robot in detail."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from browser import CHROMIUM, Browser
from gough import __version__
from gough.app.report.fleet_report import MAX_MAP_COLUMNS, fleet_page
from gough.core.arrays import FloatArray
from gough.fleets.alerts import Alert, ScoreLimits, unusual_robots
from gough.fleets.fleet import Fleet
from gough.fleets.hierarchy import drifts, hierarchy, trend
from gough.fleets.history import DAY, RobotHistory

sys.path.insert(0, str(Path(__file__).parent))
from examples import result

ROBOTS = 5
BAD_DAYS = (3, 7)
FIRST = 20000 * DAY  # 2024-10-04


def history(k: int, days: int) -> RobotHistory:
    """A robot over some days: the second one has two bad days, the third one drifts."""
    rng = np.random.default_rng(k)
    estimate = result("five_bar").estimate
    starts = FIRST + DAY * np.arange(days)
    values = estimate.values + 0.1 * estimate.std * rng.standard_normal((days, len(estimate)))
    residual: FloatArray = 1.0 + 0.02 * rng.standard_normal((days, 2))
    if k == 1:
        residual[list(BAD_DAYS), 0] = 6.0
    if k == 2:
        values[:, -1] += 5 * estimate.std[-1] * np.linspace(0, 1, days)
    std = np.tile(0.1 * estimate.std, (days, 1))
    return RobotHistory(
        robot=f"r{k}",
        estimate=estimate,
        starts=starts,
        temperature=np.full(days, np.nan),
        values=values,
        std=std,
        residual=residual,
        n_valid=np.full(residual.shape, 100_000),
        trend=trend(starts, values, std),
        logs=tuple((f"r{k}-{day}.npz",) for day in range(days)),
    )


def fleet_of(days: int) -> Fleet:
    histories = tuple(history(k, days) for k in range(ROBOTS))
    estimate = histories[0].estimate
    common = hierarchy(
        np.array([each.estimate.values for each in histories]),
        np.array([each.estimate.covariance for each in histories]),
    )
    trends = [each.trend for each in histories if each.trend is not None]
    days_of_alert = ("2024-10-07", "2024-10-11")
    return Fleet(
        kind="five_bar",
        parameters=estimate.parameters,
        units=estimate.units,
        histories=histories,
        common=common,
        drift=drifts(trends, 0.01),
        trending=tuple(each.robot for each in histories),
        alerts=(
            Alert("r2", "drift", "right.motor.fs changes by +0.1 N m", 12.0, "check bearings"),
            Alert("r1", "fault", "a payload of 0.8 kg", 55.0, "name it", days_of_alert),
        ),
        false_alarms=0.01,
        notices=(),
        observability=("",) * len(estimate.parameters),
    )


@pytest.fixture(scope="module")
def page() -> str:
    return fleet_page(fleet_of(12), date="2026-01-02")


def test_the_page_names_its_date_its_version_and_the_days_of_the_logs(page: str) -> None:
    assert f"2024-10-04 to 2024-10-15. Written 2026-01-02 by Gough {__version__}." in page


def test_alerts_are_listed_by_severity_with_their_days(page: str) -> None:
    table = page[page.index('<table class="alerts">') : page.index("</table>")]
    assert table.index("#robot-r1") < table.index("#robot-r2")
    assert "2024-10-07, 2024-10-11" in table
    assert '<td class="n">55</td>' in table


def test_the_map_is_dark_on_the_bad_days_only(page: str) -> None:
    drawing = page[page.index('class="chart map"') :]
    drawing = drawing[: drawing.index("</svg>")]
    cells = re.findall(r'<path d="([^"]*)" class="([^"]*)"', drawing)
    by_class = {style: re.findall(r"M(\d+) (\d+)", path) for path, style in cells}
    assert by_class["plus-8"] == [("3", "0"), ("7", "0")]  # the most severe robot is on top
    assert sum(map(len, by_class.values())) == 12 * ROBOTS


def test_years_of_days_share_the_columns_of_the_map() -> None:
    text = fleet_page(fleet_of(400), date="2026-01-02")
    drawing = text[text.index('class="chart map"') :]
    columns = {int(k) for k, _ in re.findall(r"M(\d+) (\d+)h", drawing)}
    assert columns == set(range(MAX_MAP_COLUMNS))


def test_every_affected_day_is_named_the_worst_with_its_log() -> None:
    histories = [history(k, 12) for k in range(ROBOTS)]
    scores = [np.zeros(12) for _ in histories]
    scores[1][list(BAD_DAYS)] = [20.0, 30.0]
    (unusual,) = unusual_robots(histories, np.zeros(ROBOTS), scores, {}, ScoreLimits(5.0, 5.0))
    assert unusual.periods == (7, 3)
    assert unusual.text == (
        "residual is unusually large on 2 days (2024-10-07, 2024-10-11), most on 2024-10-11 "
        "(r1-7.npz)"
    )


def test_a_hostile_name_stays_text() -> None:
    fleet = fleet_of(12)
    name = "<script>alert(1)</script>"
    histories = (replace(fleet.histories[0], robot=name), *fleet.histories[1:])
    text = fleet_page(replace(fleet, histories=histories), date="2026-01-02")
    assert name not in text


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    if CHROMIUM is None:
        pytest.skip("chromium is not installed")
    opened = Browser(tmp_path_factory.mktemp("chromium") / "profile")
    yield opened
    opened.close()


def test_one_robot_is_shown_in_charts_of_one_size(
    browser: Browser, page: str, tmp_path: Path
) -> None:
    (tmp_path / "fleet.html").write_text(page, encoding="utf-8")
    browser.open(tmp_path / "fleet.html")
    assert browser.complaints == []
    shown = (
        "[...document.querySelectorAll('.one-of > article')].filter(a => a.getClientRects().length)"
        ".map(a => a.id)"
    )
    assert browser.run(shown) == ["robot-r1"]  # the most severe one
    browser.run("location.hash = 'robot-r4'")
    assert browser.run(shown) == ["robot-r4"]
    widths = browser.run(
        "[...document.querySelectorAll('#robot-r4 .chart')].map(c => Math.round("
        "c.getBoundingClientRect().width))"
    )
    assert len(set(widths)) == 1
    assert 300 <= widths[0] <= 420
    assert browser.run("document.documentElement.scrollWidth <= innerWidth")
