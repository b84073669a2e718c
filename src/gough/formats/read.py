"""Read a robot that another program wrote: URDF, MJCF, SDF or SYMORO."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from gough.core.budget import MAX_ROBOT_BYTES, read_text
from gough.core.errors import InvalidMechanism
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


def read_tree(text: str, source: str, loops: str | None = None) -> RobotTree:
    """Read a robot that another program wrote.

    Args:
        text: Content of the file.
        source: Its name; the suffix `.par` is SYMORO, all others are XML.
        loops: YAML that closes the loops of a URDF; by default the file of the same name
            beside it, if any.
    """
    check_robot_size(len(text), source)
    try:
        if Path(source).suffix.lower() == ".par":
            return read_symoro(text, source)
        root = parse_xml(text, source)
        if root.tag not in XML_READERS:
            expected = ", ".join(f"<{tag}>" for tag in XML_READERS)
            raise root.error(f"is no robot; expected one of {expected}")
        return XML_READERS[root.tag](root, _read_sidecar(source, loops))
    except InvalidMechanism as error:
        raise with_source(error, source) from None


def _read_sidecar(source: str, loops: str | None) -> dict[str, Any]:
    """Return the content of the YAML beside a URDF; empty without."""
    candidates = [Path(source).with_suffix(suffix) for suffix in (".yaml", ".yml")]
    paths = [path for path in candidates if path.is_file()]
    if loops is not None:
        paths = [Path(loops)]
    if not paths:
        return {}
    path = paths[0]
    return read_yaml(read_text(path, MAX_ROBOT_BYTES, InvalidMechanism), str(path))


def read_robot(text: str, source: str) -> Mechanism:
    """Read a robot that another program wrote as if it were a robot file."""
    return parse_robot(describe(read_tree(text, source), source).text, source)
