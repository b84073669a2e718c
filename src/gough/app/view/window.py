"""The window in which a robot is shown: a page served on this machine, with the library viser."""

from __future__ import annotations

from collections.abc import Sequence
from threading import RLock
from time import monotonic, sleep
from typing import Any

import numpy as np
from scipy.spatial.transform import Rotation

from gough.app.report.scene import skeleton, upright
from gough.app.view.posture import Posture
from gough.core.arrays import FloatArray
from gough.core.display import import_optional
from gough.engine import Model, base_parameters
from gough.identification.experiment import prepare
from gough.identification.result import Fit, Identification, fits_of
from gough.identification.validation import unseen_by
from gough.logs.recording import Recording

COLOURS = {
    "body": (70, 90, 120),
    "rod": (130, 140, 150),
    "slide": (180, 120, 40),
    "base": (120, 120, 120),
    "open": (220, 30, 30),
    "motor": (200, 90, 30),
    "joint": (60, 60, 60),
    "platform": (60, 120, 200),
}
PLOTTED = 1500  # most points of a curve in the panel
FRAME = 0.04  # time between two pictures of a log that is played [s]


def playback(model: Model, recording: Recording, result: Identification | None = None) -> Fit:
    """Return what a robot did and what its motors should have done by a result, by its robot file
    without one.
    """
    if result is not None:
        return fits_of(unseen_by(result, model, [recording]), result.estimate.predict)[0]
    base = base_parameters(
        model, payloads=() if recording.payload is None else (recording.payload,)
    )
    values = base.values(model.values(base.standard))
    return fits_of(prepare(model, [recording], base), lambda part: part.regressor @ values)[0]


