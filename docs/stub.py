"""Write the stub of the package, `src/gough/__init__.pyi`: `python docs/stub.py`.

Type checkers read the stub. Functions that take settings appear in it with every option as a
keyword argument, so that a misspelled option is an error. The options are declared in the source
only.
"""

from __future__ import annotations

import ast
import builtins
import inspect
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import gough
from gough.core.options import Option, Settings, members

STUB = Path(gough.__file__).with_suffix(".pyi")
HEADER = "# Written by docs/stub.py: the public names, and the options of functions.\n"
WRITTEN_DEFAULTS = (bool, int, float, str, type(None))  # other defaults are written as `...`


class Stub:
    """Imports and functions of a stub."""

    def __init__(self) -> None:
        self.public: list[str] = []  # imports that are public names
        self.needed: dict[str, str] = {}  # module of each name in an annotation
        self.functions: list[str] = []

    def add(self, name: str, module_name: str) -> None:
        """Add a public name: a function with settings, or anything else by its import."""
        content = getattr(import_module(module_name), name)
        if hasattr(content, "settings_type"):
            self.functions.append(self._function(content, content.settings_type))
        else:
            self.public.append(f"from {module_name} import {name} as {name}")

    def _function(self, function: Any, settings: type[Settings]) -> str:
        source = inspect.getsource(sys.modules[function.__module__])
        definition = _definition(source, function.__name__)
        definition.args.kwarg = None
        definition.decorator_list = []
        definition.body = [ast.Expr(ast.Constant(...))]
        for argument in (*definition.args.args, *definition.args.kwonlyargs, definition):
            annotation = argument.annotation if argument is not definition else definition.returns
            self._import_names(annotation, function.__module__)
        self._add_options(definition, settings)
        return ast.unparse(definition)

    def _add_options(self, definition: ast.FunctionDef, settings: type[Settings]) -> None:
        """Add options, and nested settings with their options, as keyword arguments."""
        hints = inspect.get_annotations(settings)
        for name, member in members(settings).items():
            annotation = ast.parse(hints[name], mode="eval").body
            self._import_names(annotation, settings.__module__)
            definition.args.kwonlyargs.append(ast.arg(name, annotation))
            definition.args.kw_defaults.append(_default(member))
            if not isinstance(member, Option):
                self._add_options(definition, member)

    def _import_names(self, annotation: ast.expr | None, module_name: str) -> None:
        """Import the names in an annotation from where a module has them."""
        if annotation is None:
            return
        origins = _origins(module_name)
        for node in ast.walk(annotation):
            if isinstance(node, ast.Name) and not hasattr(builtins, node.id):
                self._need(node.id, origins[node.id])

    def _need(self, name: str, module_name: str) -> None:
        first = self.needed.setdefault(name, module_name)
        content = getattr(import_module(module_name), name)
        if content is not getattr(import_module(first), name):
            raise TypeError(f"'{name}' differs in {first} and {module_name}")

    def text(self) -> str:
        """Return the stub, formatted by ruff."""
        imports = list(self.public)
        for name, module_name in self.needed.items():
            if name not in gough.__all__:
                imports.append(f"from {module_name} import {name}")
        parts = [HEADER, *sorted(imports), "", "__version__: str", "", *self.functions]
        return _formatted("\n".join(parts) + "\n")


def _definition(source: str, name: str) -> ast.FunctionDef:
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef) and node.name == name:
            return node
    raise LookupError(name)


def _origins(module_name: str) -> dict[str, str]:
    """Return the module of each name that a module imports or defines."""
    origins = {}
    for node in ast.parse(inspect.getsource(import_module(module_name))).body:
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                origins[alias.asname or alias.name] = str(node.module)
        elif isinstance(node, ast.ClassDef):
            origins[node.name] = module_name
        elif isinstance(node, ast.Assign):
            for target in node.targets:
                origins[ast.unparse(target)] = module_name
        elif isinstance(node, ast.AnnAssign):
            origins[ast.unparse(node.target)] = module_name
    return origins


def _default(member: Option | type[Settings]) -> ast.expr | None:
    """Return the default of a keyword argument; a required option is needed unless in settings."""
    if isinstance(member, Option) and isinstance(member.default, WRITTEN_DEFAULTS):
        return ast.Constant(member.default)
    return ast.Constant(...)


def _formatted(text: str) -> str:
    for arguments in (["check", "--fix", "--quiet", "--select", "I"], ["format"]):
        command = [sys.executable, "-m", "ruff", *arguments, "--stdin-filename", str(STUB), "-"]
        done = subprocess.run(
            command, input=text, cwd=STUB.parents[2], capture_output=True, text=True, check=True
        )
        text = done.stdout
    return text


def stub() -> str:
    """Return the stub of the package as it should be."""
    content = Stub()
    for name, module_name in sorted(gough._MODULES.items()):
        content.add(name, module_name)
    return content.text()


if __name__ == "__main__":
    STUB.write_text(stub(), encoding="utf-8")
