"""How the source reads: density, names, docstrings, and the functions a log passes.

python benchmarks/house.py             the table
python benchmarks/house.py --json      the figures as JSON
python benchmarks/house.py --list      the places that count
"""

from __future__ import annotations

import argparse
import ast
import json
import sys
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType

import numpy as np

import gough
from gough.core.trajectory import Fourier
from gough.logs.writers import save_recording

SOURCE = Path(__file__).resolve().parents[1] / "src" / "gough"
VAGUE_NAMES = ("found", "part", "own", "left", "size")
OTHER_VAGUE_NAMES = ("result", "item", "value", "data", "rest")
MAX_LINE = 100
MAX_COMPREHENSION_LINES = 3
COMPREHENSIONS = (ast.ListComp, ast.DictComp, ast.SetComp, ast.GeneratorExp)
DEFINITIONS = (ast.FunctionDef, ast.ClassDef)

# Functions in which estimators are fitted: those that are compared, and the one that is asked for.
FIRST_ESTIMATORS = ("choose_estimator", "EstimatorRun.run")
# Key: label, at the start of the wave, target.
TABLE = {
    "nodes": ("syntax nodes", 380_062, "340,000"),
    "mean_line": ("mean length of a line", 63, "45"),
    "packed": ("packed assignments per 100 statements", 4.1, "1"),
    "conditional": ("inline if ... else per 100 statements", 5.4, ""),
    "comprehension": ("comprehensions per 100 statements", 9.7, ""),
    "hard": ("hard comprehensions", 367, "0"),
    "vague": ("uses of found, part, own, left, size", 2_542, "500"),
    "other_vague": ("uses of result, item, value, data, rest", 1_472, "1,472"),
    "long_lines": ("lines over 100 characters", None, "0"),
    "ambiguous": ("constant names with two definitions", None, "0"),
    "undocumented": ("public functions, classes and fields without docstring", None, "0"),
    "functions_before": ("functions a log passes before an estimator is fitted", 325, "150"),
    "files_before": ("files a log passes before an estimator is fitted", 51, "30"),
    "functions": ("functions a log passes in all", 465, ""),
    "files": ("files a log passes in all", 66, ""),
}


@dataclass
class Density:
    """Counts over some files, and the places of what should not be there."""

    nodes: int = 0
    statements: int = 0
    characters: int = 0
    lines: int = 0
    counts: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    places: list[str] = field(default_factory=list)

    def count(self, kind: str, path: Path, line: int, *, listed: bool = True) -> None:
        """Count one place."""
        self.counts[kind] += 1
        if listed:
            self.places.append(f"{path.relative_to(SOURCE).as_posix()}:{line}: {kind}")

    def figures(self) -> dict[str, float]:
        """Return the figures of the table."""
        hundreds = max(self.statements, 1) / 100
        figures: dict[str, float] = {
            "nodes": self.nodes,
            "mean_line": self.characters / max(self.lines, 1),
        }
        for kind in ("packed", "conditional", "comprehension"):
            figures[kind] = self.counts[kind] / hundreds
        for kind in ("hard", "vague", "other_vague", "long_lines", "ambiguous", "undocumented"):
            figures[kind] = self.counts[kind]
        return figures


def source_files(source: Path = SOURCE) -> list[Path]:
    """Return the files that are counted."""
    files = []
    for path in sorted(source.rglob("*.py")):
        name = path.relative_to(source).as_posix()
        if name:
            files.append(path)
    return files


def density(files: list[Path]) -> Density:
    """Count how dense some files read."""
    total = Density()
    for path in files:
        text = path.read_text(encoding="utf-8")
        for number, line in enumerate(text.splitlines(), start=1):
            if line.strip():
                total.characters += len(line)
                total.lines += 1
            if len(line) > MAX_LINE:
                total.count("long_lines", path, number)
        tree = ast.parse(text)
        for node in ast.walk(tree):
            total.nodes += 1
            _count_node(total, path, node)
        for line, _ in undocumented(tree, text.splitlines()):
            total.count("undocumented", path, line)
    for name, places in constant_definitions(files).items():
        if len(places) > 1:
            total.counts["ambiguous"] += 1
            total.places.append(f"{name}: defined in {', '.join(places)}")
    return total


def _count_node(total: Density, path: Path, node: ast.AST) -> None:
    """Count what one syntax node is."""
    if isinstance(node, ast.stmt):
        total.statements += 1
    if isinstance(node, ast.Assign) and is_packed(node):
        total.count("packed", path, node.lineno)
    if isinstance(node, ast.IfExp):
        total.count("conditional", path, node.lineno, listed=False)
    if isinstance(node, COMPREHENSIONS):
        total.count("comprehension", path, node.lineno, listed=False)
        if is_hard(node):
            total.count("hard", path, node.lineno)
    if isinstance(node, ast.Name) and node.id in VAGUE_NAMES:
        total.count("vague", path, node.lineno)
    if isinstance(node, ast.Name) and node.id in OTHER_VAGUE_NAMES:
        total.count("other_vague", path, node.lineno, listed=False)


def is_packed(node: ast.Assign) -> bool:
    """Return whether an assignment packs several results into one statement."""
    several = isinstance(node.targets[0], ast.Tuple)
    return several and isinstance(node.value, ast.Tuple | ast.GeneratorExp)


def is_hard(node: ast.expr) -> bool:
    """Return whether a comprehension has two `for`, another one or a condition inside, or is long."""
    generators = getattr(node, "generators", [])
    inner = [other for other in ast.walk(node) if other is not node]
    nested = any(isinstance(other, (*COMPREHENSIONS, ast.IfExp)) for other in inner)
    lines = int(node.end_lineno or node.lineno) - node.lineno + 1
    return len(generators) > 1 or nested or lines > MAX_COMPREHENSION_LINES


