"""Count what makes the source easy or hard to read, beside the first count: python
benchmarks/house.py

`first` is what was written down before the rooms were put in order, `recount` the same version
counted by this script. Aims are the project's; nothing is asserted.
"""

from __future__ import annotations

import argparse
import ast
import json
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from keyword import iskeyword
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType

import numpy as np

import gough
from gough.core.trajectory import Fourier
from gough.logs.writers import save_recording

SOURCE = Path(__file__).resolve().parents[1] / "src" / "gough"
VERBS = (
    "check",
    "design",
    "simulate",
    "identify",
    "validate",
    "bounds",
    "payload",
    "report",
    "export",
)
CUTTERS = ("split", "rsplit", "partition", "rpartition")
LOOKERS = ("startswith", "endswith", "removeprefix", "removesuffix")
TRIVIAL = {0, 1, 2, -1, 0.5, 10, 100, 1000}  # numbers that need no reason
# Label; first count as it was written down; the same source counted by this script; what it should
# become.
TABLE = {
    "lines": ("lines of source", "25 000", 24999, "below 20 000 before features"),
    "files": ("files", "146", 146, ""),
    "mean_line": ("mean length of a line that is not blank", "57", 57.3, "shorter"),
    "classes": ("classes", "206", 206, "fewer"),
    "functions": ("functions and methods", "", 1429, ""),
    "private": ("share of private helpers among them [%]", "33", 32.8, "smaller"),
    "wide": ("signatures with more than eight parameters", "19", 19, "none that is public"),
    "long_functions": ("functions of more than 60 lines without docstring", "1", 1, "0"),
    "long_files": ("files of more than 400 lines", "", 5, "0"),
    "large_rooms": ("rooms of more than 2500 lines", "", 3, "0"),
    "unreached": (
        "lines of definitions that no verb reaches, at least",
        "",
        828,
        "extension points only",
    ),
    "passed_functions": (
        "functions that a log passes on its way to an estimate",
        "271",
        200,
        "fewer",
    ),
    "passed_files": ("files in which they stand", "34", 33, "fewer"),
    "before_functions": (
        "of these, functions before the estimate stands; the others judge it",
        "",
        None,
        "fewer",
    ),
    "before_files": ("files in which they stand", "", None, "fewer"),
    "declared": ("places in which an option of a verb is declared, mean", "3", 2, "1"),
    "declared_most": ("the same, most", "", 3, "1"),
    "cuts": ("places that cut a name at a dot", "31", 39, "in one module"),
    "payload": ('places that look for "payload." in a name', "33", 31, "in one module"),
    "numbers": ("numbers with a decimal point or exponent that are not obvious", "", 426, "fewer"),
    "constants": ("named constants with a tuned number", "217", 75, ""),
    "unexplained": ("of these without a comment beside them", "", 1, "0"),
}

Function = ast.FunctionDef | ast.AsyncFunctionDef


def trees() -> dict[Path, ast.Module]:
    """Return every file of the source, parsed."""
    return {
        path: ast.parse(path.read_text(encoding="utf-8")) for path in sorted(SOURCE.rglob("*.py"))
    }


def walk(files: dict[Path, ast.Module], kind: type[ast.AST]) -> Iterator[tuple[Path, ast.AST]]:
    """Yield every node of a kind with its file."""
    for path, tree in files.items():
        yield from ((path, node) for node in ast.walk(tree) if isinstance(node, kind))


def sizes(files: dict[Path, ast.Module]) -> dict[str, float]:
    """Count lines, classes, functions and what is too long."""
    lines = {path: path.read_text(encoding="utf-8").splitlines() for path in files}
    written = [line for text in lines.values() for line in text if line.strip()]
    rooms: Counter[str] = Counter()
    for path, text in lines.items():
        rooms[path.relative_to(SOURCE).parts[0]] += len(text)
    functions = [
        node for kind in (ast.FunctionDef, ast.AsyncFunctionDef) for _, node in walk(files, kind)
    ]
    named = [node for node in functions if isinstance(node, Function)]
    private = [
        node for node in named if node.name.startswith("_") and not node.name.startswith("__")
    ]
    return {
        "lines": sum(map(len, lines.values())),
        "files": len(files),
        "mean_line": sum(map(len, written)) / len(written),
        "classes": sum(1 for _ in walk(files, ast.ClassDef)),
        "functions": len(named),
        "private": 100 * len(private) / len(named),
        "wide": sum(len(parameters(node)) > 8 for node in named),
        "long_functions": sum(length(node) > 60 for node in named),
        "long_files": sum(len(text) > 400 for text in lines.values()),
        "large_rooms": sum(size > 2500 for size in rooms.values()),
    }


def length(node: Function) -> int:
    """Return the lines of a function without its docstring."""
    first = node.body[0]
    told = (
        isinstance(first, ast.Expr)
        and isinstance(first.value, ast.Constant)
        and isinstance(first.value.value, str)
    )
    docstring = (first.end_lineno or first.lineno) - first.lineno + 1 if told else 0
    return lines_of(node) - docstring


