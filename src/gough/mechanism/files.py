"""Robots by name or by file: bundled robots, and the formats that files are written in.

A format is one function and one entry, here or in a user's file:
`register_robot_format(".json", read_json)` with `read_json(text,
source) -> Mechanism`. Every function and command that takes a robot
then reads such files.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module, resources
from pathlib import Path

from gough.core.arrays import check_type
from gough.core.documents import parse_toml
from gough.core.errors import InvalidInput, InvalidMechanism, nearest
from gough.core.files import MAX_ROBOT_BYTES, read_bytes, text_encoding
from gough.mechanism.reader import check_robot_size, parse_robot
from gough.mechanism.types import Mechanism

RobotReader = Callable[[str, str], Mechanism]
"""(text, file name for errors) -> mechanism; raises `InvalidMechanism`."""

FOREIGN_SUFFIXES = (".urdf", ".xml", ".sdf", ".mjcf", ".par", ".xacro")


def read_foreign(text: str, source: str) -> Mechanism:
    """Read a robot that another program wrote; the package `formats` is loaded only now."""
    reader: RobotReader = import_module("gough.formats.read").read_robot
    return reader(text, source)


ROBOT_FORMATS: dict[str, RobotReader] = {
    ".toml": parse_robot,
    **dict.fromkeys(FOREIGN_SUFFIXES, read_foreign),
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
    texts = sorted(_bundled().items())
    return tuple((name, str(parse_toml(text)["title"])) for name, text in texts)


def load_robot(name_or_path: str | Path) -> Mechanism:
    """Read a bundled robot by name, or a robot file by path; its suffix selects the format.

    A bundled name wins over a file of the same name in the working
    directory; write `./palida` for the file.
    """
    check_type(
        name_or_path,
        (str, Path),
        "the robot",
        "a bundled name or the path of its file",
    )
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
    """Return the text of a bundled robot or a robot file, and its source; see `load_robot`."""
    bundled = _bundled()
    if isinstance(name_or_path, str) and name_or_path in bundled:
        return bundled[name_or_path], f"gough/robots/{name_or_path}.toml"
    path = Path(name_or_path)
    try:
        if not path.is_file():
            raise InvalidMechanism(
                f"'{name_or_path}' is neither a robot file nor a bundled robot"
                f"{nearest(str(name_or_path), bundled)}",
                file=str(path),
            )
        check_robot_size(path.stat().st_size, str(path))
        content = read_bytes(path, MAX_ROBOT_BYTES, InvalidMechanism)
        encoding = "utf-8-sig"  # TOML is UTF-8; some editors begin it with a byte order mark
        if path.suffix.lower() in FOREIGN_SUFFIXES:
            encoding = text_encoding(content)
        return content.decode(encoding).replace("\r\n", "\n").replace("\r", "\n"), str(path)
    except UnicodeDecodeError as error:
        raise InvalidMechanism(
            f"{path}: not a text file in UTF-8 (byte {error.start})",
            file=str(path),
        ) from None
    except (OSError, ValueError) as error:
        raise InvalidMechanism(
            f"'{name_or_path}' cannot be read: {error}", file=str(path)
        ) from None


def _bundled() -> dict[str, str]:
    """Return the texts of the bundled robots by name."""
    texts = {}
    for entry in (resources.files("gough") / "robots").iterdir():
        if entry.name.endswith(".toml"):
            texts[entry.name.removesuffix(".toml")] = entry.read_text(encoding="utf-8")
    return texts
