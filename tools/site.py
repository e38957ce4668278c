"""Build the documentation site in both languages: pages of docs, one for each check from its manual, one for
each kind of failure from its signatures.

    python tools/site.py MKDOCS FOLDER

MKDOCS is the command of a mkdocs with mkdocs-material. English is in FOLDER, Chinese in FOLDER/zh. Every page
opens without network, the search too; a link that leads nowhere ends the build.
"""

from __future__ import annotations

import html
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from npudoctor import __version__
from npudoctor.checking.check import Check
from npudoctor.core.messages import LANGUAGES, activate
from npudoctor.core.messages import _ as spoken
from npudoctor.explain.signatures.signatures import Signature, built_in
from npudoctor.registry import registry
from npudoctor.render.listing import translated_manual

ROOT = Path(__file__).resolve().parent.parent
ASSETS = ROOT / "tools" / "site_assets"
SCHEMAS = "src/npudoctor/render/schemas/"  # in the site they are in schema/
# Headings of the navigation; page of the site: its source, which is Markdown of this repository.
PAGES = {
    ("Start", "开始"): {
        "index": "README.md",
        "first-check": "docs/first-check.md",
        "install": "docs/install.md",
        "how-it-decides": "docs/how-it-decides.md",
        "comparison": "docs/comparison.md",
    },
    ("Use", "使用"): {
        "job": "docs/job.md",
        "explain": "docs/explain.md",
        "gate": "docs/gate.md",
        "fleet": "docs/fleet.md",
        "slurm": "integrations/slurm/README.md",
        "ansible": "integrations/ansible/README.md",
        "kubernetes": "integrations/kubernetes/README.md",
        "node-problem-detector": "integrations/node-problem-detector/README.md",
        "nhc": "integrations/nhc/README.md",
    },
    ("Reference", "参考"): {
        "cli": "docs/cli.md",
        "configuration": "docs/configuration.md",
        "json": "docs/json.md",
        "safety": "docs/safety.md",
    },
    ("Extend", "扩展"): {
        "contributing": "CONTRIBUTING.md",
        "knowledge": "docs/knowledge.md",
        "signatures": "docs/signatures.md",
        "architecture": "docs/architecture.md",
        "benchmarks": "benchmarks/README.md",
        "changelog": "CHANGELOG.md",
    },
}
# For those who develop npudoctor, and written in English alone.
ENGLISH = ("benchmarks", "changelog")
CHECKS, FAILURES = ("Checks", "检查项"), ("Failures", "故障")
OTHER = {"en": ("zh", "中文"), "zh": ("en", "English")}
_LINK = re.compile(r"\[([^\[\]]*)\]\(([^)\s]+)\)")
_CODE = re.compile(r"`([a-z][a-z0-9.-]+)`")
_SPECIAL = re.compile(r"([\\`*_{}\[\]|#])")
# A name of Python in YAML: places in Chinese pages are named by their headings, as in the repository.
SLUGIFY = "!!python/object/apply:pymdownx.slugs.slugify {kwds: {case: lower}}"
_WIDE = re.compile("[\u2e80-\u9fff\uff00-\uffef]")
_PAUSE = re.compile("[、，。；：！？（]")  # a blank after one of these is wrong before Latin letters too
_OPTION = re.compile("`(--[^`\n]{1,30})`(?!`)")
_SOURCES = {source: name for pages in PAGES.values() for name, source in pages.items()}


