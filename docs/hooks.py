"""Pages of the site that are not files of `docs/`.

README, CONTRIBUTING and CHANGELOG stand in the root of the project, where readers look for them.
Every room of the source gets a page of its docstrings and of the comments beside fields; options
are shown as they were declared. A link to another file of the project leads to a page that shows
that file.
"""

from __future__ import annotations

import html
import re
import sys
from collections.abc import Iterator
from importlib import import_module
from os.path import relpath
from pathlib import Path
from typing import Any

import griffe
from latex2mathml.converter import convert
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from gough.core.options import REQUIRED, options_of

sys.path.insert(0, str(Path(__file__).parent))
import catalogue

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "gough"
OUTSIDE = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
}
HOME = {page: ROOT / name for name, page in OUTSIDE.items()}
REAL_RESULTS = (
    "<!-- results: the first table of real-robots.md, put here when the site is built -->"
)
# What the extension Arithmatex makes of $a$ and $$b$$.
FORMULA = re.compile(
    r'<(?P<tag>span|div) class="arithmatex">\\(?P<open>[(\[])(?P<latex>.*?)\\[)\]]</(?P=tag)>',
    re.DOTALL,
)
LINK = re.compile(
    r"(?<=\]\()([^)\s#:]+)(?=[)#])"
)  # target of [text](target#anchor); none with a scheme


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages from outside, the reference, and the project's files that pages link to."""
    for name, page in OUTSIDE.items():
        text = (ROOT / name).read_text(encoding="utf-8")
        alone = "---\nhide: [navigation]\n---\n" if page == "index.md" else ""
        files.append(File.generated(config, page, content=alone + text))
    for room in sorted(path.parent.name for path in SOURCE.glob("*/__init__.py")):
        files.append(File.generated(config, f"reference/{room}.md", content=reference(room)))
    linked = {target for file in files.documentation_pages() for target in targets(file)}
    for target in sorted(linked):
        uri = address(target)
        if files.get_file_from_path(uri) is None:
            files.append(File.generated(config, uri, content=shown(target)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Turn links between files of the project into links between pages."""
    uri = page.file.src_uri

    def moved(match: re.Match[str]) -> str:
        target = file_behind(match[0], uri)
        return (
            match[0]
            if target is None
            else Path(relpath(address(target), Path(uri).parent)).as_posix()
        )

    return LINK.sub(moved, with_generated(markdown))


def with_generated(markdown: str) -> str:
    """Return a page with what is made when the site is built in place of its marks."""
    if catalogue.BEGIN in markdown:
        markdown = markdown.replace(catalogue.BEGIN, catalogue.catalogue())
    if REAL_RESULTS in markdown:
        table = first_table((ROOT / "docs" / "real-robots.md").read_text(encoding="utf-8"))
        markdown = markdown.replace(REAL_RESULTS, table)
    return markdown


def first_table(text: str) -> str:
    """Return the first table of a page."""
    lines = text.splitlines()
    start = next(k for k, line in enumerate(lines) if line.startswith("|"))
    rows = []
    for line in lines[start:]:
        if not line.startswith("|"):
            break
        rows.append(line)
    return "\n".join(rows)


def on_page_content(page_html: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Turn formulas into MathML, which browsers draw without a script."""
    return FORMULA.sub(mathml, page_html)


def mathml(match: re.Match[str]) -> str:
    """Return a formula as MathML; its LaTeX stays as the text that is copied and read out."""
    latex = html.unescape(match["latex"]).strip()
    display = "block" if match["open"] == "[" else "inline"
    element = convert(latex, display=display)
    element = element.replace("<math ", f'<math aria-label="{html.escape(latex)}" ', 1)
    if display == "block":
        return f'<span class="formula">{element}</span>'  # scrolls where it is too wide
    return element


def targets(file: File) -> Iterator[Path]:
    """Yield the files of the project that a page links to."""
    for match in LINK.finditer(file.content_string):
        target = file_behind(match[0], file.src_uri)
        if target is not None:
            yield target


def file_behind(target: str, uri: str) -> Path | None:
    """Return the file that a link on a page means, if there is one."""
    path = (HOME.get(uri, ROOT / "docs" / uri).parent / target).resolve()
    return path if path.is_file() and path.is_relative_to(ROOT) else None


def address(path: Path) -> str:
    """Return where a file of the project is in the site."""
    name = path.relative_to(ROOT).as_posix()
    if name in OUTSIDE:
        return OUTSIDE[name]
    return name.removeprefix("docs/") if name.startswith("docs/") else f"files/{name}.md"


def shown(path: Path) -> str:
    """Return a page that shows a file; the search leaves it out."""
    name, language = path.relative_to(ROOT).as_posix(), path.suffix.lstrip(".") or "text"
    return (
        "---\nsearch: {exclude: true}\nhide: [navigation, toc]\n---\n"
        f"# {name}\n\n````{language}\n{path.read_text(encoding='utf-8')}````\n"
    )


def reference(room: str) -> str:
    """Return the page of a room: its own docstring, then every file of it."""
    modules = sorted(
        path.relative_to(SOURCE.parent).with_suffix("").as_posix().replace("/", ".")
        for path in (SOURCE / room).rglob("*.py")
        if not path.name.startswith("__")
    )
    head = [
        "---\nsearch: {boost: 0.5}\n---",
        f"# {room}",  # the guide before the reference
        f"::: gough.{room}\n    options: {{show_root_heading: false, members: false}}",
    ]
    return "\n\n".join([*head, *(f"::: {module}" for module in modules)]) + "\n"


class Fields(griffe.Extension):
    """Show fields with what stands beside them: `time: FloatArray  # (t,) [s]`, or as the option
    they declare.
    """

    def on_attribute_instance(self, *, attr: griffe.Attribute, **_: Any) -> None:
        """Turn the declaration of an option into a default and a docstring, and a comment into a
        docstring.
        """
        if not isinstance(attr.parent, griffe.Class):
            return
        if isinstance(attr.value, griffe.ExprCall) and str(attr.value.function) == "option":
            option = options_of(getattr(import_module(attr.module.path), attr.parent.name))[
                attr.name
            ]
            attr.value = None if option.default is REQUIRED else repr(option.default)
            attr.docstring = griffe.Docstring(option.help, parent=attr)
        elif attr.docstring is None and "  # " in attr.source:
            attr.docstring = griffe.Docstring(
                attr.source.rpartition("  # ")[2].strip(), parent=attr
            )