def undocumented(tree: ast.Module, lines: list[str]) -> Iterator[tuple[int, str]]:
    """Yield public functions, classes and fields of dataclasses without docstring or comment."""
    pending: list[ast.AST] = [tree]
    while pending:
        for node in ast.iter_child_nodes(pending.pop()):
            if not isinstance(node, DEFINITIONS) or node.name.startswith("_"):
                continue
            if not ast.get_docstring(node):
                yield node.lineno, node.name
            if isinstance(node, ast.ClassDef):
                pending.append(node)
                if is_dataclass(node):
                    yield from undocumented_fields(node, lines)


def is_dataclass(node: ast.ClassDef) -> bool:
    """Return whether a class is decorated as a dataclass."""
    return any("dataclass" in ast.unparse(decorator) for decorator in node.decorator_list)


def undocumented_fields(node: ast.ClassDef, lines: list[str]) -> Iterator[tuple[int, str]]:
    """Yield fields without a comment beside or above them, a help text, or a line under Args."""
    docstring = ast.get_docstring(node) or ""
    for entry in node.body:
        if not isinstance(entry, ast.AnnAssign) or not isinstance(entry.target, ast.Name):
            continue
        name = entry.target.id
        beside = lines[entry.lineno - 1 : entry.end_lineno]
        above = lines[entry.lineno - 2].lstrip()
        commented = above.startswith("#") or any("#" in line for line in beside)
        default = "" if entry.value is None else ast.unparse(entry.value)
        declared = any(word in default for word in ("option(", "nested(", "_argument("))
        obvious = name in ("rows", "row_units", "parameters", "units", "name", "source", "joints")
        if not (name.startswith("_") or commented or declared or obvious or name in docstring):
            yield entry.lineno, name


def constant_definitions(files: list[Path]) -> dict[str, list[str]]:
    """Return the modules in which each constant is defined."""
    places: dict[str, list[str]] = defaultdict(list)
    for path in files:
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            targets = node.targets if isinstance(node, ast.Assign) else []
            for target in targets:
                if isinstance(target, ast.Name) and target.id.isupper() and len(target.id) > 1:
                    places[target.id].append(path.relative_to(SOURCE).as_posix())
    return places


def traced_walk() -> dict[str, float]:
    """Count functions and files that a log of the five-bar passes from its file to the result.

    The robot is compiled and its base parameters are known before.
    """
    model = gough.Model(gough.load_robot("five_bar"))
    task = model.mechanism.task
    home = [model.home[model.mechanism.coordinates.index(name)] for name in task]
    rng = np.random.default_rng(0)
    motion = Fourier(
        coordinates=task,
        units=("m", "m"),
        frequency=0.5,
        offset=np.array(home),
        mu=0.05 * rng.uniform(-1, 1, (4, 2)),
        nu=0.05 * rng.uniform(-1, 1, (4, 2)),
    )
    log = gough.record(gough.simulate(model, motion, periods=3), seed=1)
    gough.identify(model, [log])  # compiles what is missing
    with TemporaryDirectory() as folder:
        path = Path(folder) / "log.csv"
        save_recording(log, path)

        def identify() -> None:
            gough.identify(model, [gough.read_recording(path)])

        passed, before = calls(identify, FIRST_ESTIMATORS)
    return {
        "functions_before": len(before),
        "files_before": len({file for file, _ in before}),
        "functions": len(passed),
        "files": len({file for file, _ in passed}),
    }


def calls(
    work: Callable[[], object], until: Collection[str]
) -> tuple[set[tuple[str, str]], set[tuple[str, str]]]:
    """Return file and name of every function of the source that is called, and of those until one.

    Comprehensions are not functions.

    Args:
        work: What is traced.
        until: Names of the functions of which the first that is called ends the second set.
    """
    passed: set[tuple[str, str]] = set()
    before: list[set[tuple[str, str]]] = []

    def note(frame: FrameType, event: str, _: object) -> None:
        file = frame.f_code.co_filename
        name = frame.f_code.co_qualname
        inside = file.startswith(str(SOURCE)) and not frame.f_code.co_name.startswith("<")
        if event == "call" and name in until and not before:
            before.append(set(passed))
        if event == "call" and inside:
            passed.add((file, name))

    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
    return passed, before[0] if before else set()


def main() -> None:
    """Print the table, the figures as JSON, or the places."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    parser.add_argument("--list", action="store_true", help="list the places that count")
    parser.add_argument("--small", action="store_true", help="count one package only")
    asked = parser.parse_args()
    files = source_files(SOURCE / "logs" if asked.small else SOURCE)
    counted = density(files)
    if asked.list:
        print("\n".join(counted.places))
        return
    figures = counted.figures() | traced_walk()
    if asked.json:
        print(json.dumps(figures, indent=2))
        return
    width = max(len(label) for label, *_ in TABLE.values())
    print(f"{'':{width}}  {'before':>8}  {'now':>8}  target")
    for key, (label, before, target) in TABLE.items():
        row = f"{label:{width}}  {short(before):>8}  {short(figures[key]):>8}  {target}"
        print(row.rstrip())


def short(number: float | None) -> str:
    """Return a number without needless digits; nothing for what was not counted."""
    if number is None:
        return ""
    if number == round(number):
        return f"{number:,.0f}"
    return f"{number:.1f}"


if __name__ == "__main__":
    main()