def parameters(node: Function) -> list[str]:
    """Return the names of a function's parameters, `self` and `cls` left out."""
    every = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
    return [a.arg for a in every if a.arg not in ("self", "cls")]


def unreached(files: dict[Path, ast.Module]) -> list[tuple[str, int]]:
    """Return definitions that the command line does not reach, with their lines.

    Followed by name: what the commands, the templates and the modules' own statements mention is
    reached, and what that mentions in turn. Things of the same name are taken for each other, so
    more may be out of reach.
    """
    templates = [path for path in SOURCE.rglob("*") if path.suffix in (".html", ".jinja")]
    pending = {
        name for path in templates for name in re.findall(r"\w+", path.read_text(encoding="utf-8"))
    }
    mentions: dict[str, set[str]] = {}
    known: list[tuple[str, str, ast.AST]] = []
    for path, tree in files.items():
        if path.name == "__init__.py" and path.parent.name != "cli":
            continue  # lists of what is public
        for node in tree.body:
            parts = [] if path.parent.name == "cli" else definitions(node)
            if not parts and not isinstance(node, ast.Import | ast.ImportFrom):
                pending |= mentioned([node])
            for label, name, part, inside in parts:
                mentions.setdefault(name, set()).update(mentioned(inside))
                known.append((f"{path.relative_to(SOURCE).as_posix()}: {label}", name, part))
    reached: set[str] = set()
    while pending:
        name = pending.pop()
        reached.add(name)
        pending |= mentions.get(name, set()) - reached
    idle = {label: lines_of(node) for label, name, node in known if name not in reached}
    return [(label, lines) for label, lines in idle.items() if label.rpartition(".")[0] not in idle]


def definitions(node: ast.AST) -> list[tuple[str, str, ast.AST, list[ast.AST]]]:
    """Return label, name, node and content of a function, or of a class and each method that is not
    special.
    """
    if isinstance(node, Function):
        return [(node.name, node.name, node, [node])]
    if not isinstance(node, ast.ClassDef):
        return []
    methods = [m for m in node.body if isinstance(m, Function) and not m.name.startswith("__")]
    rest: list[ast.AST] = [
        m for m in [*node.body, *node.bases, *node.decorator_list] if m not in methods
    ]
    return [
        (node.name, node.name, node, rest),
        *((f"{node.name}.{m.name}", m.name, m, [m]) for m in methods),
    ]


def mentioned(nodes: list[ast.AST]) -> set[str]:
    """Return every name, attribute, keyword and identifier in quotes."""
    found: set[str] = set()
    for node in (inner for outer in nodes for inner in ast.walk(outer)):
        words = (
            getattr(node, "id", None),
            getattr(node, "attr", None),
            getattr(node, "arg", None),
            getattr(node, "value", None) if isinstance(node, ast.Constant) else None,
        )
        found |= {word for word in words if isinstance(word, str) and word.isidentifier()}
    return found | {
        f"{word}_" for word in found if iskeyword(word)
    }  # the verb `import` is a function `import_`


def lines_of(node: ast.AST) -> int:
    """Return the number of lines of a definition."""
    return int(getattr(node, "end_lineno", 0)) - int(getattr(node, "lineno", 0)) + 1


