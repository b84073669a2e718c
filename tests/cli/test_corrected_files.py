"""Corrected descriptions are written for the logs that a fault is in."""

from __future__ import annotations

from pathlib import Path

import pytest

from gough.app.studies.corrected_files import write_corrected_files
from gough.core.errors import InvalidInput
from gough.engine import Model
from gough.identification.diagnosis import NamedFault
from gough.logs.recording import Recording

FAULT = NamedFault(
    name="effort sign",
    place="left.motor",
    logs=("log.npz",),
    size=(-1.0,),
    std=(0.01,),
    text="a wrong sign",
    advice="turn it",
)


def test_logs_of_the_same_name_are_not_confused(
    tmp_path: Path, five_bar: Model, five_bar_log: Recording
) -> None:
    paths = []
    for folder in ("monday", "tuesday"):
        (tmp_path / folder).mkdir()
        five_bar_log.save(tmp_path / folder / "log.npz")
        paths.append(str(tmp_path / folder / "log.npz"))
    with pytest.raises(InvalidInput, match=r"2 logs are called 'log\.npz'"):
        write_corrected_files(
            five_bar, "five_bar", paths, [FAULT], description=None, gains=None, force=False
        )
    assert list(tmp_path.rglob("*.toml")) == []
