"""The server of the viewer answers to its own page only."""

from __future__ import annotations

import urllib.error
import urllib.request
from collections.abc import Iterator

import pytest

from gough.app.view.posture import Posture
from gough.app.view.window import Window
from gough.mechanism import load_robot

pytest.importorskip("viser")
client = pytest.importorskip("websockets.sync.client")
exceptions = pytest.importorskip("websockets.exceptions")
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


@pytest.fixture(scope="module")
def window() -> Iterator[Window]:
    window = Window(Posture(load_robot("five_bar")), port=8650)
    yield window
    window._server.stop()


def open_socket(address: str, origin: str | None) -> None:
    url = address.replace("http://", "ws://").rstrip("/")
    client.connect(url, origin=origin, subprotocols=["viser-v0"], proxy=None).close()


def test_no_address_without_the_token_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    window = Window(Posture(load_robot("five_bar")), port=8660)
    printed = capsys.readouterr().out
    window._server.stop()
    assert printed == ""


def test_the_page_and_its_files_are_served_below_the_token(window: Window) -> None:
    with urllib.request.urlopen(window.address) as response:
        assert b"<html" in response.read(2000).lower()


@pytest.mark.parametrize("token", ["", "x", "%2e%2e"])
def test_without_the_token_nothing_is_served(window: Window, token) -> None:
    server = window.address.rsplit("/", 2)[0]
    with pytest.raises(urllib.error.HTTPError, match="403"):
        urllib.request.urlopen(f"{server}/{token}")
    with pytest.raises(exceptions.InvalidStatus, match="403"):
        open_socket(f"{server}/{token}", server)


def test_a_websocket_of_its_own_page_is_opened(window: Window) -> None:
    open_socket(window.address, window.address.rsplit("/", 2)[0])


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://127.0.0.1:1"])
def test_a_websocket_of_another_page_is_refused(window: Window, origin) -> None:
    with pytest.raises(exceptions.InvalidStatus, match="403"):
        open_socket(window.address, origin)
