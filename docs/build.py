"""Build the documentation: every page of docs/ and the README as HTML under build/docs.

Fails if a relative link leads nowhere. Files that pages link to are copied along, so the folder can be moved.
"""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Sequence
from html import escape
from itertools import pairwise
from pathlib import Path, PurePosixPath

from markdown_it import MarkdownIt
from markdown_it.token import Token

ROOT = Path(__file__).resolve().parents[1]
FIRST = ("quick-start", "robot-file", "logs", "estimators", "conventions", "study", "virtual-robot", "papers")
PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title><style>
body {{ font: 16px/1.55 system-ui, sans-serif; max-width: 62rem; margin: 0 auto; padding: 1rem; color: #1b1f24 }}
nav {{ border-bottom: 1px solid #d0d7de; padding-bottom: .5rem; font-size: .9rem }}
h1, h2, h3 {{ line-height: 1.25 }}
a {{ color: #0b5cad }}
code {{ font: .9em/1.45 ui-monospace, monospace; background: #f3f4f6; padding: .1em .3em; border-radius: 3px }}
.short {{ white-space: nowrap }}
pre {{ background: #f3f4f6; padding: .8rem; overflow-x: auto; border-radius: 5px }}
pre code {{ padding: 0; font-size: .8em }}
table {{ border-collapse: collapse; display: block; overflow-x: auto }}
td, th {{ border: 1px solid #d0d7de; padding: .3rem .6rem; text-align: left; vertical-align: top }}
img {{ max-width: 100% }}
</style></head><body><nav>{navigation}</nav>
{body}</body></html>
"""


def pages() -> list[Path]:
    """Return the README and all pages, those to be read first in front."""
    rank = {name: k for k, name in enumerate(FIRST)}
    found = (ROOT / "docs").glob("*.md")
    return [ROOT / "README.md", *sorted(found, key=lambda page: (rank.get(page.stem, len(rank)), page.stem))]


def parse(page: Path) -> list[Token]:
    """Return the tokens of a page, headings with an `id` to link to."""
    tokens = MarkdownIt("commonmark", {"html": False}).enable("table").parse(page.read_text(encoding="utf-8"))
    for heading, text in pairwise(tokens):
        if heading.type == "heading_open":
            heading.attrSet("id", slug(text.content))
    return tokens


def slug(heading: str) -> str:
    """Return a heading's anchor, as GitHub makes it."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def links(tokens: list[Token]) -> list[tuple[Token, str]]:
    """Return all links and pictures with the name of the attribute that holds their target."""
    inside = [child for token in tokens for child in token.children or ()]
    return [(t, {"link_open": "href", "image": "src"}[t.type]) for t in inside if t.type in ("link_open", "image")]


def broken_links(page: Path) -> list[str]:
    """Return the relative links of a page that lead to no file or no heading."""
    tokens = parse(page)
    found = []
    for token, attribute in links(tokens):
        target = str(token.attrGet(attribute))
        if "://" in target or target.startswith("mailto:"):
            continue
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        headings = parse(file) if file.suffix == ".md" and file.is_file() else []
        if not file.is_file() or (anchor and anchor not in [t.attrGet("id") for t in headings]):
            found.append(f"{page.relative_to(ROOT)}: '{target}' leads nowhere")
    return found


def build(folder: Path) -> list[str]:
    """Write all pages into a folder; returns broken links."""
    problems = [problem for page in pages() for problem in broken_links(page)]
    if problems:
        return problems
    folder.mkdir(parents=True, exist_ok=True)
    titles = {page: next(t.content for t in parse(page) if t.type == "inline") for page in pages()}
    navigation = " · ".join(f'<a href="{_name(page)}">{escape(title)}</a>' for page, title in titles.items()
                            if not page.name.startswith("paper-"))
    for page in pages():
        tokens = parse(page)
        for token, attribute in links(tokens):
            target, hash_, anchor = str(token.attrGet(attribute)).partition("#")
            if "://" in target or not target:
                continue
            file = (page.parent / target).resolve()
            if file in titles:
                token.attrSet(attribute, _name(file) + hash_ + anchor)
            else:
                copy = PurePosixPath("files", *file.relative_to(ROOT).parts)
                (folder / copy).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(file, folder / copy)
                token.attrSet(attribute, str(copy))
        renderer = MarkdownIt("commonmark", {"html": False}).enable("table")
        renderer.add_render_rule("code_inline", _code)
        body = renderer.renderer.render(tokens, renderer.options, {})
        (folder / _name(page)).write_text(
            PAGE.format(title=escape(titles[page]), navigation=navigation, body=body), encoding="utf-8")
    return []


def _code(renderer: object, tokens: Sequence[Token], at: int, *_: object) -> str:
    """Render code in a line: long dotted names may break after a dot, to fit tables; short pieces not at all."""
    text = escape(tokens[at].content)
    if text.startswith("gough."):
        return f"<code>{text.replace('.', '.<wbr>')}</code>"
    return f"<code>{text}</code>" if len(text) > 25 else f'<code class="short">{text}</code>'


def _name(page: Path) -> str:
    return "index.html" if page.name == "README.md" else page.with_suffix(".html").name


if __name__ == "__main__":
    found = build(ROOT / "build" / "docs")
    print("\n".join(found) or f"wrote {len(pages())} pages; open build/docs/index.html")
    sys.exit(bool(found))
