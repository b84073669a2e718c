"""Run all benchmarks, one after the other, and print what they measured: python benchmarks/run.py
[name ...]

Each row is measured in one run with its peer; accuracy stands beside every time. Nothing is
asserted.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ALL = (
    "engine",
    "kernel",
    "streaming",
    "design",
    "simulation",
    "estimation",
    "serial",
    "coverage",
    "scale",
    "bounds",
    "controller",
    "startup",
    "house",
    "terms",
)


def main() -> None:
    """Run the benchmarks named on the command line, or all."""
    for name in sys.argv[1:] or ALL:
        print(f"## {name}", flush=True)
        subprocess.run([sys.executable, str(Path(__file__).with_name(f"{name}.py"))], check=True)
        print(flush=True)


if __name__ == "__main__":
    main()
