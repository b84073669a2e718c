"""What the README shows must run."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from command_line import succeed

README = Path(__file__).parents[1] / "README.md"


def block(language: str) -> str:
    found = re.search(rf"```{language}\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    assert found is not None
    return found[1]


def test_the_ten_lines_run(capsys: pytest.CaptureFixture[str]) -> None:
    code = block("python")
    assert len([line for line in code.splitlines() if line.strip()]) <= 10
    scope: dict[str, object] = {}
    exec(compile(code, "README.md", "exec"), scope)
    printed = capsys.readouterr().out
    assert "five_bar: OK - predicts the held-out log" in printed
    assert "controller_inverse_dynamics" in str(scope["source"])


@pytest.mark.slow
def test_the_commands_run(tmp_path: Path) -> None:
    for line in block("sh").splitlines():
        if line.strip():
            succeed(line, tmp_path)
    assert (tmp_path / "result" / "report.html").stat().st_size > 10_000
    assert (tmp_path / "result" / "controller.c").exists()
