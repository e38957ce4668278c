"""Every signature: well-formed, with an example that it finds and a near miss that it does not."""

from __future__ import annotations

from pathlib import Path

import pytest

from npudoctor.explain.signatures.recognise import first
from npudoctor.explain.signatures.signatures import Signature, built_in, names
from npudoctor.registry import registry

ALL = built_in()
CHECKS = {check.id for check in registry.load_all({"NPUDOCTOR_CHECKS_DIR": ""}).checks}
IDS = {signature.id for signature in ALL}


@pytest.mark.parametrize("signature", ALL, ids=lambda one: one.id)
def test_a_signature_finds_its_examples_and_no_near_miss(signature: Signature) -> None:
    for example in signature.examples:
        found = first(signature, example.log)
        assert (found is not None) is example.match, (signature.id, example.log)
    assert {example.match for example in signature.examples} == {True, False}, "wants one of each"


@pytest.mark.parametrize("signature", ALL, ids=lambda one: one.id)
def test_what_a_signature_names_exists(signature: Signature) -> None:
    assert set(signature.checks) <= CHECKS, signature.id
    assert set(signature.echo_of) <= IDS - {signature.id}, signature.id
    assert signature.source.startswith(("https://", "http://")) or signature.source == "own work"


def test_a_code_is_explained_by_one_signature() -> None:
    codes = [code for signature in ALL for code in signature.codes]
    assert sorted(codes) == sorted(set(codes))


def test_every_file_has_signatures() -> None:
    assert names() and all(name == name.lower() and Path(name).suffix == ".toml" for name in names())
