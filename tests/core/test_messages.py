"""Everything that a person reads is there in Chinese too: the catalogue, every finding, the command line."""

from __future__ import annotations

import errno
import re
import subprocess
import sys
from collections.abc import Iterator
from inspect import cleandoc
from pathlib import Path

import polib
import pytest

from npudoctor import knowledge
from npudoctor.checking.check import Check
from npudoctor.core import messages
from npudoctor.core.messages import _
from npudoctor.registry import registry
from npudoctor.testing import Asked

from ..cli.command import Npudoctor  # noqa: TID252
from ..speaking import scene_of  # noqa: TID252

pytestmark = pytest.mark.once

ROOT = Path(__file__).resolve().parents[2]
CATALOGUE = ROOT / "src/npudoctor/locale/zh_CN/LC_MESSAGES/npudoctor.po"
MANUALS = CATALOGUE.with_name("manuals.po")
ENTRIES = [entry for path in (CATALOGUE, MANUALS) for entry in polib.pofile(str(path), encoding="utf-8")]
LOADED = registry.load_all({"NPUDOCTOR_CHECKS_DIR": ""})

CHINESE = re.compile("[\u3400-\u4dbf\u4e00-\u9fff]")
PLACEHOLDER = re.compile(r"\{[^{}]*\}")
UNFILLED = re.compile(r"\{[a-z_]+\}")
# What is the same in every language: variables, options, paths.
UNTRANSLATED = re.compile(r"[A-Z]+_[A-Z_]+|(?<![\w-])--?[a-z][\w-]*|/[a-z]+(?:/[\w.]+)+")
# As a file of the kernel says it, and nothing else: /sys/x/enabled: always madvise [never].
CHOICE = re.compile(r" */\S+: (?:[a-z_+-]+ ){0,6}\[[a-z_+-]+\](?: [a-z_+-]+){0,6}")
WORD = re.compile(r"[\"'(]?[A-Za-z]?[a-z]+[\"'),.:?!]*")


@pytest.fixture
def chinese() -> Iterator[None]:
    messages.activate("zh")
    yield
    messages.activate("en")