class Site:
    """The pages of one language, as Markdown in a folder."""

    def __init__(self, folder: Path, language: str) -> None:
        activate(language)
        self.folder, self.language, self.at = folder, language, list(LANGUAGES).index(language)
        self.checks = registry.load_all({"NPUDOCTOR_CHECKS_DIR": ""}).checks
        self.ids = {name: check.id for check in self.checks for name in (check.id, *check.codes)}
        self.static: dict[str, str] = {}  # what pages link to besides pages: its place in the site

    def write(self) -> list[Any]:
        """All pages; returns the navigation."""
        shutil.rmtree(self.folder, ignore_errors=True)
        navigation = [{heading[self.at]: self._written(pages)} for heading, pages in PAGES.items()]
        navigation[1:1] = [{CHECKS[self.at]: self._checks()}, {FAILURES[self.at]: self._failures()}]
        for source, name in self.static.items():
            self._copy(ROOT / source, name)
        for asset in ASSETS.iterdir():
            self._copy(asset, f"assets/{asset.name}")
        return navigation

    def _copy(self, source: Path, name: str) -> None:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, path)

    def _page(self, name: str, text: str) -> str:
        """Write a page, with the way to the same one in the other language; its file in the navigation."""
        other, label = OTHER[self.language]
        up = "../" * name.count("/")
        where = f"{up}zh/{name}.html" if other == "zh" else f"{up}../{name}.html"
        title, _line, rest = text.partition("\n")
        if not (name in ENGLISH and other == "zh"):
            rest = f'\n<p class="other-language"><a href="{where}" hreflang="{other}">{label}</a></p>\n{rest}'
        path = self.folder / f"{name}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{title}\n{rest}", encoding="utf-8")
        return f"{name}.md"

    def _written(self, pages: dict[str, str]) -> list[str]:
        """Pages of this repository; those that are English alone are in the English site only."""
        named = {
            name: source for name, source in pages.items() if self.language == "en" or name not in ENGLISH
        }
        return [self._page(name, self._linked(source)) for name, source in named.items()]

    def _linked(self, source: str) -> str:
        path = ROOT / (source if self.language == "en" else f"{source[:-3]}.zh.md")
        text = spaced(self._without_other(path.read_text(encoding="utf-8"), source))
        return unbroken(_LINK.sub(lambda match: self._link(match[1], match[2], source), text))

    def _without_other(self, text: str, source: str) -> str:
        """The text without its link to the other language, as that stands above every page."""
        other = os.path.basename(source if self.language == "zh" else f"{source[:-3]}.zh.md")
        return re.sub(rf" ?(?:(?:中文|English)[:：] ?)?\[[^\]]*\]\({re.escape(other)}\)", "", text)

    def _link(self, text: str, target: str, source: str) -> str:
        """A link of the repository as one of the site."""
        if re.match(r"[a-z]+:|#", target):
            return f"[{text}]({target})"
        file, mark, anchor = target.partition("#")
        name = os.path.normpath(os.path.join(os.path.dirname(source), file))
        page = name.replace(".zh.md", ".md")
        if page == "docs/checks.md":
            return f"[{text}](checks/index.md)"
        if page in _SOURCES and self.language == "zh" and _SOURCES[page] in ENGLISH:
            return f'<a href="../{_SOURCES[page]}.html">{text}</a>'
        if page in _SOURCES:
            return f"[{text}]({_SOURCES[page]}.md{mark}{anchor})"
        if not (ROOT / name).exists():
            raise SystemExit(f"{source}: {target} is not there")
        if (ROOT / name).is_dir():
            return text
        place = self.static[name] = name.replace(SCHEMAS, "schema/")
        return f"[{text}]({place})"

    def _checks(self) -> list[Any]:
        """A page for each check, and one for all of them; the navigation."""
        groups: dict[str, list[str]] = {}
        index = [f"# {CHECKS[self.at]}", "", ""]
        for group in sorted({check.group for check in self.checks}):
            index += [f"## {group}", "", self._table("Check", "检查项", "It says", "说明")]
            for check in (check for check in self.checks if check.group == group):
                groups.setdefault(group, []).append(self._page(f"checks/{check.id}", self._check(check)))
                index.append(f"| [`{check.id}`]({check.id}.md) | {escaped(spoken(check.title))} |")
            index.append("")
        return [
            self._page("checks/index", "\n".join(index)),
            *({group: files} for group, files in groups.items()),
        ]

    def _check(self, check: Check) -> str:
        codes = [f"| `{code}` | {level.name.lower()} |" for code, level in check.codes.items()]
        facts = [
            spoken("group: {group}").format(group=check.group),
            spoken("scope: {scope}").format(scope=check.scope.value),
            spoken("tags: {tags}").format(tags=", ".join(check.tags)) if check.tags else "",
        ]
        return "\n".join(
            [
                f"# {check.id}", "", f"**{escaped(spoken(check.title))}**", "",
                " · ".join(filter(None, facts)), "",
                self._table("Code", "代码", "Severity", "级别"), *codes, "",
                f"    npudoctor check {check.id}", "", self._crossed(spaced(translated_manual(check)), check),
            ]
        )  # fmt: skip

    def _crossed(self, text: str, own: Check) -> str:
        """The text, with a link at the names of other checks and their codes."""

        def link(match: re.Match[str]) -> str:
            name = self.ids.get(match[1])
            return match[0] if name in (None, own.id) else f"[{match[0]}]({name}.md)"

        return _CODE.sub(link, text)

    def _table(self, *headings: str) -> str:
        """The head of a table: for each column its heading in both languages."""
        words = headings[self.at :: 2]
        return f"| {' | '.join(words)} |\n{'|---' * len(words)}|"

    def _failures(self) -> list[Any]:
        """A page for each category of failures; the navigation."""
        categories: dict[str, list[Signature]] = {}
        for signature in built_in():
            categories.setdefault(signature.category, []).append(signature)
        index = [f"# {FAILURES[self.at]}", "", "    npudoctor explain train.log", ""]
        index.append(self._table("Category", "类别", "Known", "条目"))
        files = []
        for category, signatures in sorted(categories.items()):
            index.append(f"| [{category}]({category}.md) | {len(signatures)} |")
            text = "\n".join(
                [f"# {category}", "", *(line for one in signatures for line in self._failure(one))]
            )
            files.append(self._page(f"failures/{category}", text))
        return [self._page("failures/index", "\n".join(index)), *files]

    def _failure(self, signature: Signature) -> Iterator[str]:
        yield from (f"## {escaped(signature.title[self.language])} {{#{signature.id}}}", "")
        names = (f"`{name}`" for name in (signature.id, *signature.codes))
        yield from (" · ".join(names), "", escaped(signature.cause[self.language]), "")
        yield from (f"- {escaped(line)}" for line in signature.remedy[self.language])
        checks = [f"[`{name}`](../checks/{name}.md)" for name in signature.checks if name in self.ids]
        yield from ("", " ".join(checks), "") if checks else ("",)

    def settings(self, navigation: list[Any], site: Path) -> dict[str, Any]:
        """What mkdocs is told."""
        toggles = (("default", "slate"), ("slate", "default"))
        return {
            "site_name": "npudoctor", "docs_dir": str(self.folder), "site_dir": str(site), "nav": navigation,
            "use_directory_urls": False, "strict": True, "copyright": f"npudoctor {__version__}",
            "theme": {
                "name": "material", "language": self.language, "font": False,
                "features": ["navigation.indexes", "navigation.top", "search.highlight", "content.code.copy"],
                "palette": [
                    {"media": f"(prefers-color-scheme: {'light' if scheme == 'default' else 'dark'})",
                     "scheme": scheme, "primary": "teal",
                     "toggle": {"icon": "material/brightness-6", "name": other}}
                    for scheme, other in toggles
                ],
            },
            "extra": {"generator": False, "homepage": "index.html", "polyfills": ["assets/iframe-worker.js"]},
            "extra_css": ["assets/site.css"],
            "plugins": [{"search": {"lang": ["en", "zh"][: self.at + 1]}}, "offline"],
            "markdown_extensions": [
                "tables", "attr_list", {"toc": {"permalink": True, "slugify": SLUGIFY}},
                "pymdownx.superfences", {"pymdownx.highlight": {}},
            ],
            "validation": {"links": {"not_found": "warn", "anchors": "warn", "unrecognized_links": "warn",
                                     "absolute_links": "warn"}},
        }  # fmt: skip


