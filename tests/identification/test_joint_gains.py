"""Drive gains without a payload: logs in efforts beside logs in currents, and relative gains."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from gough.core.errors import InvalidInput
from gough.engine import Model
from gough.identification import Identification, IdentifySettings
from gough.identification.fit import fit_logs
from gough.identification.joint_gains import first_gains
from gough.logs.recording import Recording

TRUE_GAINS = np.array([2.5, 4.0])
FIRST_GUESS = {"left.motor": 3.0, "right.motor": 3.5}


def in_volts(log: Recording) -> Recording:
    assert log.effort is not None
    return replace(
        log, effort=None, current=log.effort / TRUE_GAINS, current_units=("V", "V"), source="volts"
    )


def found(
    model: Model, logs: Sequence[Recording], guess: dict[str, float] = FIRST_GUESS
) -> Identification:
    settings = IdentifySettings(find_gains=True, gains=guess)
    return fit_logs(model, logs, settings).identification


@pytest.fixture(scope="module")
def joint(five_bar: Model, five_bar_log: Recording, five_bar_other: Recording) -> Identification:
    return found(five_bar, [five_bar_log, in_volts(five_bar_other)])


def test_logs_in_efforts_determine_the_gains_of_those_in_volts(
    five_bar: Model, joint: Identification
) -> None:
    assert list(joint.drive_gains) == ["left.motor", "right.motor"]
    assert joint.estimate.units[-1] == joint.gain_units["right.motor"] == "N m/V"
    for gain, truth in zip(joint.drive_gains.values(), TRUE_GAINS):
        assert abs(gain["value"] - truth) < 3 * gain["std"]
        assert gain["std"] < 0.02 * truth
    assert not any(notice.rule == "drive gains" for notice in joint.notices)
    # parameters as well: the efforts of the file are those of the plant
    robot = [k for k, name in enumerate(joint.estimate.parameters) if not name.is_gain]
    truth = joint.base.values(five_bar.values(joint.base.standard))
    z = (joint.estimate.values[robot] - truth) / joint.estimate.std[robot]
    assert np.sqrt(np.mean(z**2)) < 2


def test_one_log_in_volts_determines_the_ratio_of_the_gains_and_says_what_is_open(
    five_bar: Model, five_bar_log: Recording
) -> None:
    alone = found(five_bar, [in_volts(five_bar_log)])
    ratio = alone.drive_gains["right.motor"]
    assert alone.drive_gains["left.motor"] == {"value": FIRST_GUESS["left.motor"]}
    expected = FIRST_GUESS["left.motor"] * TRUE_GAINS[1] / TRUE_GAINS[0]
    assert abs(ratio["value"] - expected) < 3 * ratio["std"]
    assert ratio["std"] < 0.05 * expected
    [notice] = [notice for notice in alone.notices if notice.rule == "drive gains"]
    assert notice.where == "left.motor"
    assert "one factor common to all gains" in notice.text


def test_logs_in_efforts_alone_have_no_gains_to_find(
    five_bar: Model, five_bar_log: Recording
) -> None:
    with pytest.raises(InvalidInput, match="all logs have efforts"):
        found(five_bar, [five_bar_log])


def test_first_guesses_come_from_the_logs_if_no_gain_is_known(
    five_bar: Model, five_bar_log: Recording, five_bar_other: Recording
) -> None:
    logs = [five_bar_log, in_volts(five_bar_other)]
    guesses = first_gains(five_bar, logs, None)
    np.testing.assert_allclose(list(guesses.values()), TRUE_GAINS, rtol=0.5)
    assert first_gains(five_bar, logs, guesses) == guesses
    with pytest.raises(InvalidInput, match=r"drive gain of 'left\.motor' is not known; give it"):
        first_gains(five_bar, logs[1:], None)
    relative = first_gains(five_bar, logs[1:], {"left.motor": 3.0})
    assert relative == {"left.motor": 3.0, "right.motor": 3.0}