@pytest.mark.parametrize("option", ["--check", pytest.param("--release", marks=pytest.mark.release)])
def test_the_catalogue_is_safe_and_for_a_release_complete(option: str) -> None:
    tool = [sys.executable, str(ROOT / "tools" / "messages.py"), option]
    done = subprocess.run(tool, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def translations() -> Iterator[tuple[str, str]]:
    for entry in ENTRIES:
        for text in entry.msgstr_plural.values() if entry.msgid_plural else (entry.msgstr,):
            yield entry.msgid, text


def references() -> set[str]:
    """The last blocks of the manuals, in which a document has the title that it has."""
    return {cleandoc(check.manual).rpartition("## References\n\n")[2] for check in LOADED.checks}


def test_every_translation_is_chinese() -> None:
    titles = references()
    latin = [
        text for msgid, text in translations()
        if msgid not in titles
        and re.search("[A-Za-z]", PLACEHOLDER.sub("", text)) and not CHINESE.search(text)
    ]  # fmt: skip
    assert latin == []


def test_translations_have_chinese_punctuation() -> None:
    assert [text for _msgid, text in translations() if re.search("[\u4e00-\u9fff] ?[,;:?!()]", text)] == []


def test_a_blank_parts_chinese_from_other_scripts() -> None:
    """Letters, digits, placeholders and what begins a path or an option; none beside wide punctuation."""
    cjk, wide = "[\u3400-\u4dbf\u4e00-\u9fff]", "[，。：；？！、（）]"
    close = re.compile(
        f"{cjk}(?:[A-Za-z0-9{{$]|--?[a-z]|/[a-z{{])|[A-Za-z0-9}})]{cjk}|{wide} +\\S|\\S +{wide}"
    )
    assert [text for _msgid, text in translations() if close.search(text)] == []


@pytest.mark.parametrize("word", ["任务", "站点"])
def test_one_word_for_each_thing(word: str) -> None:
    """A job is 作业, and the machines of one site are 集群."""
    assert [text for _msgid, text in translations() if word in text] == []


def test_options_variables_and_paths_are_not_translated() -> None:
    changed = [
        (text, lost) for msgid, text in translations()
        if (lost := [token for token in UNTRANSLATED.findall(msgid) if token.rstrip(".") not in text])
    ]  # fmt: skip
    assert changed == []


@pytest.mark.parametrize("number", [errno.EACCES, errno.ENOENT, errno.EPERM, errno.ENOSPC, errno.EROFS])
def test_what_the_system_says_is_chinese_too(number: int, chinese: None) -> None:
    assert CHINESE.search(messages.strerror(number))


def sentences(text: str) -> list[str]:
    """The parts of a text that stand for themselves."""
    return [part for part in re.split("[；。]|; |;$", text) if part.strip()]


def sources() -> set[str]:
    """The sources that the rows of our tables name, whole and in the parts that `sentences` makes."""
    texts = (path.read_text(encoding="utf-8") for path in Path(knowledge.__file__).parent.rglob("*.toml"))
    whole = {quoted for text in texts for quoted in re.findall(r'source = "([^"]*)"', text)}
    return whole | {part for source in whole for part in sentences(source)}


# Where a row of our tables is from, and what the TOML parser says of a site's: others' words as they are.
QUOTED = (*sources(), "(at end of document)", "Invalid value")


def is_data(text: str) -> bool:
    """Whether a text is no sentence: it has no heading, and nowhere two plain words follow each other.

    Others' words that are told as they are do not count: sources of our tables, what stands between
    backquotes, and a list of the kernel in which the chosen word stands in brackets.

    `shmid 5 key 0x61`, `scipy 1.4.1: /usr/lib/python3`, `ASCEND_OPP_PATH=/usr/local` are data. A plain
    word has only letters, and no capitals but for its first.
    """
    for quoted in QUOTED:
        text = text.replace(quoted, "")
    text = re.sub("`[^`]*`", "", text)
    if CHOICE.fullmatch(text):
        return True
    words = [WORD.fullmatch(word) is not None for word in text.split()]
    if re.fullmatch(r" */\S+: [\w.-]+(, [\w.-]+)+", text):
        return True  # a folder and the names in it
    if re.fullmatch(r" *[\w.@-]+: (up|down), \S+", text) or re.match(r" *(nft|ip6?tables)\b", text):
        return True  # an interface and its address; where a rule stands
    heading = re.match(" *[A-Za-z][a-z]+: ", text) is not None
    return not heading and not any(one and other for one, other in zip(words, words[1:]))


def told(asked: Asked) -> list[str]:
    """Every sentence of an answer but the evidence."""
    titles = [finding.fix.title for finding in asked.findings if finding.fix]
    return [asked.reason, *(finding.message for finding in asked.findings), *titles]


def untranslated(asked: Asked) -> list[str]:
    """What this answer says in Latin letters only: data among the evidence may, nothing else."""
    evidence = [line for finding in asked.findings for line in finding.evidence]
    latin = [part for text in told(asked) for part in sentences(text) if not CHINESE.search(part)]
    latin += [
        part for line in evidence for part in sentences(line)
        if not CHINESE.search(part) and not is_data(part)
    ]  # fmt: skip
    return latin


def test_what_counts_as_data() -> None:
    for data in ("shmid 5 key 0x61000005 cpid 9", "scipy 1.4.1: /usr/lib/scipy", "A_B=/c d=1", "... (+4)"):
        assert is_data(data)
    for data in ("/sys/x/enabled: always madvise [never]", "npu-smi: `the device is busy`"):
        assert is_data(data)
    for sentence in (
        "owner root inode 5",
        "created today",
        "installed: /usr/local",
        "it is gone",
        "last detached 2026-01-01",
        "No log.",
        "set it to [auto] and then start the job again",
        "the kernel says always madvise [never]",
    ):
        assert not is_data(sentence)


def test_every_check_is_loaded() -> None:
    assert LOADED.broken == ()


@pytest.mark.parametrize("check", LOADED.checks, ids=lambda check: check.id)
def test_every_code_is_found_in_the_scene(check: Check, tmp_path: Path) -> None:
    answers = list(scene_of(check)(tmp_path))
    said = {finding.code for asked in answers for finding in asked.findings}
    assert said == set(check.codes), f"`scene` of {check.id}'s test shows each code of @check(codes=...) once"
    texts = [text for asked in answers for text in told(asked)]
    assert [text for text in texts if UNFILLED.search(text)] == [], "a part of a sentence was not filled in"


@pytest.mark.release
@pytest.mark.parametrize("check", LOADED.checks, ids=lambda check: check.id)
def test_every_finding_speaks_chinese(check: Check, chinese: None, tmp_path: Path) -> None:
    latin = [text for asked in scene_of(check)(tmp_path) for text in untranslated(asked)]
    assert latin == [], "put it into _(), or between `backquotes` when a file or a program says it"
    assert CHINESE.search(_(check.title))


@pytest.fixture
def npudoctor(tmp_path: Path) -> Npudoctor:
    return Npudoctor(tmp_path)


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("chek",),
        ("--", "-x"),
        ("check", "--nope"),
        ("check", "--scope"),
        ("check", "--verbose=1"),
        ("check", "--deadline", "soon"),
        ("check", "--ignore", "cache-sever"),
        ("check", "--root", "/no/image"),
        ("list", "more"),
        ("show",),
        ("schema", "reports"),
        ("fix", "cache-sever"),
    ],
)
def test_usage_errors_are_chinese(npudoctor: Npudoctor, arguments: tuple[str, ...]) -> None:
    done = npudoctor(*arguments, NPUDOCTOR_LANG="zh")
    assert (done.status, done.out) == (64, "")
    assert CHINESE.search(done.err)


