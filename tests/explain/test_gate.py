"""The gate before the engine: few pieces, and the same answer whether little or much was seen by it."""

from __future__ import annotations

import random

import pytest

from npudoctor.explain.scanning import gate
from npudoctor.explain.scanning.gate import make_gated_matcher
from npudoctor.explain.scanning.hyperscan_matcher import make_hyperscan_matcher
from npudoctor.explain.scanning.scan import Scan, count_line_ends
from npudoctor.explain.signatures import pieces
from npudoctor.explain.signatures.patterns import Literal
from npudoctor.explain.signatures.pieces import Sample
from npudoctor.explain.signatures.prepared import FILE, _read
from npudoctor.explain.signatures.signatures import built_in
from npudoctor.explain.signatures.table import SignatureTable, join_searches, make_table

pytestmark = pytest.mark.once

SAMPLE = Sample(
    b"[INFO] HCCL(1,python): error code is 0, memory of device 3, connected to port 29500\n" * 200
)
QUIET = b"[INFO] GE(1,python): nothing to see in this line, really nothing\n"


def table() -> SignatureTable:
    """As the package was built; else as it is worked out here."""
    built = _read(FILE)
    return (
        make_table(built_in()) if built is None else join_searches(built.marks, built.entries, built.pieces)
    )


@pytest.mark.parametrize("dear", [20_000, -1], ids=["asked one by one", "asked for all"])
def test_what_is_behind_the_gate_is_found_either_way(dear: int, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("hyperscan", reason="hyperscan is not installed: there is no gate")
    monkeypatch.setattr(gate, "_DEAR", dear)
    whole = table()
    full, alone = make_hyperscan_matcher(whole), make_hyperscan_matcher(whole)
    assert full is not None
    assert alone is not None
    matcher = make_gated_matcher(full, whole, SAMPLE)
    examples = [one.log.encode() for signature in whole.signatures for one in signature.examples]
    examples = examples or [one.log.encode() for signature in built_in() for one in signature.examples]
    for log in random.Random(5).sample(examples, 150):  # noqa: S311  (the same logs every time)
        content = QUIET * 200 + log + b"\n" + QUIET * 200
        ours = Scan(whole, matcher, "rank_1.log", 2026).scan_pieces([content])
        theirs = Scan(whole, alone, "rank_1.log", 2026).scan_pieces([content])
        assert {owner: one.count for owner, one in ours.matches.items()} == {
            owner: one.count for owner, one in theirs.matches.items()
        }
        assert (ours.counts, ours.aside, ours.lines) == (theirs.counts, theirs.aside, theirs.lines)


def test_much_that_is_seen_is_looked_at_as_a_whole() -> None:
    pytest.importorskip("hyperscan", reason="hyperscan is not installed: there is no gate")
    whole = table()
    full, alone = make_hyperscan_matcher(whole), make_hyperscan_matcher(whole)
    assert full is not None
    assert alone is not None
    flood = b"[ERROR] GE(1,python): EZ9999: Inner Error! E19999, EF1003\n" * 400
    found = make_gated_matcher(full, whole, SAMPLE).find(flood)
    owners = {owner for number, _end in found for owner in full.owners[number]}
    assert owners >= {owner for number, _end in alone.find(flood) for owner in alone.owners[number]}


def test_codes_share_pieces() -> None:
    codes = [pieces.cased_pieces_of(f"EF10{number}".encode(), False) for number in range(10, 20)]
    assert list(pieces.choose_cover(codes)) == [(b"EF101", False)]


def test_a_code_is_known_as_it_is_written() -> None:
    (known,) = pieces.choose_pieces(((Literal("EF1003"),),), Sample(b"0x12c0ef1003ab"))
    assert known
    assert not any(caseless for _text, caseless in known)


def test_lines_are_counted_whatever_their_length() -> None:
    chance = random.Random(3)  # noqa: S311  (the same lines every time)
    for longest in (1, 3, 40, 150, 20_000):
        text = b"".join(b"x" * chance.randrange(longest) + b"\n" for _line in range(900))
        for piece in (text, text[:-1], text[5:], b""):
            assert count_line_ends(piece) == piece.count(b"\n")
