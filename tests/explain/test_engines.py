"""The engines see the same: with hyperscan, with a gate before it, and with nothing but `re`."""

from __future__ import annotations

import functools
import math
import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Optional

import pytest
from tests.support.engines import plain, table

from npudoctor.explain.reading.sample import sample_of
from npudoctor.explain.reading.walk import Log
from npudoctor.explain.scanning.evidence import Evidence
from npudoctor.explain.scanning.gate import make_gated_matcher
from npudoctor.explain.scanning.hyperscan_matcher import HyperscanMatcher, make_hyperscan_matcher
from npudoctor.explain.scanning.matching import LazyMatcher, Matcher, RegexMatcher
from npudoctor.explain.scanning.scan import Scan
from npudoctor.explain.signatures.pieces import Sample
from npudoctor.explain.signatures.prepared import prepare_table, write
from npudoctor.explain.signatures.table import SignatureTable, make_table
from npudoctor.knowledge.site import Knowledge


@functools.cache
def logs() -> list[str]:
    return [example.log for signature in table().signatures for example in signature.examples]


@pytest.fixture(scope="module")
def quick() -> HyperscanMatcher:
    """hyperscan, where its wheel is installed."""
    pytest.importorskip("hyperscan", reason="hyperscan is not installed: there is only one engine")
    found = make_hyperscan_matcher(table())
    assert found is not None
    return found


def mixtures(count: int) -> Iterator[bytes]:
    """Examples among each other and among noise, cut and joined at random places, in several encodings."""
    chance = random.Random(11)  # noqa: S311  (the same mixtures every time)
    for _number in range(count):
        parts: list[bytes] = []
        for _part in range(chance.randrange(1, 40)):
            log = chance.choice(logs()).encode(chance.choice(["utf-8", "utf-8", "gb18030"]), "replace")
            noise = bytes(chance.choices(range(256), k=chance.randrange(80)))
            cut = chance.randrange(len(log) + 1)
            parts += [
                chance.choice([log, log[:cut], log[cut:], noise]),
                chance.choice([b"\n", b"", b" ", b"\r\n"]),
            ]
        yield b"".join(parts)


def said(matcher: Matcher, content: bytes, whole: Optional[SignatureTable] = None) -> Any:
    return plainly(scan(matcher, whole).scan_pieces([content]))


@functools.cache
def said_plain(content: bytes) -> Any:
    """What the engine says that learns nothing: several tests ask for the same mixtures."""
    return said(plain().matcher, content)


def scan(matcher: Matcher, whole: Optional[SignatureTable] = None) -> Scan:
    """With all the time that it takes: which engine runs out of it first is no question here."""
    return Scan(whole or table(), matcher, "rank_1.log", 2026, judging=math.inf)


def plainly(evidence: Evidence) -> Any:
    """All that a judgement rests on."""
    found = {
        owner: (one.count, sorted(one.ranks.items(), key=repr), one.last and one.last.line)
        for owner, one in evidence.matches.items()
    }
    return (
        found,
        evidence.marks,
        evidence.counts,
        evidence.aside,
        evidence.root,
        evidence.lines,
        evidence.outline,
    )


def test_hyperscan_and_re_see_the_same(quick: HyperscanMatcher) -> None:
    for content in ("\n".join(logs()).encode(), *mixtures(60)):
        assert said(quick, content) == said_plain(content)


def test_little_is_seen_the_same_without_making_anything_ready() -> None:
    def never() -> Matcher:
        raise AssertionError("made for little")

    for content in mixtures(60):
        assert said(LazyMatcher(table(), never), content) == said_plain(content)


def test_much_is_seen_the_same_when_it_comes_little_by_little() -> None:
    made = []

    def make() -> Matcher:
        made.append(RegexMatcher(table()))
        return made[-1]

    content = (b"nothing to see in this line\n" * 40).join(mixtures(60))
    pieces = [content[at : at + 5000] for at in range(0, len(content), 5000)]
    assert plainly(scan(LazyMatcher(table(), make)).scan_pieces(pieces)) == said_plain(content)
    assert len(made) == 1


