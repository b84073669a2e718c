"""Untrusted files: entities, depth, size and random damage give a clear error or a robot."""

from __future__ import annotations

from pathlib import Path

import pytest

from gough.core.errors import InvalidMechanism
from gough.formats.read import read_tree
from gough.formats.xml import parse_xml
from gough.mechanism import load_robot

BOMB = (
    '<?xml version="1.0"?><!DOCTYPE l [<!ENTITY a "aaaaaaaaaa">'
    + "".join(f'<!ENTITY {chr(98 + k)} "{f"&{chr(97 + k)};" * 10}">' for k in range(9))
    + ']><robot name="&j;"/>'
)
OUTSIDE = '<!DOCTYPE r [<!ENTITY x SYSTEM "file:///etc/passwd">]><robot name="&x;"/>'


@pytest.mark.parametrize("text", [BOMB, OUTSIDE])
def test_document_types_are_refused(text: str) -> None:
    with pytest.raises(InvalidMechanism, match=r"line 1: has a document type"):
        parse_xml(text, "bomb.urdf")


def test_depth_number_and_size_are_bounded(tmp_path: Path) -> None:
    with pytest.raises(InvalidMechanism, match="inside each other"):
        parse_xml("<mujoco>" + "<body>" * 5000, "deep.xml")
    with pytest.raises(InvalidMechanism, match="more than 100000 elements"):
        parse_xml("<robot>" + "<a/>" * 200_000 + "</robot>", "wide.urdf")
    path = tmp_path / "giant.urdf"
    with path.open("wb") as stream:
        stream.truncate(3_000_000_000)  # a hole: takes no room
    with pytest.raises(InvalidMechanism, match=r"3000\.0 MB is too large"):
        load_robot(path)


def test_what_is_no_robot_says_what_was_expected(tmp_path: Path) -> None:
    with pytest.raises(
        InvalidMechanism, match=r"<html>: is no robot; expected one of <robot>, <mujoco>, <sdf>"
    ):
        read_tree("<html/>", "page.xml")
    with pytest.raises(InvalidMechanism, match=r"line 2: not well-formed"):
        read_tree("<robot>\n<link", "half.urdf")
