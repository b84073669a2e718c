"""The description for a package index: README.md with links that lead to the repository.

Links of the README are relative, for the repository and the documentation. An index shows the page
alone, so they become absolute when a distribution is built; the address stands in pyproject.toml.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from setuptools import setup

ROOT = Path(__file__).parent
LINK = re.compile(r"(!?)\[([^\]]*)\]\((?!https?://|#)([^)\s]+)\)")


def with_absolute_links(text: str, repository: str) -> str:
    """Return a page with its relative links and pictures led to a repository."""

    def absolute(link: re.Match[str]) -> str:
        picture, label, target = link.groups()
        view = "raw" if picture else "blob"
        return f"{picture}[{label}]({repository}/{view}/main/{target})"

    return LINK.sub(absolute, text)


def description() -> str:
    """Return the README as an index shows it."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    return with_absolute_links(readme, project["urls"]["Repository"])


setup(long_description=description(), long_description_content_type="text/markdown")