def way_of_a_log() -> dict[str, float]:
    """Count functions and files of the source that a log of the five-bar meets between its file and
    the result.

    The robot is compiled before: that is no matter of the log.
    """

    model = gough.Model(gough.load_robot("five_bar"))
    home = [model.home[model.mechanism.coordinates.index(name)] for name in model.mechanism.task]
    rng = np.random.default_rng(0)
    motion = Fourier(
        coordinates=model.mechanism.task,
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
        passed, before = calls(
            lambda: gough.identify(model, [gough.read_recording(path)]), "run_all"
        )
    found = {}
    for name, functions in (("passed", passed), ("before", before)):
        found |= {
            f"{name}_functions": len(functions),
            f"{name}_files": len({file for file, _ in functions}),
        }
    return found


def calls(
    work: Callable[[], object], until: str
) -> tuple[set[tuple[str, str]], set[tuple[str, str]]]:
    """Return file and name of every function of the source that some work calls, and of those until
    one returns.

    Comprehensions are not functions.
    """
    passed: set[tuple[str, str]] = set()
    before: list[set[tuple[str, str]]] = []

    def note(frame: FrameType, event: str, _: object) -> None:
        file, name = frame.f_code.co_filename, frame.f_code.co_qualname
        if (
            event == "call"
            and file.startswith(str(SOURCE))
            and not frame.f_code.co_name.startswith("<")
        ):
            passed.add((file, name))
        if event == "return" and name == until and not before:
            before.append(set(passed))

    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
    return passed, before[0]


def options(files: dict[Path, ast.Module]) -> dict[str, float]:
    """Count where the verbs' options are declared: as a parameter of the verb's functions, or as a
    field of settings.

    A verb's functions are those called `design` or `design_verb`, in whatever room. A parameter
    without a default is no option; one field of settings that several verbs share counts once.
    """
    found: Counter[tuple[str, str]] = Counter()
    for _, node in walk(files, ast.AST):
        if isinstance(node, Function) and node.name.removesuffix("_verb") in VERBS:
            given = [
                a.arg
                for a, default in zip(node.args.kwonlyargs, node.args.kw_defaults)
                if default is not None
            ]
            given += [
                a.arg for a in node.args.args[len(node.args.args) - len(node.args.defaults) :]
            ]
            found.update(
                (node.name.removesuffix("_verb"), name)
                for name in given
                if name not in ("settings", "progress", "as_json")
            )
        if isinstance(node, ast.ClassDef):
            owner = next(
                (verb for verb in VERBS if node.name.lower() == f"{verb}settings"), node.name
            )
            found.update(
                (owner, field.target.id)
                for field in node.body
                if isinstance(field, ast.AnnAssign)
                and isinstance(field.target, ast.Name)
                and isinstance(field.value, ast.Call)
                and isinstance(field.value.func, ast.Name)
                and field.value.func.id == "option"
            )
    return {"declared": sum(found.values()) / len(found), "declared_most": max(found.values())}


def cuts(files: dict[Path, ast.Module]) -> dict[str, float]:
    """Count where text is cut or compared at a dot, and where "payload." is written into the
    code.
    """
    dots = sum(
        isinstance(node, ast.Call) and cuts_a_name(node) for _, node in walk(files, ast.Call)
    )
    payloads = sum(
        isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and node.value.startswith("payload.")
        for _, node in walk(files, ast.Constant)
    )
    return {"cuts": dots, "payload": payloads}


def cuts_a_name(node: ast.Call) -> bool:
    """Tell whether a call is like `name.split(".")` or `name.endswith(".gain")`."""
    if not isinstance(node.func, ast.Attribute) or not node.args:
        return False
    text = "".join(
        part.value
        for part in ast.walk(node.args[0])
        if isinstance(part, ast.Constant) and isinstance(part.value, str)
    )
    return (node.func.attr in CUTTERS and text == ".") or (
        node.func.attr in LOOKERS and text.startswith(".") and len(text) > 1
    )


def constants(files: dict[Path, ast.Module]) -> dict[str, float]:
    """Count constants of modules whose value is a number somebody chose, and those without a
    comment.
    """
    count = bare = 0
    for path, tree in files.items():
        lines = path.read_text(encoding="utf-8").splitlines()
        for node in tree.body:
            if isinstance(node, ast.Assign) and tuned(node):
                count += 1
                beside = lines[node.lineno - 1 : node.end_lineno]
                above = lines[node.lineno - 2].lstrip()
                bare += not above.startswith("#") and not any("#" in line for line in beside)
    chosen = sum(
        isinstance(node, ast.Constant)
        and isinstance(node.value, float)
        and node.value not in TRIVIAL
        for _, node in walk(files, ast.Constant)
    )
    return {"numbers": chosen, "constants": count, "unexplained": bare}


def tuned(node: ast.Assign) -> bool:
    """Tell whether an upper-case name gets a number that is not obvious."""
    names = [n.id for target in node.targets for n in ast.walk(target) if isinstance(n, ast.Name)]
    numbers = [
        n.value
        for n in ast.walk(node.value)
        if isinstance(n, ast.Constant)
        and isinstance(n.value, int | float)
        and not isinstance(n.value, bool)
    ]
    simple = not any(isinstance(n, ast.Call | ast.Dict) for n in ast.walk(node.value))
    return (
        simple
        and all(re.fullmatch(r"[A-Z][A-Z0-9_]*", n) for n in names)
        and bool(set(numbers) - TRIVIAL)
    )


def count() -> dict[str, float]:
    """Return every figure of the table."""
    files = trees()
    beyond = {"unreached": float(sum(lines for _, lines in unreached(files)))}
    return sizes(files) | beyond | way_of_a_log() | options(files) | cuts(files) | constants(files)


def main() -> None:
    """Print the table, or the figures as JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    parser.add_argument("--unreached", action="store_true", help="list what no verb reaches")
    chosen = parser.parse_args()
    if chosen.unreached:
        print("\n".join(f"{lines:4d}  {label}" for label, lines in unreached(trees())))
        return
    figures = count()
    if chosen.json:
        print(json.dumps(figures, indent=2))
        return
    width = max(len(label) for label, *_ in TABLE.values())
    print(f"{'':{width}}  {'first':>7}  {'recount':>7}  {'now':>7}  aim")
    for key, (label, first, again, aim) in TABLE.items():
        print(
            f"{label:{width}}  {first:>7}  {short(again):>7}  {short(figures[key]):>7}  {aim}".rstrip()
        )


def short(value: float | None) -> str:
    """Return a number without needless digits; nothing for what was not counted then."""
    if value is None:
        return ""
    return f"{value:.0f}" if value == round(value) else f"{value:.1f}"


if __name__ == "__main__":
    main()
