"""The window in which a robot is shown: a page served on this machine, with the library viser."""

from __future__ import annotations

import io
from collections.abc import Sequence
from contextlib import redirect_stdout
from threading import RLock
from time import monotonic, sleep
from typing import Any

import numpy as np
from scipy.spatial.transform import Rotation

from gough.app.report.scene import skeleton, upright
from gough.app.view.guard import guarded_server, new_token
from gough.app.view.posture import Posture
from gough.core.arrays import FloatArray
from gough.core.display import import_optional
from gough.engine import Model, base_parameters
from gough.identification.experiment import prepare
from gough.identification.result import Fit, Identification, fits_of
from gough.identification.validation import prepare_for_result
from gough.logs.recording import Recording

PART_COLOURS = {
    "body": (70, 90, 120),
    "rod": (130, 140, 150),
    "slide": (180, 120, 40),
    "base": (120, 120, 120),
    "open": (220, 30, 30),
    "motor": (200, 90, 30),
    "joint": (60, 60, 60),
    "platform": (60, 120, 200),
}
PANEL_POINTS = 1500  # of a curve in the panel at most
FRAME_TIME = 0.04  # between two pictures of a log that is played [s]
LINE_THICKNESS = 0.012  # of the drawn links, relative to the size of the robot


def playback(model: Model, recording: Recording, result: Identification | None = None) -> Fit:
    """Return the measured motion of a log with its measured and predicted efforts.

    Args:
        result: Predicts the efforts; the values of the robot file by
            default.
    """
    if result is not None:
        return fits_of(
            prepare_for_result(result, model, [recording]),
            result.estimate.predict,
        )[0]
    payloads = () if recording.payload is None else (recording.payload,)
    base = base_parameters(model, payloads=payloads)
    values = base.values(model.values(base.standard))
    return fits_of(
        prepare(model, [recording], base),
        lambda regression: regression.regressor @ values,
    )[0]


