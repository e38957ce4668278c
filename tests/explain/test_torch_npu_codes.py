"""The codes of torch_npu: each is known, and says no more than it can."""

from __future__ import annotations

import pytest

from npudoctor.explain.signatures.judging import CATEGORIES
from npudoctor.explain.signatures.torch_npu_codes import list_codes, signature_of_torch_npu


def test_there_are_five_modules_of_fifteen_kinds() -> None:
    assert len(set(list_codes())) == 75


@pytest.mark.parametrize("code", list_codes())
def test_each_is_explained_in_both_languages(code: str) -> None:
    signature = signature_of_torch_npu(code.lower())
    assert signature is not None and signature.id == code and signature.category in CATEGORIES
    for texts in (signature.title, signature.cause):
        assert texts["en"].isascii() and any("\u4e00" <= char <= "\u9fff" for char in texts["zh"])
        assert not any("{" in text for text in texts.values())
    assert code in signature.title["en"] and code in signature.remedy["zh"][0]


@pytest.mark.parametrize(
    "word", ["ERR05100", "ERR00013", "ERR00000", "ERR0010", "ERR001000", "XERR00100", "00100"]
)
def test_what_torch_npu_does_not_have_is_not_explained(word: str) -> None:
    assert signature_of_torch_npu(word) is None


def test_what_a_code_means_is_its_module_and_its_kind() -> None:
    acl, dist = signature_of_torch_npu("ERR00100"), signature_of_torch_npu("ERR02200")
    assert acl is not None and dist is not None
    assert "PTA" in acl.title["en"] and "call acl api failed" in acl.title["en"]
    assert "DIST" in dist.title["en"] and "HCCL" in dist.cause["en"]