@pytest.mark.parametrize("coding", ["utf-8", "gb18030"])
def test_a_short_text_that_gb_18030_makes_shorter(coding: str) -> None:
    """误: has four bytes in UTF-8, and three there."""
    row = next(one for one in table().signatures if one.patterns and not one.fallback)
    whole = make_table([replace(row, patterns=("误:",), near=(), without=())])
    content = "某种错误: 1\n".encode(coding)
    for matcher in (RegexMatcher(whole), LazyMatcher(whole, lambda: RegexMatcher(whole))):
        assert len(matcher.find(content)) == 1


# 200 kB, which a gate looks at as bytes; in few lines, as each of them is judged for itself.
QUIET = (b"[INFO] GE(1,python): " + b"nothing to see in this line, really nothing; " * 14 + b"\n") * 310


@functools.cache
def said_amid_quiet(quick: HyperscanMatcher, content: bytes) -> Any:
    """For both gates."""
    return said(quick, QUIET + content + QUIET)


@pytest.mark.parametrize("built", [False, True], ids=["worked out", "with the pieces of the build"])
def test_a_gate_hides_nothing(quick: HyperscanMatcher, tmp_path: Path, built: bool) -> None:
    whole = table()
    if built:
        write(str(tmp_path / "table.json"))
        whole = prepare_table(Knowledge(""), str(tmp_path / "table.json")).table
        assert whole.pieces
    sample = tmp_path / "healthy.log"
    sample.write_text(
        "[INFO] HCCL(1,python): error code is 0, memory of device 3, connection to port 29500\n" * 900
    )
    full = make_hyperscan_matcher(whole)
    assert full is not None
    seen = sample_of([Log(str(sample), sample.stat().st_size, 2026)])
    full.adapt_to(seen)
    gate = make_gated_matcher(full, whole, seen)
    for content in mixtures(60):
        assert said(gate, QUIET + content + QUIET, whole) == said_amid_quiet(quick, content)


def test_every_signature_is_found_by_the_scan_as_by_itself() -> None:
    whole = table()
    for owner, signature in enumerate(whole.signatures):
        for example in signature.examples:
            evidence = Scan(whole, plain().matcher, "-", 2026).scan_pieces([example.log.encode()])
            aside = {role for one, role in evidence.aside if one == owner}
            lacks = not signature.within and signature.near and 1 not in aside
            found = owner in evidence.matches and not lacks and 2 not in aside
            wanted = example.match and not signature.fallback  # for those no scan looks
            assert found is wanted, (signature.id, example.log)


def test_pieces_may_end_anywhere() -> None:
    chance = random.Random(3)  # noqa: S311  (the same cuts every time)
    for content in mixtures(10):
        cuts = sorted(chance.randrange(len(content) + 1) for _cut in range(20))
        pieces = [content[start:end] for start, end in zip([0, *cuts], [*cuts, len(content)])]
        assert plainly(scan(plain().matcher).scan_pieces(pieces)) == said_plain(content)


def test_what_is_everywhere_is_looked_for_by_another_part(quick: HyperscanMatcher) -> None:
    line = "[INFO] DRV(1,python): driver version, remote rank, cannot find, failed to load, cuda, gpu\n"
    flood = (line * 9000).encode()
    adapted = make_hyperscan_matcher(table())
    assert adapted is not None
    often = len(adapted.find(flood))
    adapted.find(flood)
    assert len(adapted.find(flood)) < often / 2
    for content in ("\n".join(logs()).encode(), *mixtures(40)):
        assert said(adapted, content) == said_plain(content)


def test_what_was_adapted_between_two_blocks_is_still_judged(quick: HyperscanMatcher) -> None:
    adapted = make_hyperscan_matcher(table())
    assert adapted is not None
    adapted.adapt_to(Sample("\n".join(logs()[::2]).encode()))
    flood = b"driver error: cannot find torch, failed to load cuda\n" * 5200  # a block of its own
    pieces = [part for content in mixtures(5) for part in (flood, content)]
    before = len(adapted.owners)
    assert plainly(scan(adapted).scan_pieces(pieces)) == said_plain(b"".join(pieces))
    assert len(adapted.owners) > before
