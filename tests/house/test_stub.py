"""Type checkers know every option: the stub is up to date, and a misspelled option is an error."""

from __future__ import annotations

import ast
import subprocess
import sys
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path

import pytest

import gough
from gough.core.options import options_of

ROOT = Path(__file__).parents[2]
STUB = ROOT / "src" / "gough" / "__init__.pyi"
VALID = """
import gough

result = gough.identify("five_bar", "log.csv", estimator="wls", cutoff=20.0, tie_legs=True)
table = result.to_dataframe()
gough.bounds("five_bar", "log.csv", error_bound=0.5)
plan = gough.design("five_bar", gough.DesignSettings(harmonics=3), starts=2)
run = gough.simulate("five_bar", plan, periods=3)
gough.identify("five_bar", "log.csv", held_out=None)
mass: float = result.params["left.proximal.m"]
low, high = result.conf_int(0.9)["left.proximal.m"]
names = [str(name) for name in gough.load_robot("five_bar").standard]
"""
WRONG = [
    ('gough.identify("five_bar", "log.csv", estimater="wls")', "estimater"),
    ('gough.identify("five_bar", "log.csv", cutoff="20 Hz")', "cutoff"),
    ('gough.design("five_bar", harmonic=3)', "harmonic"),
    ('gough.simulate("five_bar", None, periodes=3)', "periodes"),
    ('gough.simulate("five_bar", "trajectory.json")', "Trajectory | Designed"),
    ('gough.identify("five_bar", "log.csv").paramters', "paramters"),
    ("half: int = result.bse", "int"),
]


def signatures() -> dict[str, list[str]]:
    """Return the keyword arguments of the functions in the stub."""
    found = {}
    for node in ast.parse(STUB.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef):
            found[node.name] = [argument.arg for argument in node.args.kwonlyargs]
    return found


def test_every_option_of_a_public_function_is_a_keyword_of_the_stub() -> None:
    known = signatures()
    assert {"identify", "design", "simulate", "bounds", "check"} <= set(known)
    for name in gough.__all__:
        settings = getattr(getattr(gough, name), "settings_type", None)
        if settings is not None:
            assert set(options_of(settings)) <= set(known[name]), name


@pytest.mark.skipif(find_spec("ruff") is None, reason="formats the stub")
def test_the_stub_is_up_to_date() -> None:
    spec = spec_from_file_location("stub", ROOT / "docs" / "stub.py")
    assert spec is not None
    assert spec.loader is not None
    script = module_from_spec(spec)
    spec.loader.exec_module(script)
    assert STUB.read_text(encoding="utf-8") == script.stub(), "run python docs/stub.py"


@pytest.mark.slow
@pytest.mark.parametrize("checker", ["mypy", "pyright"])
def test_a_misspelled_option_is_an_error(checker: str, tmp_path: Path) -> None:
    pytest.importorskip(checker)
    program = tmp_path / "program.py"
    lines = [*VALID.splitlines(), *(line for line, _ in WRONG)]
    program.write_text("\n".join(lines) + "\n", encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", checker, str(program)], cwd=ROOT, capture_output=True, text=True
    )
    first = len(VALID.splitlines()) + 1
    for k, (_, word) in enumerate(WRONG):
        errors = [row for row in done.stdout.splitlines() if f"program.py:{first + k}:" in row]
        assert any(word in row for row in errors), done.stdout
    for number in range(1, first):
        assert f"program.py:{number}:" not in done.stdout, done.stdout
