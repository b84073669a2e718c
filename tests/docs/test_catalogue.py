"""The catalogue of messages is that of the source; the gallery shows every bundled robot."""

from __future__ import annotations

import pytest
from test_notebooks import script

from documentation import ROOT
from gough.core.errors import GoughError
from gough.logs.readers import read_recording
from gough.mechanism import bundled_robots

catalogue = script("catalogue")


def test_errors_and_notices_are_listed_with_values_left_open() -> None:
    kinds = {message.kind for message in catalogue.messages()}
    assert {"InvalidRecording", "InvalidMechanism", "LoopNotClosed", "NotIdentifiable"} <= kinds
    assert len(catalogue.messages()) > 300
    rules = {notice.rule for notice in catalogue.notices()}
    assert {"base parameters", "left out"} <= rules
    assert len(rules) > 30


def test_an_error_that_is_raised_is_in_the_catalogue() -> None:
    with pytest.raises(GoughError) as caught:
        read_recording("there-is-no-such-file.csv")
    said = str(caught.value)
    pieces = [message.text.split(catalogue.UNKNOWN) for message in catalogue.messages()]
    assert any(all(piece in said for piece in parts) for parts in pieces)


def test_nothing_in_a_message_is_markup() -> None:
    assert catalogue.cell("a|b `c` <d> [e](f) $g$") == ("a\\|b \\`c\\` \\<d\\> \\[e\\](f) \\$g\\$")


def test_the_gallery_shows_every_bundled_robot_with_its_picture() -> None:
    text = (ROOT / "docs" / "gallery.md").read_text(encoding="utf-8")
    for name, title in bundled_robots():
        assert f"### {name}\n\n![{title}](assets/robots/{name}.svg)" in text
        assert (ROOT / "docs" / "assets" / "robots" / f"{name}.svg").is_file()


def test_the_gallery_has_the_numbers_of_the_robots() -> None:
    gallery = script("gallery")
    text = (ROOT / "docs" / "gallery.md").read_text(encoding="utf-8")
    titles = dict(bundled_robots())
    section = gallery.entry("five_bar", titles["five_bar"])
    assert section in text, "run: python docs/gallery.py"
    drawn = ROOT / "docs" / "assets" / "robots" / "five_bar.svg"
    assert drawn.read_text(encoding="utf-8") == gallery.draw("five_bar", titles["five_bar"])
