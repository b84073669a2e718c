"""The site that `make docs` builds: every link leads somewhere, nothing comes from elsewhere, the
search finds.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from browser import CHROMIUM, Browser
from documentation import PAGES, ROOT

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        find_spec("mkdocs") is None or find_spec("mkdocstrings") is None,
        reason="the extra 'docs' is not installed",
    ),
]
NAMES = {"README": "index", "CONTRIBUTING": "contributing", "CHANGELOG": "changelog"}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    if CHROMIUM is None:
        pytest.skip("chromium is not installed")
    opened = Browser(tmp_path_factory.mktemp("chromium") / "profile")
    yield opened
    opened.close()


def test_every_page_and_room_is_there(site: Path) -> None:
    names = {path.relative_to(site).as_posix() for path in site.rglob("*.html")}
    assert {f"{NAMES.get(name, name)}.html" for name in PAGES} <= names
    assert {
        f"reference/{path.parent.name}.html"
        for path in (ROOT / "src" / "gough").glob("*/__init__.py")
    } <= names
    assert "files/examples/linear_delta.toml.html" in names


def test_links_lead_to_files_and_anchors(site: Path) -> None:
    """Read back from the HTML, where links were rewritten and pages made."""
    pages = {
        path.resolve(): path.read_text(encoding="utf-8")
        for path in site.rglob("*.html")
        if path.name != "404.html"
    }
    anchors = {path: set(re.findall(r'\bid="([^"]+)"', text)) for path, text in pages.items()}
    seen = 0
    for path, text in pages.items():
        for target in re.findall(r'(?:href|src)="([^"]+)"', text):
            file, _, anchor = target.partition("#")
            if "://" in target or target.startswith("data:"):
                continue
            place = (path.parent / file).resolve() if file else path
            assert place.is_file(), f"{path.name}: {target}"
            assert not anchor or place not in anchors or anchor in anchors[place], (
                f"{path.name}: {target}"
            )
            seen += 1
    assert seen > 1000


def test_nothing_is_loaded_from_elsewhere(site: Path) -> None:
    for path in site.rglob("*.html"):
        text = path.read_text(encoding="utf-8")
        loaded = re.findall(r'<(?:script|img|iframe)\b[^>]*\bsrc="([^"]+)"', text)
        loaded += re.findall(
            r'<link\b(?![^>]*rel="(?:canonical|next|prev)")[^>]*\bhref="([^"]+)"', text
        )
        assert [address for address in loaded if "://" in address] == [], path.name


def test_formulas_are_drawn_by_the_browser_itself(site: Path) -> None:
    text = (site / "theory.html").read_text(encoding="utf-8")
    assert text.count("<math ") > 50
    assert "arithmatex" not in text
    assert "merror" not in text


def test_errors_of_the_source_are_on_the_page_of_troubleshooting(site: Path) -> None:
    text = (site / "troubleshooting.html").read_text(encoding="utf-8")
    assert "all logs left out: " in text or "robots have logs that can be used" in text
    assert text.count("<tr>") > 350


def test_results_of_real_logs_are_in_the_gallery(site: Path) -> None:
    text = (site / "gallery.html").read_text(encoding="utf-8")
    assert "best of a grid" in text
    assert "<!-- results" not in text


def test_notebooks_can_be_downloaded(site: Path) -> None:
    names = {path.name for path in (site / "notebooks").glob("*.ipynb")}
    assert {"quick-start.ipynb", "fleet.ipynb"} <= names


def test_docstrings_are_in_the_reference(site: Path) -> None:
    page = (site / "reference" / "app.html").read_text(encoding="utf-8")
    assert 'id="gough.app.identify.identify"' in page
    assert "Harmonics of each coordinate." in (site / "reference" / "excitation.html").read_text(
        encoding="utf-8"
    )


@pytest.mark.parametrize("width", [1366, 390])
def test_a_page_fits_the_screen_and_opens_silently(
    site: Path, browser: Browser, width: int
) -> None:
    browser.call(
        "Emulation.setDeviceMetricsOverride",
        width=width,
        height=800,
        deviceScaleFactor=1,
        mobile=width < 700,
    )
    for name in ("index", "quick-start", "study", "architecture", "api", "reference/estimators"):
        browser.open(site / f"{name}.html")
        assert browser.complaints == []
        assert [
            address for address in browser.requests if not address.startswith(("file:", "data:"))
        ] == []
        assert browser.run("document.documentElement.scrollWidth <= innerWidth"), name


@pytest.mark.parametrize("page", ["index.html", "reference/engine.html"])
def test_the_search_finds_from_a_disk(site: Path, browser: Browser, page: str) -> None:
    """Without a server browsers start no worker, which the search is."""
    browser.open(site / page)
    browser.run("""(() => { const field = document.querySelector('.md-search__input'); field.focus();
        field.value = 'drive gains'; field.dispatchEvent(new KeyboardEvent('keyup', {bubbles: true})); })()""")
    found = "[...document.querySelectorAll('.md-search-result__link')].map(e => e.href)"
    for _ in range(50):
        if browser.run(found):
            break
        browser.wait(0.2)
    assert any(
        "estimators.html" in address and address.endswith("#drive-gains")
        for address in browser.run(found)
    )
