"""The window in which a robot is shown: a page served on this machine, with the library viser."""

from __future__ import annotations

from collections.abc import Sequence
from threading import RLock
from time import monotonic, sleep
from typing import Any

import numpy as np
from scipy.spatial.transform import Rotation

from gough.core.showing import needed
from gough.identification.result import Fit
from gough.report.scene import skeleton, upright
from gough.view.posture import Posture

COLOURS = {"body": (70, 90, 120), "rod": (130, 140, 150), "slide": (180, 120, 40), "base": (120, 120, 120),
           "open": (220, 30, 30), "motor": (200, 90, 30), "joint": (60, 60, 60), "platform": (60, 120, 200)}
PLOTTED = 1500  # most points of a curve in the panel
FRAME = 0.04  # time between two pictures of a log that is played [s]


class Window:
    """A robot in the browser: sliders for its motors, a handle at its platform, and logs played back.

    Args:
        posture: The robot.
        fits: Logs to play, with measured and predicted efforts.
        host: Address to listen on; this machine only by default.
        port: Port; the next free one if it is taken.
    """

    def __init__(self, posture: Posture, fits: Sequence[Fit] = (), *, host: str = "127.0.0.1",
                 port: int = 8080) -> None:
        self.posture, self.fits = posture, tuple(fits)
        self._lock = RLock()
        self._server = needed("viser", "view").ViserServer(host=host, port=port, label=self._name, verbose=False)
        self.address = f"http://{host}:{self._server.get_port()}"
        self._server.scene.set_up_direction(tuple(upright(posture.chain.loops.mechanism.gravity)[2]))
        self._drawn: dict[str, Any] = {}
        drawn = skeleton(posture.chain, posture.tool, posture.q[None])
        self._size = drawn.size
        self._server.initial_camera.look_at = tuple(drawn.points[0].mean(axis=0))
        away = upright(posture.chain.loops.mechanism.gravity).T @ np.array([0.8, -1.1, 0.5])
        self._server.initial_camera.position = tuple(drawn.points[0].mean(axis=0) + self._size * away)
        self._panel()
        self._redraw()

    @property
    def _name(self) -> str:
        return self.posture.chain.loops.mechanism.name

    def _panel(self) -> None:
        gui, posture = self._server.gui, self.posture
        self._told = gui.add_markdown("")
        if self.fits:
            self._player()
        with gui.add_folder("Motors" if posture.model is not None else "Joints (loops are open)"):
            self._sliders = [
                gui.add_slider(f"{s.name} [{s.unit}]", s.low, s.high, (s.high - s.low) / 2000, posture.q[s.index])
                for s in posture.sliders]
            home = gui.add_button("Start pose")
        for slider in self._sliders:
            slider.on_update(self._moved)
        home.on_click(self._go_home)
        with gui.add_folder("Show"):
            self._names = gui.add_checkbox("names", False)
            self._frames = gui.add_checkbox("frames", False)
        for box in (self._names, self._frames):
            box.on_update(lambda event: self._redraw())
        self._handle: Any = None
        if posture.model is not None:
            self._handle = self._server.scene.add_transform_controls(
                "/handle", scale=0.25 * self._size, depth_test=False)
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
            empty = np.zeros(2)
            self._plot = gui.add_uplot((np.arange(2.0), empty, empty, empty), (
                uplot.Series(label="t [s]"), uplot.Series(label="measured", stroke="#888", width=1.5),
                uplot.Series(label="predicted", stroke="#c40", width=1.5),
                uplot.Series(label="now", stroke="#06c", width=1)), aspect=1.2,
                scales={"x": uplot.Scale(time=False)})
        self._which.on_update(lambda event: self._chose())
        self._row.on_update(lambda event: self._chart())
        self._time.on_update(self._sought)
        self._chart()

    @property
    def _fit(self) -> Fit:
        return self.fits[[fit.label for fit in self.fits].index(self._which.value)]

    def _chose(self) -> None:
        self._time.max = len(self._fit.time) - 1
        self.show_sample(0)
        self._chart()

    def _sought(self, event: Any) -> None:
        if event.client is not None:
            self.show_sample(int(self._time.value))

    def _chart(self) -> None:
        fit, row = self._fit, self._row.options.index(self._row.value)
        step = max(1, len(fit.time) // PLOTTED)
        curves = fit.measured[::step, row], fit.predicted[::step, row]
        now = np.full(len(curves[0]), min(curve.min() for curve in curves))  # gaps would hide all: a line with a spike
        now[min(int(self._time.value) // step, len(now) - 1)] = max(curve.max() for curve in curves)
        self._plot.data = (np.asarray(fit.time[::step]), *map(np.asarray, curves), now)

    def show_sample(self, sample: int) -> None:
        """Put the robot where the log in the panel says it was."""
        with self._lock:
            self.posture.q = np.array(self._fit.q[sample])
            self._time.value = sample
            self._redraw()
            self._chart()

    def _moved(self, event: Any) -> None:
        if event.client is None:  # set by us, not by the user
            return
        with self._lock:
            self._redraw(self.posture.drive(np.array([slider.value for slider in self._sliders])))

    def _pulled(self, event: Any) -> None:
        with self._lock:
            w, x, y, z = self._handle.wxyz
            turn = Rotation.from_quat([x, y, z, w]).as_matrix()
            self._redraw(self.posture.pull(turn, np.array(self._handle.position)))

    def _go_home(self, event: Any) -> None:
        with self._lock:
            self.posture.q = np.array(self.posture.chain.loops.home)
            self._redraw()

    def _redraw(self, trouble: str = "") -> None:
        """Draw the pose and bring panel and handle in line with it."""
        with self._lock, self._server.atomic():
            self._draw(skeleton(self.posture.chain, self.posture.tool, self.posture.q[None]))
            for slider, value in zip(self._sliders, self.posture.positions):
                slider.value = float(np.clip(value, slider.min, slider.max))
            if self._handle is not None:
                turn, origin = self.posture.place()
                x, y, z, w = Rotation.from_matrix(turn).as_quat()
                self._handle.wxyz, self._handle.position = (w, x, y, z), tuple(origin)
            lines = [f"**{self._name}**", *([f"**{trouble}**"] if trouble else []), *self.posture.describe()]
            self._told.content = "\n\n".join(lines)

    def _draw(self, drawn: Any) -> None:
        scene, points, thick = self._server.scene, drawn.points[0], 0.012 * self._size
        old, self._drawn = self._drawn, {}
        lines = [(points[[a, b]], kind) for a, b, kind in drawn.links]
        lines += [(gap.ends, "open") for gap in self.posture.gaps() if len(gap.ends)]
        if lines:
            colours = np.array([[COLOURS[kind]] * 2 for _, kind in lines], dtype=np.uint8)
            self._drawn["links"] = scene.add_line_segments(
                "/robot/links", np.stack([ends for ends, _ in lines]).astype(np.float32), colours, thickness=thick)
        for k, (ring, kind) in enumerate(drawn.plates):
            corners = points[list(ring)]
            fan = np.array([[0, i, i + 1] for i in range(1, len(ring) - 1)])
            self._drawn[f"plate{k}"] = scene.add_mesh_simple(
                f"/robot/plate{k}", corners, fan, color=COLOURS[kind], opacity=0.5, side="double")
        for k, (at, kind) in enumerate(drawn.dots):
            self._drawn[f"dot{k}"] = scene.add_icosphere(
                f"/robot/dot{k}", radius=(1.4 if kind == "motor" else 0.9) * thick, color=COLOURS[kind], subdivisions=2,
                position=tuple(points[at]))
        self._draw_bodies()
        for name in old.keys() - self._drawn.keys():
            old[name].remove()

    def _draw_bodies(self) -> None:
        """Draw the frame and the name of each real body, where asked."""
        if not (self._names.value or self._frames.value):
            return
        mechanism, scene = self.posture.chain.loops.mechanism, self._server.scene
        rotations, origins = self.posture.chain.body_poses(self.posture.q[None])
        for joint, body, turn, origin in zip(mechanism.joints, mechanism.bodies, rotations[0], origins[0]):
            if joint.virtual and body.name != mechanism.platform:
                continue
            if self._frames.value:
                x, y, z, w = Rotation.from_matrix(turn).as_quat()
                self._drawn[f"frame {body.name}"] = scene.add_frame(
                    f"/robot/frames/{body.name}", axes_length=0.08 * self._size, axes_radius=0.004 * self._size,
                    wxyz=(w, x, y, z), position=tuple(origin))
            if self._names.value:
                self._drawn[f"name {body.name}"] = scene.add_label(
                    f"/robot/names/{body.name}", body.name, position=tuple(origin))

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
        fit, start = self._fit, int(self._time.value)
        begun = monotonic()
        while self._playing.value and fit is self._fit:
            passed = fit.time[start] + self._speed.value * (monotonic() - begun)
            sample = int(np.searchsorted(fit.time, passed))
            if sample >= len(fit.time):
                self._playing.value = False
                break
            self.show_sample(sample)
            sleep(FRAME)

    def close(self) -> None:
        """End the page."""
        self._server.stop()

