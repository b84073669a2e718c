"""The report in a real browser: it opens without a word, moves, zooms, reads out and prints."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from browser import CHROMIUM, Browser
from gough.app.report import write_report

sys.path.insert(0, str(Path(__file__).parent))
from examples import hostile, result, robot

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed")
PICTURE = "document.querySelector('[data-scene=robot] canvas').toDataURL()"


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    opened = Browser(tmp_path_factory.mktemp("chromium") / "profile")
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("reports")
    for name in ("five_bar", "serial6", "redundant", "palida"):
        write_report(robot(name), result(name), folder / f"{name}.html")
    write_report(robot("five_bar"), hostile(), folder / "hostile.html")
    return folder


@pytest.mark.parametrize("name", ["palida", "serial6", "redundant", "five_bar"])
def test_it_opens_silently_and_shows_everything(browser: Browser, reports: Path, name: str) -> None:
    browser.open(reports / f"{name}.html")
    assert browser.complaints == []
    assert browser.requests == [(reports / f"{name}.html").as_uri()]
    sizes = browser.run(
        "[...document.querySelectorAll('table, svg.chart, canvas')].map(e => "
        "e.getBoundingClientRect())"
        ".filter(r => r.width < 20 || r.height < 6).length"
    )
    assert sizes == 0
    assert browser.run("document.querySelectorAll('svg.effort').length") == 2 * len(
        robot(name).rows
    )
    assert browser.run("document.querySelectorAll('table.parameters tbody tr').length") == len(
        result(name).estimate
    )
    assert browser.run("document.documentElement.scrollWidth <= innerWidth")
    colours = browser.run("""(() => { const c = document.querySelector('[data-scene=robot] canvas');
        const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data, seen = new Set();
        for (let i = 0; i < d.length; i += 40) if (d[i + 3] > 200) seen.add((d[i] << 16) | (d[i + 1] << 8) | d[i + 2]);
        return seen.size; })()""")
    assert colours > 20


@pytest.mark.parametrize("name", ["palida", "five_bar"])
def test_it_fits_a_phone(browser: Browser, reports: Path, name: str) -> None:
    browser.call(
        "Emulation.setDeviceMetricsOverride",
        width=390,
        height=844,
        deviceScaleFactor=1,
        mobile=True,
    )
    try:
        browser.open(reports / f"{name}.html")
        assert browser.run("document.documentElement.scrollWidth") <= 390
    finally:
        browser.call("Emulation.clearDeviceMetricsOverride")


# Time of the frames drawn in a second, gaps above 0.2 s shortened as the player does; time shown
PACE = """new Promise(done => {
    const shown = () => Number(document.querySelector('output').textContent.replace(' s', ''));
    let before = null, first = null, passed = 0;
    const frame = (now) => {
        if (before === null) first = shown();
        else passed += Math.min(now - before, 200) / 1000;
        before = now;
        if (passed < 1) requestAnimationFrame(frame);
        else done([passed, shown() - first]);
    };
    requestAnimationFrame(frame);
})"""


def test_the_animation_moves_until_it_is_paused(browser: Browser, reports: Path) -> None:
    browser.open(reports / "palida.html")
    picture = browser.run(PICTURE)
    passed, shown = browser.run(PACE)
    length = float(np.ptp(result("palida").fits[0].time))
    assert abs(shown % length - passed) < 0.22  # a frame more or less, at the pace of the log
    assert browser.run(PICTURE) != picture
    browser.run("document.querySelector('.play').click()")
    still = browser.run(PICTURE)
    browser.wait(0.3)
    assert browser.run(PICTURE) == still
    browser.run("document.querySelector('.play').click()")
    browser.run(PACE)
    assert browser.run(PICTURE) != still


def test_the_slider_shows_the_robot_at_its_time(browser: Browser, reports: Path) -> None:
    browser.open(reports / "palida.html")
    pictures = []
    last = result("palida").fits[0].time[-1]
    for value, time in ((0, 0.0), (500, last / 2), (0, 0.0)):
        browser.run(
            f"(() => {{ const s = document.querySelector('input'); s.value = {value};"
            "s.dispatchEvent(new Event('input')); })()"
        )
        pictures.append(browser.run(PICTURE))
        shown = browser.run("document.querySelector('output').textContent")
        assert float(shown.removesuffix(" s")) == pytest.approx(time, abs=0.006)
    assert pictures[0] == pictures[2] != pictures[1]


def test_the_picture_turns_with_the_mouse(browser: Browser, reports: Path) -> None:
    browser.open(reports / "five_bar.html")
    browser.run("document.querySelector('.play').click()")
    before = browser.run(PICTURE)
    drag(browser, "[data-scene=robot] canvas", 0.3, 0.6)
    assert browser.run(PICTURE) != before


def test_an_effort_picture_is_read_and_zoomed(browser: Browser, reports: Path) -> None:
    browser.open(reports / "five_bar.html")
    fit = result("five_bar").fits[1]  # held-out recordings come first
    note = "document.querySelector('svg.effort .note').textContent"
    usual = browser.run(note)
    move(browser, "svg.effort .window", 0.4)
    words = browser.run(note).replace("−", "-")
    time, measured, predicted, residual = (float(x) for x in re.findall(r"-?\d+\.?\d*", words))
    k = int(np.abs(fit.time - time).argmin())
    assert abs(fit.time[k] - time) < 2e-3
    reach = np.ptp(fit.measured[:, 0])
    assert measured == pytest.approx(fit.measured[k, 0], abs=3e-3 * reach)
    assert predicted == pytest.approx(fit.predicted[k, 0], abs=3e-3 * reach)
    assert residual == pytest.approx(fit.measured[k, 0] - fit.predicted[k, 0], abs=3e-3 * reach)
    drag(browser, "svg.effort .window", 0.25, 0.5)
    boxes = (
        "[...document.querySelectorAll('.efforts')].map(g => [...g.querySelectorAll('.window')]"
        ".map(w => w.getAttribute('viewBox')))"
    )
    zoomed, other = browser.run(boxes)
    assert len(set(zoomed)) == 1  # both motors of the recording together
    start, _, width, _ = (float(x) for x in zoomed[0].split())
    assert (start, width) == pytest.approx((1000, 1000), abs=20)
    assert set(other) == {"0 0 4000 1000"}
    ticks = browser.run("[...document.querySelectorAll('svg.effort .x-ticks')][0].textContent")
    assert ticks.startswith("0.5")
    browser.run(
        "document.querySelector('svg.effort').dispatchEvent(new MouseEvent('dblclick', {bubbles: "
        "true}))"
    )
    assert set(browser.run(boxes)[0]) == {"0 0 4000 1000"}
    browser.run(
        "document.querySelector('svg.effort').dispatchEvent(new PointerEvent('pointerleave'))"
    )
    assert browser.run(note) == usual


def test_pointing_at_the_correlation_reads_it(browser: Browser, reports: Path) -> None:
    browser.open(reports / "five_bar.html")
    estimate = result("five_bar").estimate
    p = len(estimate)
    browser.run(f"""(() => {{ const m = document.querySelector('.correlation');
        const [margin, cell] = m.dataset.cell.split(' ').map(Number);
        const at = new DOMPoint(margin + 0.5 * cell, ({p} - 0.5) * cell).matrixTransform(m.getScreenCTM());
        m.dispatchEvent(new PointerEvent('pointermove', {{clientX: at.x, clientY: at.y}})); }})()""")
    text = browser.run("document.querySelector('.readout').textContent").replace("−", "-")
    assert (
        text == f"{estimate.parameters[-1]} and {estimate.parameters[0]}: "
        f"{estimate.correlation[-1, 0]:.3f}"
    )


def test_it_prints_as_it_is_with_page_numbers(
    browser: Browser, reports: Path, tmp_path: Path
) -> None:
    browser.open(reports / "serial6.html")
    browser.run("document.querySelectorAll('details').forEach(d => { d.open = false; })")
    browser.run(
        "addEventListener('beforeprint', () => { window.closed_on_paper = "
        "[...document.querySelectorAll('details')].every(d => !d.open); })"
    )
    browser.pdf(tmp_path / "closed.pdf")
    assert browser.run("window.closed_on_paper")
    content = (tmp_path / "closed.pdf").read_bytes()
    assert content.startswith(b"%PDF")
    assert 3 <= pages(content) <= 12
    assert "counter(page)" in browser.run("document.querySelector('style').textContent")
    assert browser.complaints == []


def test_parameters_come_before_the_third_page(
    browser: Browser, reports: Path, tmp_path: Path
) -> None:
    browser.open(reports / "serial6.html")
    browser.run(
        "(() => { const first = document.querySelector('table.parameters tbody tr');"
        "first.style.breakAfter = 'page';"
        "let after = false;"
        "for (const e of document.querySelectorAll('main > section, footer')) {"
        " if (after) e.style.display = 'none';"
        " if (e.contains(first)) { after = true; let passed = false;"
        "  for (const r of e.querySelectorAll('tbody tr, h3, details, ol')) {"
        "   if (passed) r.style.display = 'none'; if (r === first) passed = true; } } } })()"
    )
    browser.pdf(tmp_path / "start.pdf")
    assert pages((tmp_path / "start.pdf").read_bytes()) <= 2


def pages(pdf: bytes) -> int:
    """Return the number of pages of a PDF that Chromium wrote."""
    return len(re.findall(rb"/Type\s*/Page\b", pdf))


def test_hostile_names_do_nothing(browser: Browser, reports: Path) -> None:
    browser.open(reports / "hostile.html")
    browser.wait(0.2)
    assert browser.run("typeof window.hacked") == "undefined"
    assert browser.run("document.querySelectorAll('img').length") == 0
    assert browser.complaints == []


def centre(browser: Browser, selector: str) -> dict[str, float]:
    box: dict[str, float] = browser.run(
        f"(() => {{ const e = document.querySelector('{selector}'); e.scrollIntoView({{block: 'center'}});"
        "const r = e.getBoundingClientRect(); return {x: r.x, y: r.y, width: r.width, height: "
        "r.height}; })()"
    )
    return box


def move(
    browser: Browser, selector: str, share: float, kind: str = "mouseMoved", **more: object
) -> None:
    box = centre(browser, selector)
    browser.call(
        "Input.dispatchMouseEvent",
        type=kind,
        x=box["x"] + share * box["width"],
        y=box["y"] + 0.5 * box["height"],
        **more,
    )


def drag(browser: Browser, selector: str, start: float, end: float) -> None:
    move(browser, selector, start)
    move(browser, selector, start, "mousePressed", button="left", clickCount=1)
    move(browser, selector, (start + end) / 2, button="left", buttons=1)
    move(browser, selector, end, button="left", buttons=1)
    move(browser, selector, end, "mouseReleased", button="left", clickCount=1)


# Every text and what is behind it, as contrast by WCAG 2: (L1 + 0.05) / (L2 + 0.05) of relative
# luminances.
CONTRASTS = """(() => {
  const pen = new OffscreenCanvas(1, 1).getContext('2d', {willReadFrequently: true});
  const rgb = (text) => { pen.clearRect(0, 0, 1, 1); pen.fillStyle = text; pen.fillRect(0, 0, 1, 1);
                          return [...pen.getImageData(0, 0, 1, 1).data]; };
  const light = ([r, g, b]) => [r, g, b].map((v) => v / 255).map((v) => v <= 0.04045 ? v / 12.92
      : ((v + 0.055) / 1.055) ** 2.4).reduce((s, v, i) => s + v * [0.2126, 0.7152, 0.0722][i], 0);
  const behind = (e) => { for (; e; e = e.parentElement) { const c = rgb(getComputedStyle(e).backgroundColor);
                                                          if (c[3] > 250) return c; } return [255, 255, 255, 255]; };
  const found = {};
  document.querySelectorAll('details').forEach((d) => { d.open = true; });
  for (const e of document.querySelectorAll('body *')) {
    if (![...e.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim())) continue;
    if (!e.getClientRects().length) continue;
    if (['TITLE', 'SCRIPT', 'STYLE', 'title'].includes(e.tagName)) continue;
    const style = getComputedStyle(e), svg = e.namespaceURI.includes('svg');
    const a = light(rgb(svg ? style.fill : style.color)), b = light(behind(e));
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < 4.5) found[e.tagName + '.' + (e.getAttribute('class') || e.parentElement.className) + ' '
                           + e.textContent.trim().slice(0, 20)] = ratio;
  }
  return found;
})()"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", ["palida", "five_bar", "hostile"])
def test_every_text_stands_out_from_what_is_behind_it(
    browser: Browser, reports: Path, name: str, scheme: str
) -> None:
    browser.call(
        "Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}]
    )
    try:
        browser.open(reports / f"{name}.html")
        paper = browser.run("getComputedStyle(document.body).backgroundColor")
        assert (paper == "rgb(255, 255, 255)") == (scheme == "light")
        assert browser.run(CONTRASTS) == {}
        assert browser.complaints == []
    finally:
        browser.call("Emulation.setEmulatedMedia", features=[])