class Window:
    """A robot in the browser: sliders for its motors, a handle at its platform, and logs played
    back.

    It listens on this machine only by default, on the next free port if its own is taken.
    """

    def __init__(
        self,
        posture: Posture,
        fits: Sequence[Fit] = (),
        *,
        host: str = "127.0.0.1",
        port: int = 8080,
    ) -> None:
        self.posture, self.fits, self._lock = posture, tuple(fits), RLock()
        mechanism = posture.chain.loops.mechanism
        self._server = import_optional("viser", "view").ViserServer(
            host=host, port=port, label=mechanism.name, verbose=False
        )
        self.address = f"http://{host}:{self._server.get_port()}"
        axes = upright(mechanism.gravity)
        self._server.scene.set_up_direction(tuple(axes[2]))
        self._drawn: dict[str, Any] = {}
        drawn = skeleton(posture.chain, posture.tool, posture.q[None])
        self._size, middle = drawn.size, drawn.points[0].mean(axis=0)
        self._server.initial_camera.look_at = tuple(middle)
        self._server.initial_camera.position = tuple(
            middle + drawn.size * axes.T @ np.array([0.8, -1.1, 0.5])
        )
        self._panel()
        self._redraw()

    def _panel(self) -> None:
        gui, posture = self._server.gui, self.posture
        self._told = gui.add_markdown("")
        if self.fits:
            self._player()
        with gui.add_folder("Motors" if posture.model is not None else "Joints (loops are open)"):
            self._sliders = [
                gui.add_slider(
                    f"{s.name} [{s.unit}]",
                    s.low,
                    s.high,
                    (s.high - s.low) / 2000,
                    posture.q[s.index],
                )
                for s in posture.sliders
            ]
            home = gui.add_button("Start pose")
        for slider in self._sliders:
            slider.on_update(self._moved)
        home.on_click(lambda event: self._show(posture.chain.loops.home))
        with gui.add_folder("Show"):
            self._names, self._frames = (
                gui.add_checkbox("names", False),
                gui.add_checkbox("frames", False),
            )
        for box in (self._names, self._frames):
            box.on_update(lambda event: self._redraw())
        self._handle: Any = None
        if posture.model is not None:
            self._handle = self._server.scene.add_transform_controls(
                "/handle", scale=0.25 * self._size, depth_test=False
            )
            self._handle.on_update(self._pulled)

    def _player(self) -> None:
        from viser import uplot

        gui = self._server.gui
        rows = [] if self.posture.model is None else list(self.posture.model.rows)
        with gui.add_folder("Log"):
            self._which = gui.add_dropdown("log", [fit.label for fit in self.fits])
            self._time = gui.add_slider("sample", 0, len(self.fits[0].time) - 1, 1, 0)
            self._playing = gui.add_checkbox("play", False)
            self._speed = gui.add_slider("speed", 0.1, 4.0, 0.1, 1.0)
            self._row = gui.add_dropdown("effort", rows)
            series = [
                uplot.Series(label=label, stroke=colour, width=width)
                for label, colour, width in (
                    ("measured", "#888", 1.5),
                    ("predicted", "#c40", 1.5),
                    ("now", "#06c", 1),
                )
            ]
            self._plot = gui.add_uplot(
                (np.arange(2.0), *np.zeros((3, 2))),
                (uplot.Series(label="t [s]"), *series),
                aspect=1.2,
                scales={"x": uplot.Scale(time=False)},
            )
        self._which.on_update(lambda event: self._chose())
        self._row.on_update(lambda event: self._chart())
        self._time.on_update(self._sought)
        self._chart()

    @property
    def _fit(self) -> Fit:
        return next(fit for fit in self.fits if fit.label == self._which.value)

    def _chose(self) -> None:
        self._time.max = len(self._fit.time) - 1
        self.show_sample(0)

    def _sought(self, event: Any) -> None:
        if event.client is not None:  # moved by the user, not by us
            self.show_sample(int(self._time.value))

    def _chart(self) -> None:
        fit, row = self._fit, self._row.options.index(self._row.value)
        step = max(1, len(fit.time) // PLOTTED)
        curves = np.stack([fit.measured[::step, row], fit.predicted[::step, row]])
        now = np.full(curves.shape[1], curves.min())  # gaps would hide all: a line with a spike
        now[min(int(self._time.value) // step, len(now) - 1)] = curves.max()
        self._plot.data = (np.asarray(fit.time[::step]), *curves, now)

    def show_sample(self, sample: int) -> None:
        """Put the robot where the log in the panel says it was."""
        with self._lock:
            self._time.value = sample
            self._show(self._fit.q[sample])
            self._chart()

    def _show(self, q: FloatArray) -> None:
        with self._lock:
            self.posture.q = np.array(q)
            self._redraw()

    def _moved(self, event: Any) -> None:
        if event.client is not None:
            with self._lock:
                self._redraw(
                    self.posture.drive(np.array([slider.value for slider in self._sliders]))
                )

    def _pulled(self, event: Any) -> None:
        with self._lock:
            turn = Rotation.from_quat(self._handle.wxyz, scalar_first=True).as_matrix()
            self._redraw(self.posture.pull(turn, np.array(self._handle.position)))

    def _redraw(self, trouble: str = "") -> None:
        """Draw the pose and bring panel and handle in line with it."""
        posture = self.posture
        with self._lock, self._server.atomic():
            self._draw(skeleton(posture.chain, posture.tool, posture.q[None]))
            for slider, value in zip(self._sliders, posture.positions):
                slider.value = float(np.clip(value, slider.min, slider.max))
            if self._handle is not None:
                turn, origin = posture.place()
                self._handle.wxyz = Rotation.from_matrix(turn).as_quat(scalar_first=True)
                self._handle.position = tuple(origin)
            lines = [
                f"**{posture.chain.loops.mechanism.name}**",
                *([f"**{trouble}**"] if trouble else []),
            ]
            self._told.content = "\n\n".join([*lines, *posture.describe()])

    def _draw(self, drawn: Any) -> None:
        scene, points, thick = self._server.scene, drawn.points[0], 0.012 * self._size
        old, self._drawn = self._drawn, {}
        lines = [(points[[a, b]], kind) for a, b, kind in drawn.links]
        lines += [(gap.ends, "open") for gap in self.posture.gaps() if len(gap.ends)]
        if lines:
            colours = np.array([[COLOURS[kind]] * 2 for _, kind in lines], dtype=np.uint8)
            self._drawn["links"] = scene.add_line_segments(
                "/robot/links",
                np.stack([ends for ends, _ in lines]).astype(np.float32),
                colours,
                thickness=thick,
            )
        for k, (ring, kind) in enumerate(drawn.plates):
            fan = np.array([[0, i, i + 1] for i in range(1, len(ring) - 1)])
            self._drawn[f"plate{k}"] = scene.add_mesh_simple(
                f"/robot/plate{k}",
                points[list(ring)],
                fan,
                color=COLOURS[kind],
                opacity=0.5,
                side="double",
            )
        for k, (at, kind) in enumerate(drawn.dots):
            self._drawn[f"dot{k}"] = scene.add_icosphere(
                f"/robot/dot{k}",
                radius=(1.4 if kind == "motor" else 0.9) * thick,
                color=COLOURS[kind],
                subdivisions=2,
                position=tuple(points[at]),
            )
        chain = self.posture.chain
        mechanism, (turns, origins) = chain.loops.mechanism, chain.body_poses(self.posture.q[None])
        for joint, body, turn, origin in zip(
            mechanism.joints, mechanism.bodies, turns[0], origins[0]
        ):
            real = not joint.virtual or body.name == mechanism.platform
            quaternion = Rotation.from_matrix(turn).as_quat(scalar_first=True)
            if self._frames.value and real:
                self._drawn[f"frame {body.name}"] = scene.add_frame(
                    f"/robot/frames/{body.name}",
                    axes_length=0.08 * self._size,
                    axes_radius=0.004 * self._size,
                    wxyz=quaternion,
                    position=tuple(origin),
                )
            if self._names.value and real:
                self._drawn[f"name {body.name}"] = scene.add_label(
                    f"/robot/names/{body.name}", body.name, position=tuple(origin)
                )
        for name in old.keys() - self._drawn.keys():
            old[name].remove()

    def run(self) -> None:
        """Stay until interrupted, playing logs."""
        try:
            while True:
                sleep(FRAME)
                if self.fits and self._playing.value:
                    self._play()
        finally:
            self.close()

    def _play(self) -> None:
        """Play from the current sample until told to stop or at the end."""
        fit, begun = self._fit, monotonic()
        start = fit.time[int(self._time.value)]
        while self._playing.value and fit is self._fit:
            sample = int(
                np.searchsorted(fit.time, start + self._speed.value * (monotonic() - begun))
            )
            if sample < len(fit.time):
                self.show_sample(sample)
                sleep(FRAME)
            else:
                self._playing.value = False

    def close(self) -> None:
        """End the page."""
        self._server.stop()