def escaped(text: str) -> str:
    """A sentence of ours as Markdown; what stands between backquotes stays as it is."""
    parts = re.split(r"(`[^`]*`)", text)
    return "".join(
        part if part.startswith("`") else html.escape(_SPECIAL.sub(r"\\\1", part), quote=False)
        for part in parts
    )


def spaced(text: str) -> str:
    """With a blank line before each list: a terminal needs none, Markdown does. Lines of Chinese are joined,
    as a browser puts a blank for a line's end. Code is left as it is."""
    lines: list[str] = []
    fenced, before = False, ""
    for line in text.split("\n"):
        fenced ^= line.startswith("```")
        if line.startswith("- ") and not fenced and before and not before.startswith(("- ", "  ")):
            lines.append("")
        if not fenced and before[:4].strip() and _go_on(before, line.strip()):
            lines[-1] += line.strip()
        else:
            lines.append(line)
        before = lines[-1]
    return "\n".join(lines)


def _go_on(before: str, line: str) -> bool:
    """Whether a line goes on with a Chinese sentence, so that no blank may come between."""
    if _PAUSE.match(before[-1:]):
        return bool(_WIDE.match(line[:1]) or re.match(r"[\[`A-Za-z]", line))
    return bool(_WIDE.match(before[-1:]) and _WIDE.match(line[:1]))


def unbroken(text: str) -> str:
    """Markdown in which options are marked: a browser breaks lines between their hyphens, if it may."""
    parts = re.split("(^```.*?^```$)", text, flags=re.MULTILINE | re.DOTALL)
    return "".join(part if part.startswith("```") else _OPTION.sub(r"`\1`{.option}", part) for part in parts)


def build(mkdocs: str, site: Path, language: str) -> int:
    """One language; a status that is not 0 where mkdocs has something to complain of."""
    scratch = ROOT / "build" / "site"
    pages = Site(scratch / language, language)
    settings = scratch / f"{language}.yml"
    # JSON is YAML, but for what no JSON can say.
    text = json.dumps(pages.settings(pages.write(), site), ensure_ascii=False)
    settings.write_text(text.replace(f'"{SLUGIFY}"', SLUGIFY), encoding="utf-8")
    # Its own TMPDIR: jieba keeps its dictionary there as a file that it believes, whoever wrote it.
    own = {**os.environ, "TMPDIR": str(scratch), "NO_MKDOCS_2_WARNING": "1"}
    command = [mkdocs, "build", "--quiet", "--strict", "-f", str(settings)]
    done = subprocess.run(command, env=own, stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        sys.stderr.write(done.stderr)
    return done.returncode


def main() -> int:
    """English first, as it empties the folder."""
    mkdocs, site = sys.argv[1], Path(sys.argv[2]).resolve()
    (ROOT / "build" / "site").mkdir(parents=True, exist_ok=True)
    return build(mkdocs, site, "en") or build(mkdocs, site / "zh", "zh")


if __name__ == "__main__":
    sys.exit(main())