def press(browser: Browser, key: str) -> None:
    for kind in ("keyDown", "keyUp"):
        browser.call("Input.dispatchKeyEvent", type=kind, key=key, code=key)


def test_everything_can_be_reached_and_read_with_keys(browser: Browser, reports: Path) -> None:
    browser.open(reports / "five_bar.html")
    browser.run("document.querySelector('.play').click()")
    before = browser.run(PICTURE)
    browser.run("document.querySelector('[data-scene=robot] canvas').focus()")
    press(browser, "ArrowLeft")
    assert browser.run(PICTURE) != before
    note = "document.querySelector('svg.effort .note').textContent"
    usual = browser.run(note)
    browser.run("document.querySelector('svg.effort').focus()")
    press(browser, "ArrowRight")
    first = browser.run(note)
    press(browser, "ArrowRight")
    assert len({usual, first, browser.run(note)}) == 3
    whole = browser.run("document.querySelector('svg.effort .window').getAttribute('viewBox')")
    browser.run(
        "document.querySelector('svg.effort').dispatchEvent(new KeyboardEvent('keydown', {key: "
        "'+'}))"
    )
    assert (
        browser.run("document.querySelector('svg.effort .window').getAttribute('viewBox')") != whole
    )
    press(browser, "Escape")
    assert (
        browser.run("document.querySelector('svg.effort .window').getAttribute('viewBox')") == whole
    )
    browser.run("document.querySelector('.correlation').focus()")
    press(browser, "ArrowDown")
    names = result("five_bar").estimate.parameters
    assert browser.run("document.querySelector('.readout').textContent").startswith(
        f"{names[1]} and {names[0]}: "
    )
    unreached = browser.run(
        "[...document.querySelectorAll('*')].filter((e) => e.scrollWidth > e.clientWidth + 1 && "
        "['auto', 'scroll'].includes(getComputedStyle(e).overflowX) && e.tabIndex < 0 && "
        "!e.querySelector('a, button')).length"
    )
    assert unreached == 0
