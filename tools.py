"""The project's commands on any platform: python tools.py
demo|test|accept|quick|lint|docs|bench|clean [more arguments]

Each command makes the environment `.venv` if there is none and installs into it what it needs and
nothing else; a fresh machine needs only Python 3.11 or newer. `make NAME` does the same. More
arguments go to the last step, e.g. python tools.py quick tests/kernels.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent
MADE = (".venv", "gough-demo", "build")
PYTEST = ("pytest", "-n", "2", "--dist", "worksteal")
PYTHON_FILES = ("src", "tests", "benchmarks", "examples", "docs", "tools.py", "setup.py")
LINT = (
    ("ruff", "check", *PYTHON_FILES),
    ("ruff", "format", "--check", "--quiet", *PYTHON_FILES),
    ("mypy",),
)


class Command(NamedTuple):
    """What a command installs (extras of pyproject.toml) and which modules it runs, with their
    arguments.
    """

    extras: tuple[str, ...]
    steps: tuple[tuple[str, ...], ...]
    about: str


COMMANDS = {
    "demo": Command(
        (),
        (("gough", "demo", "palida", "-o", "gough-demo", "--force"),),
        "identify the virtual PaLiDA hexapod from beginning to end",
    ),
    "test": Command(
        ("lint", "test"), (*LINT, PYTEST), "ruff, mypy and all tests but those of accept"
    ),
    "accept": Command(
        ("test",), ((*PYTEST, "-m", "long"),), "the studies that are repeated many times"
    ),
    "quick": Command(
        ("test",), ((*PYTEST, "-m", "not slow and not long"),), "the tests that are not marked slow"
    ),
    "lint": Command(("lint",), LINT, "ruff and mypy"),
    "docs": Command(
        ("docs",), (("mkdocs", "build", "--strict", "--quiet"),), "the documentation in build/docs"
    ),
    "bench": Command(("bench",), (("benchmarks.run",),), "all benchmarks, or those named"),
}


def environment_python(root: Path) -> Path:
    """Return the interpreter of the environment, whether it is there or not."""
    return root / ".venv" / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def install(root: Path, extras: tuple[str, ...]) -> None:
    """Make the environment and install the project with some extras, unless that was done for this
    pyproject.toml.
    """
    python = environment_python(root)
    state = hashlib.sha256((root / "pyproject.toml").read_bytes()).hexdigest()
    stamps = [root / ".venv" / f".installed-{extra}" for extra in extras or ("run",)]
    if python.exists() and all(stamp.exists() and stamp.read_text() == state for stamp in stamps):
        return
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(root / ".venv")], check=True)
    wanted = f".[{','.join(extras)}]" if extras else "."
    subprocess.run([str(python), "-m", "pip", "install", "-q", "-e", wanted], cwd=root, check=True)
    for stamp in stamps:
        stamp.write_text(state)


def run(root: Path, name: str, more: list[str]) -> int:
    """Run a command and return its exit code: that of the first step that fails."""
    command = COMMANDS[name]
    install(root, command.extras)
    # UTF-8 everywhere; one BLAS thread for each of the two test processes; MkDocs' advertisement of
    # its next version
    settings = {"PYTHONUTF8": "1", "OPENBLAS_NUM_THREADS": "1", "NO_MKDOCS_2_WARNING": "1"}
    environment = os.environ | (settings if name not in ("demo", "bench") else {"PYTHONUTF8": "1"})
    # Containers often set this. Without bytecode each start of Python compiles the whole package,
    # and pytest rewrites every test file in both processes.
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    for k, step in enumerate(command.steps):
        arguments = more if k == len(command.steps) - 1 else []
        done = subprocess.run(
            [str(environment_python(root)), "-m", *step, *arguments], cwd=root, env=environment
        )
        if done.returncode != 0:
            return done.returncode
    return 0


def main(words: list[str]) -> int:
    """Run what the command line asks for and return the exit code."""
    if sys.version_info < (3, 11):  # noqa: UP036  an older Python reads this file too, and should be told
        print(
            f"this is Python {sys.version.split()[0]}; Gough needs 3.11 or newer", file=sys.stderr
        )
        return 2
    if words[:1] == ["clean"]:
        for folder in MADE:
            shutil.rmtree(ROOT / folder, ignore_errors=True)
        return 0
    if not words or words[0] not in COMMANDS:
        print(
            __doc__,
            *(f"  {name:6s} {command.about}" for name, command in COMMANDS.items()),
            sep="\n",
        )
        return 0 if words[:1] in (["-h"], ["--help"]) else 2
    try:
        return run(ROOT, words[0], words[1:])
    except subprocess.CalledProcessError as error:
        print(f"'{' '.join(map(str, error.cmd))}' failed", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
