"""Logs without payload are treated alike, whether or not the experiment has loaded ones too."""

from __future__ import annotations

from gough.engine import Model, base_parameters
from gough.identification import prepare
from gough.signals.recording import Recording


def test_the_window_about_reversals_does_not_depend_on_payloads_of_other_logs(
        five_bar: Model, five_bar_log: Recording) -> None:
    alone = prepare(five_bar, [five_bar_log], base_parameters(five_bar))
    among = prepare(five_bar, [five_bar_log], base_parameters(five_bar, payloads=("disc",)))
    assert alone.window > 0
    assert among.window == alone.window
    assert len(among.problem) == len(alone.problem) < len(alone.whole[0])
