"""Robots by name or by file: those that come with Gough, and the formats files are written in.

A format is one function and one entry, here or in a user's own file:
`register_robot_format(".json", read_json)` with `read_json(text, source) -> Mechanism`. Every
function and command that takes a robot then reads such files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import resources
from pathlib import Path
from typing import Any

from gough.core.documents import parse_toml
from gough.core.errors import InvalidInput, InvalidMechanism, nearest
from gough.core.files import text_encoding
from gough.core.showing import expect
from gough.mechanism.formats.description import describe
from gough.mechanism.formats.mjcf import read_mjcf
from gough.mechanism.formats.sdf import read_sdf
from gough.mechanism.formats.symoro import read_symoro
from gough.mechanism.formats.tree import RobotTree
from gough.mechanism.formats.urdf import read_urdf, read_yaml
from gough.mechanism.formats.xml import Element, parse_xml
from gough.mechanism.reader import LARGEST, parse_robot
from gough.mechanism.types import Mechanism

RobotReader = Callable[[str, str], Mechanism]
"""(text, file name for errors) -> mechanism; raises `InvalidMechanism`."""

ROOTS: dict[str, Callable[[Element, Mapping[str, Any]], RobotTree]] = {
    "robot": read_urdf,
    "mujoco": read_mjcf,
    "sdf": read_sdf,
}
SUFFIXES = (".urdf", ".xml", ".sdf", ".mjcf", ".par", ".xacro")


def read_tree(text: str, source: str, loops: str | None = None) -> RobotTree:
    """Read a robot that another program wrote.

    `loops` is the YAML with what closes the loops of a URDF; by default the file of the same name
    beside it, if any.
    """
    if len(text) > LARGEST:
        raise InvalidMechanism(
            f"{source}: {len(text) / 1e6:.1f} MB is too large for a robot (at most "
            f"{LARGEST / 1e6:g} MB)",
            file=source,
        )
    try:
        if Path(source).suffix.lower() == ".par":
            return read_symoro(text, source)
        root = parse_xml(text, source)
        if root.tag not in ROOTS:
            raise root.error(
                f"is no robot; expected one of {', '.join(f'<{tag}>' for tag in ROOTS)}"
            )
        return ROOTS[root.tag](root, _beside(source, loops))
    except InvalidMechanism as error:
        raise InvalidMechanism(
            f"{'' if source in str(error) else f'{source}: '}{error}",
            **{"file": source, **error.numbers},
        ) from None


def _beside(source: str, loops: str | None) -> dict[str, Any]:
    beside = [Path(source).with_suffix(suffix) for suffix in (".yaml", ".yml")]
    path = (
        Path(loops)
        if loops is not None
        else next((path for path in beside if path.is_file()), None)
    )
    if path is None:
        return {}
    try:
        return read_yaml(path.read_text(encoding="utf-8-sig"), str(path))
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidMechanism(f"'{path}' cannot be read: {error}", file=str(path)) from None


def read_robot(text: str, source: str) -> Mechanism:
    """Read a robot that another program wrote as if it were a robot file."""
    return parse_robot(describe(read_tree(text, source), source).text, source)


ROBOT_FORMATS: dict[str, RobotReader] = {
    ".toml": parse_robot,
    **dict.fromkeys(SUFFIXES, read_robot),
}


def register_robot_format(suffix: str, reader: RobotReader) -> RobotReader:
    """Make a suffix known, such as `.json`; return the reader."""
    if suffix.lower() in ROBOT_FORMATS or suffix[:1] != ".":
        raise InvalidInput(
            f"'{suffix}' cannot be registered: expected a suffix such as .json, other than "
            f"{', '.join(ROBOT_FORMATS)}",
            suffix=suffix,
        )
    ROBOT_FORMATS[suffix.lower()] = reader
    return reader


def bundled_robots() -> tuple[tuple[str, str], ...]:
    """Return name and title of every robot that comes with Gough."""
    return tuple(
        (name, str(parse_toml(text)["title"])) for name, text in sorted(_bundled().items())
    )


def load_robot(name_or_path: str | Path) -> Mechanism:
    """Read a bundled robot by name, or a robot file by path; its suffix tells the format.

    A bundled name wins over a file of the same name in the working directory; write `./palida` for
    the file.
    """
    expect(name_or_path, (str, Path), "the robot", "a bundled name or the path of its file")
    text, source = robot_text(name_or_path)
    suffix = Path(source).suffix.lower() or ".toml"
    if suffix not in ROBOT_FORMATS:
        raise InvalidMechanism(
            f"{source}: robots are read from {', '.join(ROBOT_FORMATS)} files, not from {suffix}; "
            "describe it in TOML, or register a reader",
            file=source,
        )
    return ROBOT_FORMATS[suffix](text, source)


def robot_text(name_or_path: str | Path) -> tuple[str, str]:
    """Return the text of a bundled robot or a robot file, and where it comes from; see
    `load_robot`.
    """
    bundled, path = _bundled(), Path(name_or_path)
    if isinstance(name_or_path, str) and name_or_path in bundled:
        return bundled[name_or_path], f"gough/robots/{name_or_path}.toml"
    try:
        if not path.is_file():
            raise InvalidMechanism(
                f"'{name_or_path}' is neither a robot file nor a bundled robot"
                f"{nearest(str(name_or_path), bundled)}",
                file=str(path),
            )
        size = path.stat().st_size
        if size > LARGEST:
            raise InvalidMechanism(
                f"{path}: {size / 1e6:.1f} MB is too large for a robot file (at most "
                f"{LARGEST / 1e6:g} MB); "
                "is this a recording?",
                file=str(path),
                size=size,
            )
        others = (
            path.suffix.lower() in SUFFIXES
        )  # TOML is UTF-8; some editors write a mark of the byte order
        return path.read_text(
            encoding=text_encoding(path.read_bytes()) if others else "utf-8-sig"
        ), str(path)
    except UnicodeDecodeError as error:
        raise InvalidMechanism(
            f"{path}: not a text file in UTF-8 (byte {error.start})", file=str(path)
        ) from None
    except (OSError, ValueError) as error:
        raise InvalidMechanism(
            f"'{name_or_path}' cannot be read: {error}", file=str(path)
        ) from None


def _bundled() -> dict[str, str]:
    folder = resources.files("gough") / "robots"
    return {
        entry.name.removesuffix(".toml"): entry.read_text(encoding="utf-8")
        for entry in folder.iterdir()
        if entry.name.endswith(".toml")
    }
