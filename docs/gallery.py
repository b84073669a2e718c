"""Draw every bundled robot and write the gallery: `python docs/gallery.py`.

Pictures are drawn by the code that draws the robot of a report; numbers are those of `gough check`.
Results of real logs are taken from their page when the site is built, so that they stand in one
place only.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from markupsafe import Markup

from gough.app.report.charts import tag
from gough.app.report.scene import Skeleton, skeleton, upright, view_angles
from gough.core.arrays import FloatArray
from gough.engine import Model, base_parameters
from gough.mechanism import bundled_robots, load_robot

FOLDER = Path(__file__).parent
PICTURES = FOLDER / "assets" / "robots"
PAGE = FOLDER / "gallery.md"
BEGIN = "<!-- robots: written by docs/gallery.py -->\n"
END = "<!-- end of robots -->\n"
DEMOS = ("five_bar", "h4", "orthoglide", "palida", "stewart")  # and `gough demo fleet` of Deltas
WIDTH = 320.0  # of a picture [px]
HEIGHT = 240.0
MARGIN = 18.0
PERSPECTIVE = 7.0  # distance of the eye, in half sizes of the robot
PERIOD = 6.0  # of the animation [s]
FRAMES = 36  # of the animation
LINK_WIDTH = {"body": 7.0, "slide": 4.5, "rod": 3.5, "base": 4.0}
STYLE = """
.body { stroke: #3d4a59 } .slide, .rod { stroke: #7b8896 } .base { stroke: #9aa5b1 }
.plate { fill: #1a5fd0; fill-opacity: .16; stroke: #1a5fd0; stroke-width: 1.5 }
.ground { fill: #9aa5b1; fill-opacity: .14; stroke: #9aa5b1; stroke-width: 1 }
.motor { fill: #e08020 } .joint { fill: #fff; stroke: #3d4a59; stroke-width: 1.2 }
.path { fill: none; stroke: #1a5fd0; stroke-width: 1.2; opacity: .65 }
.link { fill: none; stroke-linecap: round }
@media (prefers-color-scheme: dark) {
.body { stroke: #c3ccd6 } .slide, .rod { stroke: #8b98a6 } .base { stroke: #66727f }
.plate { fill: #74abff; stroke: #74abff }
.joint { fill: #1e2129; stroke: #c3ccd6 } .path { stroke: #74abff } }
"""


def project(points: FloatArray, gravity: tuple[float, ...]) -> FloatArray:
    """Return points (t, k, 3) as places in the picture (t, k, 2), all poses in view. [px]"""
    turned = points @ upright(gravity).T
    low = turned.min(axis=(0, 1))
    high = turned.max(axis=(0, 1))
    centred = (turned - (low + high) / 2) / max(float((high - low).max()) / 2, 1e-9)
    azimuth, elevation = view_angles(turned.reshape(-1, 3))
    toward = np.array(
        [
            np.cos(elevation) * np.cos(azimuth),
            np.cos(elevation) * np.sin(azimuth),
            np.sin(elevation),
        ]
    )
    right = np.array([-np.sin(azimuth), np.cos(azimuth), 0.0])
    over = np.cross(toward, right)
    near = PERSPECTIVE / (PERSPECTIVE - centred @ toward)
    flat = np.stack([near * (centred @ right), -near * (centred @ over)], axis=-1)
    first = flat.min(axis=(0, 1))
    last = flat.max(axis=(0, 1))
    room = np.array([WIDTH, HEIGHT]) - 2 * MARGIN
    scale = float((room / np.maximum(last - first, 1e-9)).min())
    return np.array([WIDTH, HEIGHT]) / 2 + scale * (flat - (first + last) / 2)


def animate(attribute: str, values: list[str]) -> Markup | str:
    """Return an animation through some values and back to the first; none of a single pose."""
    if len(values) == 1:
        return ""
    return tag(
        "animate",
        attributeName=attribute,
        values=";".join([*values, values[0]]),
        dur=f"{PERIOD:g}s",
        repeatCount="indefinite",
    )


def polyline(places: FloatArray, name: str, class_: str, **attributes: object) -> Markup:
    """Return a line or polygon through places of each pose (t, k, 2)."""
    words = []
    for pose in places:
        words.append(" ".join(f"{x:.1f},{y:.1f}" for x, y in pose))
    return tag(name, animate("points", words), points=words[0], class_=class_, **attributes)


def dot(places: FloatArray, class_: str) -> Markup:
    """Return a dot that follows places of each pose (t, 2)."""
    x = [f"{place[0]:.1f}" for place in places]
    y = [f"{place[1]:.1f}" for place in places]
    radius = 4.2 if class_ == "motor" else 2.6
    moving = (animate("cx", x), animate("cy", y))
    return tag("circle", *moving, cx=x[0], cy=y[0], r=radius, class_=class_)


def picture(drawn: Skeleton, gravity: tuple[float, ...], title: str) -> str:
    """Return a robot as SVG, moving if it has several poses."""
    places = project(drawn.points, gravity)
    shapes = []
    for corners, kind in drawn.plates:
        style = "ground" if kind == "base" else "plate"
        shapes.append(polyline(places[:, list(corners)], "polygon", style))
    for first, second, kind in drawn.links:
        width = LINK_WIDTH.get(kind, LINK_WIDTH["body"])
        ends = places[:, [first, second]]
        shapes.append(polyline(ends, "polyline", f"link {kind}", stroke_width=width))
    if len(places) > 1:
        closed = np.concatenate([places[:, drawn.tool], places[:1, drawn.tool]])
        shapes.append(polyline(closed[None], "polyline", "path"))
    for point, kind in drawn.dots:
        shapes.append(dot(places[:, point], kind))
    svg = tag(
        "svg",
        tag("title", title),
        tag("style", Markup(STYLE)),
        *shapes,
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {WIDTH:g} {HEIGHT:g}",
        width=f"{WIDTH:g}",
        height=f"{HEIGHT:g}",
        role="img",
    )
    return f"{svg}\n"


def circling(model: Model, radius: float) -> FloatArray:
    """Return configurations in which the tool moves on a circle about the reference, (t, n)."""
    independent = list(model.loops.partitions["task"].independent)
    time = np.arange(FRAMES) / FRAMES
    angle = 2 * np.pi * time
    position = np.tile(model.home[independent], (FRAMES, 1))
    position[:, 0] += radius * np.sin(angle)
    position[:, 1] += radius * (np.cos(angle) - 1) / 2
    if len(independent) > 2:
        position[:, 2] += radius * np.sin(2 * angle) / 3
    still = np.zeros_like(position)
    return model.kinematics.motion(time, position, still, still, "task").q


def draw(name: str, title: str) -> str:
    """Return the picture of a bundled robot in its reference configuration."""
    model = Model(load_robot(name))
    drawn = skeleton(model.kinematics, model.load_body, model.home[None])
    return picture(drawn, tuple(model.mechanism.gravity), title)


def entry(name: str, title: str) -> str:
    """Return the section of a bundled robot."""
    model = Model(load_robot(name))
    mechanism = model.mechanism
    loops = len(mechanism.closures)
    base = base_parameters(model, tie_legs=bool(mechanism.ties))
    tied = " with equal legs" if mechanism.ties else ""
    facts = [
        f"{len(mechanism.actuated)} motors",
        f"{len(mechanism.bodies)} bodies",
        f"{loops} closed {'loop' if loops == 1 else 'loops'}" if loops else "no closed loop",
        f"{len(base)} base parameters{tied}",
    ]
    commands = [f"gough check {name}{' --tie-legs' if mechanism.ties else ''}"]
    if name in DEMOS:
        commands.append(f"gough demo {name} -o {name}-demo")
    return "\n".join(
        [
            f"### {name}",
            "",
            f"![{title}](assets/robots/{name}.svg)",
            "",
            f"{title}. {', '.join(facts).capitalize()}.",
            *([f"From: {mechanism.reference.rstrip('.')}."] if mechanism.reference else []),
            "",
            "```text",
            *[f"$ {command}" for command in commands],
            "```",
            "",
        ]
    )


def page(text: str) -> str:
    """Return the gallery with the sections of all robots renewed."""
    sections = [entry(name, title) for name, title in bundled_robots()]
    start = text.index(BEGIN)
    end = text.index(END)
    return f"{text[:start]}{BEGIN}\n" + "\n".join(sections) + f"\n{text[end:]}"


def draw_front_page() -> None:
    """Draw the moving robot of the front page."""
    model = Model(load_robot("palida"))
    drawn = skeleton(model.kinematics, model.load_body, circling(model, 0.12))
    text = picture(drawn, tuple(model.mechanism.gravity), "A hexapod that moves")
    (FOLDER / "assets" / "hexapod.svg").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    PICTURES.mkdir(parents=True, exist_ok=True)
    draw_front_page()
    for robot, about in bundled_robots():
        (PICTURES / f"{robot}.svg").write_text(draw(robot, about), encoding="utf-8")
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