ODD = """
yield Finding("odd.bad", "eins", fix=Fix("zwei", steps=(Command(("/bin/true",)),), needs_root=False))
yield Finding("odd.odd", "drei", fix=Fix("vier", steps=(Command(("/bin/true",)),), risk=Risk.MANUAL))
"""


def test_the_plan_of_a_fix_is_chinese(npudoctor: Npudoctor) -> None:
    npudoctor.drop_in("odd", ODD)
    for arguments in (("--dry-run",), ()):
        done = npudoctor("fix", "odd", *arguments, "--lang", "zh")
        told = [line for line in (done.out + done.err).splitlines() if not is_data(line)]
        assert done.status == 1
        assert "待执行" in done.out + done.err
        assert [line for line in told if not CHINESE.search(line)] == []


def test_json_keeps_its_keys_codes_and_words(npudoctor: Npudoctor) -> None:
    npudoctor.drop_in("odd", ODD)
    for command in ("check", "fix"):
        english = npudoctor(command, "odd", "--format", "json", LANG="zh_CN.UTF-8")
        told = npudoctor(command, "odd", "--format", "json", "--lang", "zh")
        assert not CHINESE.search(english.out)
        assert CHINESE.search(told.json["msg"])
        keys = re.compile('^ *"[a-z_]+"', re.MULTILINE)
        assert keys.findall(english.out) == keys.findall(told.out)
        assert '"odd.bad"' in told.out


@pytest.mark.parametrize("utf8", ["0", "1"])
@pytest.mark.parametrize(
    "arguments",
    [("check", "accelerator"), ("check", "--help"), ("list",), ("show", "accelerator"), ("chek",)],
)
def test_a_plain_c_locale_does_not_crash(npudoctor: Npudoctor, arguments: tuple[str, ...], utf8: str) -> None:
    done = npudoctor(*arguments, LC_ALL="C", PYTHONUTF8=utf8, PYTHONCOERCECLOCALE="0", NPUDOCTOR_LANG="zh")
    assert done.status in (0, 2, 64)
    assert "\n" in done.out + done.err
    assert "Traceback" not in done.err
