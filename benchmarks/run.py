"""Run all benchmarks, one after the other, and print what they measured.

    python benchmarks/run.py [--small] [name ...]

Each row is measured in one run with its peer; accuracy stands beside every time. Nothing is
asserted. With `--small` each runs at a small size, to see that it works; its figures mean nothing.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).parent
ALL = (
    "engine",
    "kernel",
    "streaming",
    "identify",
    "processing",
    "design",
    "simulation",
    "estimation",
    "serial",
    "coverage",
    "calibration",
    "scale",
    "bounds",
    "uncertain_positions",
    "controller",
    "startup",
    "growth",
    "house",
    "terms",
)
BY_NAME_ONLY = ("fleets", "mutations", "verdict", "real_robots")  # hours; foreign logs


def main(words: list[str]) -> None:
    """Run the benchmarks named on the command line, or all."""
    options = [word for word in words if word.startswith("-")]
    names = [word for word in words if not word.startswith("-")]
    for name in names or ALL:
        print(f"## {name}", flush=True)
        subprocess.run([sys.executable, str(FOLDER / f"{name}.py"), *options], check=True)
        print(flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