class Window:
    """A robot in the browser: sliders for its motors, a handle at its platform, playback of logs.

    It listens on this machine only by default, on the next free port if
    its own is taken, and answers only to the address with its token.
    """

    def __init__(
        self,
        posture: Posture,
        fits: Sequence[Fit] = (),
        *,
        host: str = "127.0.0.1",
        port: int = 8080,
    ) -> None:
        self.posture = posture
        self.fits = tuple(fits)
        self._lock = RLock()
        mechanism = posture.chain.loops.mechanism
        viser = import_optional("viser", "view")
        token = new_token()
        # viser prints its address without the token, which opens
        # nothing
        with guarded_server(token), redirect_stdout(io.StringIO()):
            self._server = viser.ViserServer(
                host=host, port=port, label=mechanism.name, verbose=False
            )
        self.address = f"http://{host}:{self._server.get_port()}/{token}/"
        axes = upright(mechanism.gravity)
        self._server.scene.set_up_direction(tuple(axes[2]))
        self._drawn: dict[str, Any] = {}
        drawn = skeleton(posture.chain, posture.tool, posture.q[None])
        self._size = drawn.size
        middle = drawn.points[0].mean(axis=0)
        camera = middle + drawn.size * axes.T @ np.array([0.8, -1.1, 0.5])
        self._server.initial_camera.look_at = tuple(middle)
        self._server.initial_camera.position = tuple(camera)
        self._add_panel()
        self._redraw()

    def _add_panel(self) -> None:
        """Add text, sliders, buttons and the handle."""
        gui = self._server.gui
        posture = self.posture
        self._text = gui.add_markdown("")
        if self.fits:
            self._add_player()
        self._sliders = []
        with gui.add_folder("Motors" if posture.model is not None else "Joints (loops are open)"):
            for slider in posture.sliders:
                label = f"{slider.name} [{slider.unit}]"
                step = (slider.high - slider.low) / 2000
                handle = gui.add_slider(
                    label,
                    slider.low,
                    slider.high,
                    step,
                    posture.q[slider.index],
                )
                handle.on_update(self._on_slider)
                self._sliders.append(handle)
            home = gui.add_button("Start pose")
        home.on_click(lambda event: self._show(posture.chain.loops.home))
        with gui.add_folder("Show"):
            self._names = gui.add_checkbox("names", False)
            self._frames = gui.add_checkbox("frames", False)
        for box in (self._names, self._frames):
            box.on_update(lambda event: self._redraw())
        self._handle: Any = None
        if posture.model is not None:
            self._handle = self._server.scene.add_transform_controls(
                "/handle", scale=0.25 * self._size, depth_test=False
            )
            self._handle.on_update(self._on_handle)

    def _add_player(self) -> None:
        """Add the controls of the playback and the plot of efforts."""
        from viser import uplot

        gui = self._server.gui
        rows = [] if self.posture.model is None else list(self.posture.model.rows)
        with gui.add_folder("Log"):
            self._log_choice = gui.add_dropdown("log", [fit.label for fit in self.fits])
            self._time = gui.add_slider("sample", 0, len(self.fits[0].time) - 1, 1, 0)
            self._playing = gui.add_checkbox("play", False)
            self._speed = gui.add_slider("speed", 0.1, 4.0, 0.1, 1.0)
            self._row = gui.add_dropdown("effort", rows)
            series = (
                uplot.Series(label="t [s]"),
                uplot.Series(label="measured", stroke="#888", width=1.5),
                uplot.Series(label="predicted", stroke="#c40", width=1.5),
                uplot.Series(label="now", stroke="#06c", width=1),
            )
            self._plot = gui.add_uplot(
                (np.arange(2.0), *np.zeros((3, 2))),
                series,
                aspect=1.2,
                scales={"x": uplot.Scale(time=False)},
            )
        self._log_choice.on_update(lambda event: self._on_log_choice())
        self._row.on_update(lambda event: self._plot_efforts())
        self._time.on_update(self._on_time)
        self._plot_efforts()

    @property
    def _fit(self) -> Fit:
        """The log that is chosen in the panel."""
        return next(fit for fit in self.fits if fit.label == self._log_choice.value)

    def _on_log_choice(self) -> None:
        self._time.max = len(self._fit.time) - 1
        self.show_sample(0)

    def _on_time(self, event: Any) -> None:
        if event.client is not None:  # moved by the user, not by us
            self.show_sample(int(self._time.value))

    def _plot_efforts(self) -> None:
        """Plot measured and predicted efforts of the chosen joint, and the current sample."""
        fit = self._fit
        row = self._row.options.index(self._row.value)
        step = max(1, len(fit.time) // PANEL_POINTS)
        curves = np.stack([fit.measured[::step, row], fit.predicted[::step, row]])
        # A line with a spike at the current sample: NaN elsewhere would
        # hide the whole curve.
        now = np.full(curves.shape[1], curves.min())
        now[min(int(self._time.value) // step, len(now) - 1)] = curves.max()
        self._plot.data = (np.asarray(fit.time[::step]), *curves, now)

    def show_sample(self, sample: int) -> None:
        """Show the robot at a sample of the chosen log."""
        with self._lock:
            self._time.value = sample
            self._show(self._fit.q[sample])
            self._plot_efforts()

    def _show(self, q: FloatArray) -> None:
        with self._lock:
            self.posture.q = np.array(q)
            self._redraw()

    def _on_slider(self, event: Any) -> None:
        if event.client is not None:  # moved by the user, not by us
            positions = np.array([slider.value for slider in self._sliders])
            with self._lock:
                self._redraw(self.posture.drive(positions))

    def _on_handle(self, event: Any) -> None:
        with self._lock:
            rotation = Rotation.from_quat(self._handle.wxyz, scalar_first=True).as_matrix()
            self._redraw(self.posture.pull(rotation, np.array(self._handle.position)))

    def _redraw(self, problem: str = "") -> None:
        """Draw the pose and update panel and handle.

        Args:
            problem: Why the last command failed.
        """
        posture = self.posture
        with self._lock, self._server.atomic():
            self._draw(skeleton(posture.chain, posture.tool, posture.q[None]))
            for slider, value in zip(self._sliders, posture.positions):
                slider.value = float(np.clip(value, slider.min, slider.max))
            if self._handle is not None:
                rotation, origin = posture.place()
                self._handle.wxyz = _quaternion(rotation)
                self._handle.position = tuple(origin)
            lines = [f"**{posture.chain.loops.mechanism.name}**"]
            if problem:
                lines.append(f"**{problem}**")
            self._text.content = "\n\n".join([*lines, *posture.describe()])

    def _draw(self, drawn: Any) -> None:
        """Draw a skeleton and remove what was drawn before and is not any more."""
        old = self._drawn
        self._drawn = {}
        self._draw_links(drawn)
        self._draw_solids(drawn)
        self._draw_bodies()
        for name in old.keys() - self._drawn.keys():
            old[name].remove()

    def _draw_links(self, drawn: Any) -> None:
        """Draw links and open loops as lines."""
        points = drawn.points[0]
        lines = [(points[[a, b]], kind) for a, b, kind in drawn.links]
        lines += [(gap.ends, "open") for gap in self.posture.gaps() if len(gap.ends)]
        if lines:
            colours = np.array([[PART_COLOURS[kind]] * 2 for _, kind in lines], dtype=np.uint8)
            self._drawn["links"] = self._server.scene.add_line_segments(
                "/robot/links",
                np.stack([ends for ends, _ in lines]).astype(np.float32),
                colours,
                thickness=LINE_THICKNESS * self._size,
            )

    def _draw_solids(self, drawn: Any) -> None:
        """Draw plates and joints."""
        scene = self._server.scene
        points = drawn.points[0]
        for k, (ring, kind) in enumerate(drawn.plates):
            triangles = np.array([[0, i, i + 1] for i in range(1, len(ring) - 1)])
            self._drawn[f"plate{k}"] = scene.add_mesh_simple(
                f"/robot/plate{k}",
                points[list(ring)],
                triangles,
                color=PART_COLOURS[kind],
                opacity=0.5,
                side="double",
            )
        for k, (index, kind) in enumerate(drawn.dots):
            scale = 1.4 if kind == "motor" else 0.9
            self._drawn[f"dot{k}"] = scene.add_icosphere(
                f"/robot/dot{k}",
                radius=scale * LINE_THICKNESS * self._size,
                color=PART_COLOURS[kind],
                subdivisions=2,
                position=tuple(points[index]),
            )

    def _draw_bodies(self) -> None:
        """Draw frames and names of the bodies, as the panel asks."""
        scene = self._server.scene
        chain = self.posture.chain
        mechanism = chain.loops.mechanism
        rotations, origins = chain.body_poses(self.posture.q[None])
        for joint, body, rotation, origin in zip(
            mechanism.joints, mechanism.bodies, rotations[0], origins[0]
        ):
            if joint.virtual and body.name != mechanism.platform:
                continue
            if self._frames.value:
                self._drawn[f"frame {body.name}"] = scene.add_frame(
                    f"/robot/frames/{body.name}",
                    axes_length=0.08 * self._size,
                    axes_radius=0.004 * self._size,
                    wxyz=_quaternion(rotation),
                    position=tuple(origin),
                )
            if self._names.value:
                self._drawn[f"name {body.name}"] = scene.add_label(
                    f"/robot/names/{body.name}",
                    body.name,
                    position=tuple(origin),
                )

    def run(self) -> None:
        """Serve the page until interrupted, and play logs."""
        try:
            while True:
                sleep(FRAME_TIME)
                if self.fits and self._playing.value:
                    self._play()
        finally:
            self.close()

    def _play(self) -> None:
        """Play from the current sample until the user stops it or the log ends."""
        fit = self._fit
        began = monotonic()
        start = fit.time[int(self._time.value)]
        while self._playing.value and fit is self._fit:
            time = start + self._speed.value * (monotonic() - began)
            sample = int(np.searchsorted(fit.time, time))
            if sample < len(fit.time):
                self.show_sample(sample)
                sleep(FRAME_TIME)
            else:
                self._playing.value = False

    def close(self) -> None:
        """Stop the server of the page."""
        self._server.stop()


def _quaternion(rotation: FloatArray) -> FloatArray:
    """Return the quaternion (w, x, y, z) of a rotation matrix."""
    return np.asarray(Rotation.from_matrix(rotation).as_quat(scalar_first=True))
