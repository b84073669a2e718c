"""`gough robots --copy` writes a bundled robot as a start for another one."""

from __future__ import annotations

from pathlib import Path

import pytest

from gough.app.cli.other_commands import robots
from gough.core.errors import GoughError
from gough.mechanism import load_robot


def test_a_copied_robot_is_the_bundled_one(tmp_path: Path, capsys) -> None:
    target = tmp_path / "mine.toml"
    robots(copy="five_bar", output=str(target))
    assert f"gough check {target}" in capsys.readouterr().out.replace("\n", "")
    assert load_robot(target).coordinates == load_robot("five_bar").coordinates
    with pytest.raises(GoughError, match=r"mine\.toml"):
        robots(copy="five_bar", output=str(target))
    robots(copy="delta", output=str(target), force=True)
    assert load_robot(target).name == "delta"


def test_only_bundled_robots_are_copied() -> None:
    with pytest.raises(GoughError, match=r"no bundled robot 'five_bra'.*five_bar"):
        robots(copy="five_bra")
    with pytest.raises(GoughError, match="belong to --copy NAME"):
        robots(output="a.toml")
