"""Untrusted files: entities, depth, size and random damage give a clear error or a robot."""

from __future__ import annotations

import os
import random
import tracemalloc
from pathlib import Path

import pytest
from foreign import ARM, BARS
from test_import_mjcf import GRIPPER
from test_import_sdf import LOOP
from test_import_symoro import PARALLELOGRAM

from gough.core.errors import GoughError, InvalidMechanism
from gough.formats.read import read_tree
from gough.formats.robot_description import describe
from gough.formats.xml import parse_xml
from gough.mechanism import load_robot
from gough.mechanism.reader import parse_robot

BOMB = (
    '<?xml version="1.0"?><!DOCTYPE l [<!ENTITY a "aaaaaaaaaa">'
    + "".join(f'<!ENTITY {chr(98 + k)} "{f"&{chr(97 + k)};" * 10}">' for k in range(9))
    + ']><robot name="&j;"/>'
)
OUTSIDE = '<!DOCTYPE r [<!ENTITY x SYSTEM "file:///etc/passwd">]><robot name="&x;"/>'
FILES = {
    "arm.urdf": ARM,
    "bars.urdf": BARS,
    "gripper.xml": GRIPPER,
    "loop.sdf": LOOP,
    "arm.par": PARALLELOGRAM,
}
WORDS = (
    "",
    "0",
    "-1",
    "1e300",
    "nan",
    "inf",
    "x",
    "1 2",
    "1 2 3",
    "0 0 0",
    "base",
    "world",
    "../a",
    "a" * 500,
    "\x0b",
    "é",
)


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


def damaged(text: str, rng: random.Random) -> str:
    """Change a text in one to three places: words, numbers, tags, lines, pieces."""
    for _ in range(rng.randint(1, 3)):
        kind, i, j = rng.randrange(6), rng.randrange(len(text)), rng.randrange(len(text))
        if kind == 0:
            text = text[:i] + rng.choice('<>"/{}=, \x000a1.-') + text[i + 1 :]
        elif kind == 1:
            text = text[: min(i, j)] + text[max(i, j) :] if abs(i - j) < 400 else text[:i]
        elif kind == 2:
            text = text[:i] + text[j : j + 200] + text[i:]
        elif kind == 3:
            parts = text.split('"')
            parts[rng.randrange(len(parts))] = rng.choice(WORDS)
            text = '"'.join(parts)
        elif kind == 4:
            lines = text.splitlines()
            a, b = rng.randrange(len(lines)), rng.randrange(len(lines))
            lines[a], lines[b] = lines[b], lines[a]
            text = "\n".join(lines)
        else:
            words = text.split(" ")
            words[rng.randrange(len(words))] = rng.choice(WORDS)
            text = " ".join(words)
        text = text or " "
    return text


@pytest.mark.parametrize("name", FILES)
def test_damaged_files_give_a_clear_error_or_a_robot(name: str) -> None:
    """GOUGH_FUZZ=2000 tries as many of each kind; memory stays below 100 MB."""
    rng, errors = random.Random(name), list[str]()
    tracemalloc.start()
    count = int(os.environ.get("GOUGH_FUZZ", "80"))
    for _ in range(count):
        text = damaged(FILES[name], rng)
        try:
            parse_robot(describe(read_tree(text, name), name).text, name)
        except GoughError as error:
            errors.append(str(error))
    assert 0 < len(errors) < count  # some damage is harmless, some is not
    assert all(name in error for error in errors), [error for error in errors if name not in error][
        :3
    ]
    assert tracemalloc.get_traced_memory()[1] < 1e8
    tracemalloc.stop()
