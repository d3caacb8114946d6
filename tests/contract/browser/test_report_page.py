"""The page of a rollout in a real browser: it loads nothing, runs nothing, and is readable wherever it is shown.

With NODEUPGRADE_PICTURES=DIRECTORY, the pictures are kept there to be looked at.
"""

import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from nodeupgrade.cli.pages.html import html
from nodeupgrade.cli.reports.rollout import rollout_report
from tests.builders.finished_rollouts import BEGAN, finished_rollout, finished_tasks
from tests.contract.browser import chromium
from tests.contract.browser.chromium import Browser
from tests.golden.cli.cluster import HERE

pytestmark = [pytest.mark.real, pytest.mark.timeout(300)]

WIDTHS = (360, 800, 1400)
SCHEMES = {"light": "rgb(255, 255, 255)", "dark": "rgb(18, 22, 28)"}

TEXTS_OUTSIDE = """[...document.querySelectorAll('.picture text')].filter(text => {
  const own = text.getBoundingClientRect(), all = text.ownerSVGElement.getBoundingClientRect();
  return own.left < all.left - 1 || own.right > all.right + 1 || own.bottom > all.bottom + 1;
}).map(text => text.textContent)"""
FAINTEST = """(() => {
  const parts = colour => colour.match(/[0-9.]+/g).slice(0, 3).map(Number);
  const light = colour => parts(colour).map(c => (c /= 255) <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
    .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
  const behind = element => { for (; element; element = element.parentElement) {
    const colour = getComputedStyle(element).backgroundColor; if (!colour.endsWith(', 0)')) return colour; }
    return 'rgb(255, 255, 255)'; };
  return Math.min(...[...document.querySelectorAll('h1, h2, p, td, th, dt, dd, li b, li span, figcaption span, text')]
    .map(element => { const style = getComputedStyle(element), svg = element.tagName === 'text';
      const [a, b] = [light(svg ? style.fill : style.color), light(behind(element))].sort((x, y) => y - x);
      return (a + 0.05) / (b + 0.05); }));
})()"""
"""The least contrast of a text with what is behind it."""


def large() -> str:
    tasks = finished_tasks(300, at_once=12, failed=(7, 200))
    return html(rollout_report(finished_rollout(tasks, name="large"), tasks, BEGAN))


@pytest.fixture(scope="module", params=["running", "nodes-gone", "large"])
def page(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("page") / f"{request.param}.html"
    golden = HERE / f"report-{request.param}.html"
    file.write_text(large() if request.param == "large" else golden.read_text("utf-8"), "utf-8")
    return file


@pytest.fixture
async def browser(page: Path) -> AsyncIterator[Browser]:
    if (binary := chromium.program()) is None:
        pytest.skip("no browser: apt-get install chromium")
    async with chromium.running(binary) as found:
        await found.open(page)
        yield found


async def test_the_page_is_readable_in_every_width_and_colour_and_in_print(browser: Browser, page: Path) -> None:
    kept = Path(os.environ.get("NODEUPGRADE_PICTURES") or page.parent)
    for scheme, ground in SCHEMES.items():
        for width in WIDTHS:
            await browser.look(width=width, scheme=scheme)
            picture = await browser.screenshot()
            (kept / f"{page.stem}-{width}-{scheme}.png").write_bytes(picture)
            assert await browser.value("getComputedStyle(document.body).backgroundColor") == ground
            assert await browser.value("document.documentElement.scrollWidth") == width, "it must not be moved sideways"
            assert await browser.value(TEXTS_OUTSIDE) == []
            assert await browser.value(FAINTEST) >= 4.5, "what WCAG 2 asks for"
            assert len(picture) > 20_000
    await browser.look(width=1000, media="print", scheme="dark")
    assert await browser.value("getComputedStyle(document.body).backgroundColor") == SCHEMES["light"]
    assert await browser.value(FAINTEST) >= 4.5
    printed = await browser.pdf()
    (kept / f"{page.stem}.pdf").write_bytes(printed)
    assert printed.startswith(b"%PDF")


async def test_the_page_loads_nothing_and_a_browser_objects_to_nothing(browser: Browser, page: Path) -> None:
    assert {each["request"]["url"] for each in browser.reported("Network.requestWillBeSent")} == {page.as_uri()}
    assert browser.reported("Log.entryAdded") == []
    assert await browser.value("document.scripts.length + document.links.length + document.images.length") == 0
    assert await browser.value("document.compatMode") == "CSS1Compat"


async def test_a_script_in_the_page_would_not_run(browser: Browser) -> None:
    await browser.value("document.body.append(document.createRange().createContextualFragment("
                        "'<script>document.title = \"pwned\"</script><img src=https://evil.example/x>'))")  # fmt: skip

    assert await browser.value("document.title") != "pwned"
    refused = [each["entry"]["text"] for each in browser.reported("Log.entryAdded")]
    assert [text for text in refused if "Content Security Policy" in text]
