"""The window in a real browser: it shows the robot, moves it, plays a log, and asks nobody else for
anything.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import gough
from browser import CHROMIUM, Browser
from gough.app.view.posture import Posture
from gough.app.view.window import Window, playback
from gough.engine import Model
from gough.identification.result import Fit
from gough.mechanism import load_robot
from tests_support import fourier, model_of

pytest.importorskip("viser")
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


def made_up(model: Model) -> Fit:
    """Return a log of one motor that moves a little."""
    time = np.linspace(0, 1, 51)
    positions = np.tile(model.home[list(model.actuated)], (51, 1))
    positions[:, 0] += 0.05 * np.sin(2 * np.pi * time)
    q = model.kinematics.close_loops(positions)
    effort = np.column_stack([np.sin(2 * np.pi * time), np.cos(2 * np.pi * time)])
    return Fit(
        label="made up",
        held_out=False,
        time=time,
        measured=effort,
        predicted=0.9 * effort,
        q=q,
        used=np.ones(effort.shape, dtype=bool),
    )


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here")
def test_the_page_shows_motors_margins_and_a_log_and_stays_on_this_machine(tmp_path: Path):
    posture = Posture(load_robot("five_bar"))
    assert posture.model is not None
    fit = made_up(posture.model)
    window = Window(posture, [fit], port=8600)
    browser = Browser(tmp_path / "profile")
    try:
        browser.open(window.address)
        for _ in range(40):
            text = browser.run("document.body.innerText")
            if "Type-2 singularity" in text:
                break
            browser.wait(0.5)
        for word in (
            "five_bar",
            "left.motor",
            "right.motor",
            "Type-1 singularity",
            "measured",
            "play",
        ):
            assert word in text
        assert browser.run("document.querySelector('canvas') !== null")
        before = np.array(posture.q)
        # The user's own hand: the number beside the first motor's slider, as the page has it.
        browser.run(
            """(() => {
            const fields = [...document.querySelectorAll('input[type=text]')];
            const field = fields.find(x => Math.abs(Number(x.value) - HOME) < 5e-3);
            const set = Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, 'value').set;
            set.call(field, String(Number(field.value) + 0.05));
            field.dispatchEvent(new Event('input', {bubbles: true}));
            field.dispatchEvent(new Event('change', {bubbles: true}));
            field.blur();
        })()""".replace("HOME", str(before[posture.sliders[0].index]))
        )
        for _ in range(40):
            if np.abs(posture.q - before).max() > 0.04:
                break
            browser.wait(0.5)
        assert np.abs(posture.q - before).max() > 0.04
        assert posture.chain.residual(posture.q[None])[0] < 1e-9
        window.show_sample(12)
        np.testing.assert_allclose(posture.q, fit.q[12])
        elsewhere = [
            r for r in browser.requests if not r.startswith((window.address, "data:", "blob:"))
        ]
        assert elsewhere == []
    finally:
        browser.close()
        window.close()


def test_a_log_is_played_with_the_robot_files_values_and_with_a_result(tmp_path: Path):
    model = model_of("five_bar")
    log = gough.record(
        gough.simulate(model, fourier(model, 0.4, 0.5, harmonics=5), periods=2), seed=4
    )
    first = playback(model, log)
    error = np.sqrt(
        ((first.measured - first.predicted) ** 2).mean(axis=0) / (first.measured**2).mean(axis=0)
    )
    assert (error < 0.1).all()  # the virtual robot is that of the file
    result = gough.identify(model, [log])
    second = playback(model, log, result)
    np.testing.assert_allclose(second.predicted, result.fits[0].predicted)
    assert np.abs(second.predicted - first.predicted).max() > 0
