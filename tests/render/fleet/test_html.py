"""The page of `fleet report` in a real browser: 1,000 nodes, filtered by what stands in folded sets, too."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Callable

import pytest
from tests.fleet.carriers import ready, report
from tests.support.browser import Browser, find

from npudoctor.fleet.merge import Merger
from npudoctor.fleet.reading import Found
from npudoctor.render.fleet.html import fleet_html

pytestmark = pytest.mark.slow

SHOWN = "[...document.querySelectorAll('[data-row]')].filter(row => !row.hidden).map(row => row.textContent)"
FILTER = """(word => {
    const box = document.getElementById('filter');
    box.value = word;
    box.dispatchEvent(new Event('input'));
})"""


def page(reports: list[Any], expected: tuple[str, ...] = ()) -> str:
    merger = Merger(expected)
    for made in reports:
        merger.add(Found(made, "-"))
    return fleet_html(merger.fleet())


@pytest.fixture(scope="module")
def chromium(tmp_path_factory: pytest.TempPathFactory, lack: Callable[[str], None]) -> Iterator[Browser]:
    program = find()
    if program is None:
        lack("no Chromium")
    with Browser(program or "", tmp_path_factory.mktemp("browser")) as found:
        yield found


@pytest.fixture
def browser(chromium: Browser) -> Browser:
    """A page of its own for each test."""
    chromium.anew()
    return chromium


def test_a_thousand_nodes_open_and_are_filtered(browser: Browser, tmp_path: Path) -> None:
    made = [report(f"node{n}") if n % 7 == 0 else ready(f"node{n}") for n in range(1, 991)]
    path = tmp_path / "page.html"
    path.write_text(page(made, tuple(f"node{n}" for n in range(1, 1001))), encoding="utf-8")
    browser.open(path)
    assert browser.run("document.querySelector('h1').textContent").startswith("not ready: 141 of 1000 nodes")
    everything = len(browser.run(SHOWN))
    browser.run(f"{FILTER}('node14')")
    ill = browser.run(SHOWN)
    browser.run(f"{FILTER}('node15')")
    well = browser.run(SHOWN)
    assert any("cache-server" in row for row in ill) and not any("cache-server" in row for row in well)
    browser.run(f"{FILTER}('node995 silent')")
    assert len(browser.run(SHOWN)) == 1
    browser.run("document.dispatchEvent(new KeyboardEvent('keydown', {key: 'Escape'}))")
    assert len(browser.run(SHOWN)) == everything
    browser.run("document.dispatchEvent(new KeyboardEvent('keydown', {key: '/'}))")
    assert browser.run("document.activeElement.id") == "filter"


def test_it_fetches_nothing_and_runs_nothing_of_a_node(browser: Browser, tmp_path: Path) -> None:
    hostile = report("<img src=x onerror=document.title='owned'>[1][")
    hostile["msg"] = "</script><script>document.title='owned'</script>"
    for row in hostile["results"]:
        for finding in row["findings"]:
            finding["message"] = '"><svg onload="document.title=\'owned\'">'
    path = tmp_path / "page.html"
    path.write_text(page([hostile, ready("b")]), encoding="utf-8")
    browser.open(path)
    assert browser.run("document.title").startswith("npudoctor: ")
    assert browser.run("document.querySelectorAll('img, svg, link, iframe').length") == 0
    assert browser.run("performance.getEntriesByType('resource').length") == 0
    assert browser.run("document.body.textContent").count("document.title='owned'") > 0
    browser.run(f"{FILTER}('owned')")
    assert len(browser.run(SHOWN)) > 0, "the script bears such names"


def test_nodes_of_two_numbers_and_of_fixed_width_are_found(browser: Browser, tmp_path: Path) -> None:
    names = [f"rack{rack}n{slot}" for rack in (1, 2, 5) for slot in (1, 3, 4)] + [
        "gpu008",
        "gpu009",
        "gpu010",
    ]
    path = tmp_path / "page.html"
    path.write_text(page([report(name) for name in names]), encoding="utf-8")
    browser.open(path)
    assert "rack[1-2,5]n[1,3-4]" in browser.run("document.body.textContent")
    for name in names:
        browser.run(f"{FILTER}('{name.upper()} orphan')")
        assert any("orphan-segment" in row for row in browser.run(SHOWN)), name
    for name in ("rack3n3", "rack2n2", "gpu011", "gpu08"):
        browser.run(f"{FILTER}('{name}')")
        assert browser.run(SHOWN) == [] and browser.run("document.getElementById('shown').value")[0] == "0"


def test_a_fix_of_one_node_is_told_as_its_own(browser: Browser, tmp_path: Path) -> None:
    made = [report(f"node{n}") for n in range(3)]
    path = tmp_path / "page.html"
    for text, told in (("ipcrm -m 5", False), ("ipcrm -m 99", True)):
        finding = next(one for row in made[2]["results"] for one in row["findings"] if one["fix"])
        finding["fix"]["commands"] = [text]
        for other in made[:2]:
            same = next(
                one for row in other["results"] for one in row["findings"] if one["code"] == finding["code"]
            )
            same["fix"]["commands"] = ["ipcrm -m 5"]
        path.write_text(page(made, ("node9",)), encoding="utf-8")
        browser.open(path)
        shown = browser.run("document.body.innerText")
        assert ("on node0 (other nodes need other commands)" in shown) is told
    assert "no report" in browser.run("document.querySelector('.map').textContent"), "no blank cells"


def test_on_paper_nothing_is_cut_off(browser: Browser, tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    path.write_text(page([report(f"node{n * 3}") for n in range(300)]), encoding="utf-8")
    browser.open(path)
    boxes = "[...document.querySelectorAll('div.nodes, .map')]"
    cut = f"{boxes}.some(box => box.scrollHeight > box.clientHeight + 2)"
    browser.picture(tmp_path / "screen.png", 1200, 900)
    assert browser.run(cut) is True
    browser.picture(tmp_path / "paper.png", 1200, 900, paper=True)
    assert browser.run(cut) is False
    browser.picture(tmp_path / "a4.png", 794, 1123, paper=True)
    assert browser.run("document.documentElement.scrollWidth <= innerWidth") is True
