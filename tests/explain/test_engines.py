"""The engines see the same: with hyperscan, with a gate before it, and with nothing but `re`."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from npudoctor.explain.cache import Cache
from npudoctor.explain.evidence import Evidence
from npudoctor.explain.fast import Fast, fast
from npudoctor.explain.gate import gated
from npudoctor.explain.matching import Matcher, Plain
from npudoctor.explain.scan import Scan
from npudoctor.explain.signatures import built_in
from npudoctor.explain.table import Table, table_of
from npudoctor.explain.walk import Log

TABLE = table_of(built_in())
LOGS = [example.log for signature in TABLE.signatures for example in signature.examples]


@pytest.fixture(scope="module")
def quick() -> Fast:
    """hyperscan, where its wheel is installed."""
    pytest.importorskip("hyperscan", reason="hyperscan is not installed: there is only one engine")
    found = fast(TABLE, None)
    assert found is not None
    return found


def mixtures(count: int) -> Iterator[bytes]:
    """Examples among each other and among noise, cut and joined at random places, in several encodings."""
    chance = random.Random(11)  # noqa: S311  (the same mixtures every time)
    for _number in range(count):
        parts: list[bytes] = []
        for _part in range(chance.randrange(1, 40)):
            log = chance.choice(LOGS).encode(chance.choice(["utf-8", "utf-8", "gb18030"]), "replace")
            noise = bytes(chance.choices(range(256), k=chance.randrange(80)))
            cut = chance.randrange(len(log) + 1)
            parts += [
                chance.choice([log, log[:cut], log[cut:], noise]),
                chance.choice([b"\n", b"", b" ", b"\r\n"]),
            ]
        yield b"".join(parts)


def said(matcher: Matcher, content: bytes, table: Table = TABLE) -> Any:
    return plainly(Scan(table, matcher, "rank_1.log", 2026).of([content]))


def plainly(evidence: Evidence) -> Any:
    """All that a judgement rests on."""
    found = {
        owner: (one.count, sorted(one.ranks.items(), key=repr), one.last and one.last.line)
        for owner, one in evidence.found.items()
    }
    return (
        found,
        evidence.marks,
        evidence.counts,
        evidence.aside,
        evidence.root,
        evidence.lines,
        evidence.tail,
    )


def test_hyperscan_and_re_see_the_same(quick: Fast) -> None:
    plain = Plain(TABLE)
    for content in ("\n".join(LOGS).encode(), *mixtures(60)):
        assert said(quick, content) == said(plain, content)


def test_a_gate_hides_nothing(quick: Fast, tmp_path: Path) -> None:
    sample = tmp_path / "healthy.log"
    sample.write_text(
        "[INFO] HCCL(1,python): error code is 0, memory of device 3, connection to port 29500\n" * 900
    )
    gate = gated(quick, TABLE, [Log(str(sample), sample.stat().st_size, 2026)], None)
    quiet = b"[INFO] GE(1,python): nothing to see in this line, really nothing\n" * 3000
    for content in mixtures(60):
        whole = quiet + content + quiet
        assert said(gate, whole) == said(quick, whole)


def test_every_signature_is_found_by_the_scan_as_by_itself() -> None:
    plain = Plain(TABLE)
    for owner, signature in enumerate(TABLE.signatures):
        for example in signature.examples:
            evidence = Scan(TABLE, plain, "-", 2026).of([example.log.encode()])
            aside = {role for one, role in evidence.aside if one == owner}
            lacks = not signature.within and signature.near and 1 not in aside
            found = owner in evidence.found and not lacks and 2 not in aside
            assert found is example.match, (signature.id, example.log)


def test_pieces_may_end_anywhere() -> None:
    plain = Plain(TABLE)
    chance = random.Random(3)  # noqa: S311  (the same cuts every time)
    for content in mixtures(10):
        cuts = sorted(chance.randrange(len(content) + 1) for _cut in range(20))
        pieces = [content[start:end] for start, end in zip([0, *cuts], [*cuts, len(content)])]
        assert plainly(Scan(TABLE, plain, "rank_1.log", 2026).of(pieces)) == said(plain, content)


def test_what_is_kept_is_used_and_what_is_damaged_is_made_again(tmp_path: Path) -> None:
    pytest.importorskip("hyperscan", reason="hyperscan is not installed: there is nothing to keep")
    cache = Cache(str(tmp_path / "cache"))
    content = "\n".join(LOGS).encode()
    fresh = fast(TABLE, cache)
    (kept,) = (tmp_path / "cache").iterdir()
    assert fresh is not None and kept.stat().st_mode & 0o777 == 0o600
    again = fast(TABLE, cache)
    assert again is not None and sorted(again.found(content)) == sorted(fresh.found(content))
    whole = kept.read_bytes()
    for damaged in (b"", whole[:40], whole[:-9] + b"\1" * 9, b"\0" * len(whole)):
        kept.write_bytes(damaged)
        assert cache.get(kept.name) is None
        again = fast(TABLE, cache)
        assert again is not None and sorted(again.found(content)) == sorted(fresh.found(content))
        assert kept.read_bytes() == whole


def test_a_cache_that_others_may_write_is_not_used(tmp_path: Path) -> None:
    cache = Cache(str(tmp_path))
    cache.put("table-1.json", b"{}")
    assert cache.get("table-1.json") == b"{}"
    (tmp_path / "table-1.json").chmod(0o666)
    assert cache.get("table-1.json") is None
    (tmp_path / "table-1.json").chmod(0o600)
    tmp_path.chmod(0o777)
    assert cache.get("table-1.json") is None
    cache.put("table-2.json", b"{}")
    tmp_path.chmod(0o700)
    assert not (tmp_path / "table-2.json").exists()
    (tmp_path / "link").symlink_to(tmp_path / "table-1.json")
    assert cache.get("link") is None
