"""Every signature: well-formed, with an example that it finds and a near miss that it does not."""

from __future__ import annotations

import functools
import re
from pathlib import Path

import pytest

from npudoctor.explain.signatures.recognise import find_first
from npudoctor.explain.signatures.signatures import FOLDER, Signature, built_in, names
from npudoctor.registry import registry

CHECKS = {check.id for check in registry.load_all({"NPUDOCTOR_CHECKS_DIR": ""}).checks}
# As they are written: to make them all takes a second, and every process collects these tests.
IDS = [
    name
    for file in names()
    for name in re.findall(r'^id = "(.+)"$', Path(FOLDER, file).read_text(encoding="utf-8"), re.MULTILINE)
]


@functools.cache
def by_id() -> dict[str, Signature]:
    return {signature.id: signature for signature in built_in()}


def test_every_signature_is_asked_for_here() -> None:
    assert sorted(IDS) == sorted(by_id())


@pytest.mark.parametrize("name", IDS)
def test_a_signature_finds_its_examples_and_no_near_miss(name: str) -> None:
    signature = by_id()[name]
    for example in signature.examples:
        found = find_first(signature, example.log)
        assert (found is not None) is example.match, (signature.id, example.log)
    assert {example.match for example in signature.examples} == {True, False}, "wants one of each"


@pytest.mark.parametrize("name", IDS)
def test_what_a_signature_names_exists(name: str) -> None:
    signature = by_id()[name]
    assert set(signature.checks) <= CHECKS, signature.id
    assert set(signature.echo_of) <= {*IDS} - {signature.id}, signature.id
    assert signature.source.startswith(("https://", "http://")) or signature.source == "own work"


def test_a_code_is_explained_by_one_signature() -> None:
    codes = [code for signature in built_in() for code in signature.codes]
    assert sorted(codes) == sorted(set(codes))


def test_every_file_has_signatures() -> None:
    assert names() and all(name == name.lower() and Path(name).suffix == ".toml" for name in names())
