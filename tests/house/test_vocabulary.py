"""The phrases that docs/glossary.md bans occur neither in the source nor in the documentation."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
GLOSSARY = ROOT / "docs" / "glossary.md"


def banned_phrases() -> list[str]:
    """Return the first column of the last table of the glossary."""
    _, _, section = GLOSSARY.read_text(encoding="utf-8").partition("## Phrases")
    rows = re.findall(r"^\| (.+?) \|", section, flags=re.MULTILINE)
    return rows[1:]


PHRASES = banned_phrases()
BANNED = re.compile("|".join(rf"\b{re.escape(phrase)}\b" for phrase in PHRASES), re.IGNORECASE)


def files() -> list[str]:
    """Return the paths of the source and of the documentation."""
    source = [path for path in (ROOT / "src").rglob("*") if path.suffix in (".py", ".html", ".js")]
    pages = [*ROOT.glob("docs/*.md"), ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
    names = [path.relative_to(ROOT).as_posix() for path in (*source, *pages) if path != GLOSSARY]
    return sorted(names)


def on_one_line(text: str) -> str:
    """Return a text without the line breaks inside strings, comments and paragraphs."""
    joined = re.sub(r'"\n\s*[fr]?"', "", text)
    joined = re.sub(r"\n\s*#\s*", " ", joined)
    return re.sub(r"\s+", " ", joined)


def test_the_glossary_lists_phrases_and_finds_them_across_lines() -> None:
    assert len(PHRASES) > 15
    assert "told apart" in PHRASES
    for text in ("are told\n    apart by", '"are told "\n    f"apart"', "# are told\n    # apart"):
        assert BANNED.search(on_one_line(text))
    assert not BANNED.search("the left leg is told to part")


def test_no_banned_phrase_is_used() -> None:
    for name in files():
        text = on_one_line((ROOT / name).read_text(encoding="utf-8"))
        used = sorted({match[0].lower() for match in BANNED.finditer(text)})
        assert not used, f"{name}: docs/glossary.md says what to write instead of {used}"
