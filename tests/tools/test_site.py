"""The documentation site, built once: whole in both languages, without dead links, and of itself alone."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, Callable, Optional
from urllib.parse import unquote, urlsplit

import pytest
from tests.support.browser import Browser, find

from npudoctor.registry import registry

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
CHECKS = registry.load_all({"NPUDOCTOR_CHECKS_DIR": ""}).checks
LOADED = {"script": "src", "img": "src", "iframe": "src", "link": "href", "source": "src"}
# What the page does when somebody types these words.
SEARCH = """(async words => {
    const box = document.querySelector('[data-md-component=search-query]');
    box.focus();
    box.value = words;
    box.dispatchEvent(new Event('input', {bubbles: true}));
    box.dispatchEvent(new KeyboardEvent('keyup', {bubbles: true}));
    for (let turn = 0; turn < 300; turn++) {
        const found = [...document.querySelectorAll('.md-search-result__link')];
        if (found.length) return found.map(link => link.getAttribute('href'));
        await new Promise(done => setTimeout(done, 100));
    }
    return [];
})"""


class Page(HTMLParser):
    """What a page leads to, what it loads, and the places in it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.places: set[str] = set()
        self.language: Optional[str] = None
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, Optional[str]]]) -> None:
        found = {name: value or "" for name, value in attrs}
        self.places.update(filter(None, (found.get("id"), found.get("name"))))
        if tag == "html":
            self.language = found.get("lang")
        if tag == "a" and "href" in found:
            self.links.append(found["href"])
        if tag in LOADED and found.get(LOADED[tag]) and found.get("rel") not in ("next", "prev", "canonical"):
            self.loads.append(found[LOADED[tag]])


@pytest.fixture(scope="session")
def site(lack: Callable[[str], None]) -> Path:
    """Built by make; where no index can be reached, these tests have nothing to ask."""
    variables = {**os.environ, "VENV": os.environ.get("VENV", ".venv")}
    done = subprocess.run(
        ["make", "site"], cwd=ROOT, env=variables, capture_output=True, text=True, timeout=300, check=False
    )
    if "No matching distribution" in done.stderr:
        lack("mkdocs-material cannot be installed here")
    assert done.returncode == 0, done.stdout + done.stderr
    return ROOT / "site"


@pytest.fixture(scope="session")
def pages(site: Path) -> dict[Path, Page]:
    return {path: Page(path.read_text(encoding="utf-8")) for path in sorted(site.rglob("*.html"))}


def test_every_check_has_its_page_in_both_languages(site: Path, pages: dict[Path, Page]) -> None:
    for check in CHECKS:
        english, chinese = (site / part / "checks" / f"{check.id}.html" for part in (".", "zh"))
        assert pages[english].language == "en" and pages[chinese].language == "zh"
        assert {"what-it-does", "why-it-matters"} <= pages[english].places
        text = chinese.read_text(encoding="utf-8")
        assert "检查内容" in text.replace("\u200b", "") and "Why it matters" not in text
        assert all(f"<code>{code}</code>" in text for code in check.codes)


def test_no_link_is_dead(site: Path, pages: dict[Path, Page]) -> None:
    files = {str(path) for path in site.rglob("*") if path.is_file()}
    known = {str(path): page for path, page in pages.items()}

    def dead(path: Path, link: str) -> bool:
        parts = urlsplit(link)
        if parts.scheme:
            return parts.scheme not in ("http", "https", "mailto")
        target = os.path.normpath(f"{path.parent}/{unquote(parts.path)}") if parts.path else str(path)
        place = unquote(parts.fragment)
        return target not in files or bool(place and target in known and place not in known[target].places)

    found = [(str(path.relative_to(site)), link) for path, page in pages.items() if path.name != "404.html"
             for link in page.links if dead(path, link)]  # fmt: skip
    assert found == [] and len(pages) > 2 * len(CHECKS)


def test_nothing_is_loaded_from_elsewhere(site: Path, pages: dict[Path, Page]) -> None:
    for path, page in pages.items():
        assert not [load for load in page.loads if urlsplit(load).scheme or load.startswith("//")], path
    for sheet in site.rglob("*.css"):
        assert not re.search(r"url\(['\"]?(?:https?:)?//", sheet.read_text(encoding="utf-8")), sheet


def test_no_page_tells_to_install_from_an_index(pages: dict[Path, Page]) -> None:
    assert [path for path in pages if "pip install npudoctor<" in path.read_text(encoding="utf-8")] == []


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


@pytest.mark.parametrize(
    ("page", "words", "wanted"),
    [
        ("index.html", "orphan", "/checks/cache-server.html"),
        ("checks/firewall.html", "hccl", "/failures/network-hccl-link-or-ip.html"),
        ("zh/index.html", "防火墙", "/zh/checks/firewall.html"),
        ("zh/checks/clock.html", "租约", "/zh/checks/shared-memory.html"),
    ],
)
def test_the_search_finds_without_a_network(
    browser: Browser, site: Path, page: str, words: str, wanted: str
) -> None:
    browser.open(site / page)
    found: Any = browser.run(f"{SEARCH}({words!r})")
    assert any(wanted in link for link in found), found[:20]
