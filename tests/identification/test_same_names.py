"""Logs of one name, such as run.csv in two folders, keep their own figures."""

from dataclasses import replace

from gough.app.identify import identify
from gough.engine import Model
from gough.logs.recording import Recording


def test_recordings_of_one_name_keep_their_own_quality_figures(
    five_bar: Model, five_bar_log: Recording
) -> None:
    assert five_bar_log.period_samples is not None
    shorter = five_bar_log.take(slice(0, 2 * five_bar_log.period_samples))
    logs = [replace(log, source="run.csv") for log in (five_bar_log, shorter)]
    quality = identify(five_bar, logs).quality
    assert [figures["periods"] for figures in quality.values()] == [five_bar_log.period_count, 2]
    assert list(quality) == ["run.csv", "run.csv (2)"]
