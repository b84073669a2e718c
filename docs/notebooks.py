"""Write the notebooks from their pages and run them: `python docs/notebooks.py [name]`.

A page of `docs/notebooks` is the source: its text becomes cells of text, its Python blocks cells of
code. Outputs are those of a run when the notebook was written.
"""

from __future__ import annotations

import ast
import contextlib
import io
import json
import os
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).with_name("notebooks")
BLOCK = re.compile(r"^```python\n(.*?)^```\n", re.MULTILINE | re.DOTALL)
DOWNLOAD = re.compile(r"^\[Download this notebook\].*?\n\n", re.MULTILINE | re.DOTALL)
Cell = dict[str, Any]


def cells(page: str) -> list[Cell]:
    """Return the cells of a page, without outputs."""
    pieces = BLOCK.split(DOWNLOAD.sub("", page))
    found: list[Cell] = []
    for k, piece in enumerate(pieces):
        text = piece.strip("\n")
        if text:
            found.append(_cell("code" if k % 2 else "markdown", text, len(found)))
    return found


def _cell(kind: str, text: str, number: int) -> Cell:
    cell: Cell = {
        "cell_type": kind,
        "id": f"cell-{number}",
        "metadata": {},
        "source": text.splitlines(keepends=True),
    }
    if kind == "code":
        cell |= {"execution_count": None, "outputs": []}
    return cell


def run(page_cells: list[Cell], folder: Path) -> list[Cell]:
    """Run the code of cells in a folder, in order; returns cells with their outputs."""
    names: dict[str, Any] = {"__name__": "__main__"}
    done = []
    count = 0
    with contextlib.chdir(folder):
        for cell in page_cells:
            if cell["cell_type"] == "code":
                count += 1
                cell = cell | {"execution_count": count}
                cell["outputs"] = _outputs("".join(cell["source"]), names, count)
            done.append(cell)
    return done


def _outputs(source: str, names: dict[str, Any], count: int) -> list[dict[str, Any]]:
    """Run a cell and return what it prints, and its last expression."""
    tree = ast.parse(source)
    last = None
    if tree.body and isinstance(tree.body[-1], ast.Expr):
        last = ast.Expression(tree.body.pop().value)
    printed = io.StringIO()
    shown = None
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, "<cell>", "exec"), names)
        if last is not None:
            shown = eval(compile(last, "<cell>", "eval"), names)
    outputs: list[dict[str, Any]] = []
    if printed.getvalue():
        lines = printed.getvalue().splitlines(keepends=True)
        outputs.append({"output_type": "stream", "name": "stdout", "text": lines})
    if shown is not None:
        data = {"text/plain": repr(shown).splitlines(keepends=True)}
        if hasattr(shown, "_repr_html_"):
            data["text/html"] = shown._repr_html_().splitlines(keepends=True)
        outputs.append(
            {
                "output_type": "execute_result",
                "execution_count": count,
                "data": data,
                "metadata": {},
            }
        )
    return outputs


def notebook(page_cells: list[Cell]) -> str:
    """Return cells as a notebook."""
    content = {
        "cells": page_cells,
        "metadata": {
            "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
            "language_info": {"name": "python"},
        },
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    return json.dumps(content, indent=1, ensure_ascii=False) + "\n"


def main() -> None:
    """Write all notebooks, or those named."""
    for path in sorted(FOLDER.glob("*.md")):
        if len(sys.argv) > 1 and path.stem not in sys.argv[1:]:
            continue
        with tempfile.TemporaryDirectory() as folder:
            done = run(cells(path.read_text(encoding="utf-8")), Path(folder))
            text = notebook(done).replace(os.path.realpath(folder), ".").replace(folder, ".")
        path.with_suffix(".ipynb").write_text(text, encoding="utf-8")
        sys.stdout.write(f"{path.stem}: {len(done)} cells\n")


if __name__ == "__main__":
    main()
