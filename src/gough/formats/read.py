"""Read a robot that another program wrote: URDF, MJCF, SDF or SYMORO."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from gough.core.errors import InvalidMechanism
from gough.core.files import MAX_ROBOT_BYTES, MAX_YAML_CHARACTERS, read_text
from gough.formats.mjcf import read_mjcf
from gough.formats.robot_description import describe
from gough.formats.sdf import read_sdf
from gough.formats.symoro import read_symoro
from gough.formats.tree import RobotTree, with_source
from gough.formats.urdf import read_urdf
from gough.formats.urdf_sidecar import read_yaml
from gough.formats.xml import Element, parse_xml
from gough.mechanism.reader import check_robot_size, parse_robot
from gough.mechanism.types import Mechanism

XML_READERS: dict[str, Callable[[Element, Mapping[str, Any]], RobotTree]] = {
    "robot": read_urdf,
    "mujoco": read_mjcf,
    "sdf": read_sdf,
}
MAX_SIDECARS = 50  # YAML files beside a URDF that are looked at
LOOPS_KEY = re.compile(r"^closed_loop\s*:", re.MULTILINE)


def read_tree(text: str, source: str, loops: str | None = None) -> RobotTree:
    """Read a robot that another program wrote.

    Args:
        text: Content of the file.
        source: Its name; the suffix `.par` is SYMORO, all others are
            XML.
        loops: YAML that closes the loops of a URDF; by default the file
            of the same name beside it, if any, or the only one with
            loops.
    """
    check_robot_size(len(text), source)
    try:
        if Path(source).suffix.lower() == ".par":
            return read_symoro(text, source)
        root = parse_xml(text, source)
        if root.tag not in XML_READERS:
            expected = ", ".join(f"<{tag}>" for tag in XML_READERS)
            raise root.error(f"is no robot; expected one of {expected}")
        sidecar, notes = _read_sidecar(source, loops, root.tag)
        return XML_READERS[root.tag](root, sidecar).with_notes(*notes)
    except InvalidMechanism as error:
        raise with_source(error, source) from None


def _read_sidecar(
    source: str, loops: str | None, root_tag: str
) -> tuple[dict[str, Any], list[str]]:
    """Return the content of the YAML with the loops of a URDF, empty without, and notes on it.

    It is the file that was named, that of the same name beside the
    URDF, or the only one there that has loops, if there is no other
    robot beside it.
    """
    notes: list[str] = []
    candidates = [Path(source).with_suffix(suffix) for suffix in (".yaml", ".yml")]
    paths = [path for path in candidates if path.is_file()]
    if loops is not None:
        paths = [Path(loops)]
    elif not paths and root_tag == "robot":
        others = _files_with_loops(Path(source).parent)
        names = ", ".join(path.name for path in others)
        if len(others) == 1 and len(list(Path(source).parent.glob("*.urdf"))) == 1:
            paths = others
            notes.append(f"assumed: the loops are those of {names}, the only ones beside the file")
        elif others:
            notes.append(f"ignored: loops beside the file, in {names}; name one by `loops`")
    if not paths:
        return {}, notes
    path = paths[0]
    return read_yaml(read_text(path, MAX_ROBOT_BYTES, InvalidMechanism), str(path)), notes


def _files_with_loops(folder: Path) -> list[Path]:
    """Return the YAML files of a folder that declare loops."""
    files = sorted([*folder.glob("*.yaml"), *folder.glob("*.yml")])[:MAX_SIDECARS]
    with_loops = []
    for path in files:
        if not path.is_file() or path.stat().st_size > MAX_YAML_CHARACTERS:
            continue
        if LOOPS_KEY.search(path.read_text(encoding="utf-8", errors="replace")):
            with_loops.append(path)
    return with_loops


def read_robot(text: str, source: str) -> Mechanism:
    """Read a robot that another program wrote as if it were a robot file."""
    return parse_robot(describe(read_tree(text, source), source).text, source)
