"""Robots by name or by file: those that come with Gough, and the formats files are written in.

A format is one function and one entry, here or in a user's own file:
`register_robot_format(".json", read_json)` with `read_json(text, source) -> Mechanism`. Every
function and command that takes a robot then reads such files.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module, resources
from pathlib import Path

from gough.core.display import check_type
from gough.core.documents import parse_toml
from gough.core.errors import InvalidInput, InvalidMechanism, nearest
from gough.core.files import text_encoding
from gough.mechanism.reader import LARGEST, parse_robot
from gough.mechanism.types import Mechanism

RobotReader = Callable[[str, str], Mechanism]
"""(text, file name for errors) -> mechanism; raises `InvalidMechanism`."""

SUFFIXES = (".urdf", ".xml", ".sdf", ".mjcf", ".par", ".xacro")


def read_foreign(text: str, source: str) -> Mechanism:
    """Read a robot that another program wrote; the package `formats` is loaded only now."""
    reader: RobotReader = import_module("gough.formats.read").read_robot
    return reader(text, source)


ROBOT_FORMATS: dict[str, RobotReader] = {
    ".toml": parse_robot,
    **dict.fromkeys(SUFFIXES, read_foreign),
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
    check_type(name_or_path, (str, Path), "the robot", "a bundled name or the path of its file")
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
