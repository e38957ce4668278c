"""A rule about versions is an error only where somebody saw it fail: a real test, or a public thread."""

from __future__ import annotations

import pytest
from tests.speaking import ROOT

from npudoctor.core.model import Severity
from npudoctor.knowledge.site import Knowledge
from npudoctor.registry.registry import load_all

# What a code that compares versions is called. What is missing, or of another machine, is proven by files.
WORDS = (
    *(
        "unsuitable",
        "mismatch",
        "torch-mismatch",
        "vllm-mismatch",
        "other-version",
        "other-build",
        "unmet-requirement",
        "too-old",
    ),
    *("cann-incompatible", "incompatible", "not-accepted", "numpy-2", "slow-initialisation", "two-versions"),
    *("fewer-than", "version", "compat-unusable", "glibc-too-old"),
)
TABLE = "requirements.fails"  # an error only where a row there says with which error it was seen to fail
DECLARED = "declared"  # an error only where its maker, or this site, says that it does not work
FILES = "files"  # the files themselves say that the loader or CUDA refuses them
SEEN = {
    "cann-driver.incompatible": DECLARED,
    "cann-python-deps.numpy-2": "https://github.com/vllm-project/vllm-ascend/issues/2210",
    "cuda-driver.compat-unusable": FILES,
    "cuda-driver.mismatch": FILES,
    "cuda-driver.too-old": FILES,
    "libstdcxx.glibc-too-old": FILES,
    "libstdcxx.too-old": FILES,
    "like-snapshot.version": DECLARED,
    "mindspore-cann.cann-incompatible": DECLARED,
    # libcann_kb.so: cannot open shared object file
    "mindspore-cann.not-accepted": "https://github.com/mindspore-ai/mindspore/issues/236",
    "nccl-version.too-old": "tests/real/test_real_nccl.py",
    "numpy-version.unsuitable": TABLE,
    "package-files.two-versions": "tests/real/environment_cases.py: numpy-twice",
    "package-requirements.unsuitable": TABLE,
    "paddle-npu.cann-incompatible": DECLARED,
    # MindSpore's own FAQ, "Performance Tuning": weight initialization is very slow
    "scipy-version.slow-initialisation": DECLARED,
    "scipy-version.unsuitable": TABLE,
    "te-topi.other-version": FILES,
    "torch-family.mismatch": "tests/real/environment_cases.py: torchvision-of-another-torch",
    # RuntimeError: operator torchvision::nms does not exist
    "torch-family.other-build": "https://github.com/pytorch/vision/issues/8985",
    "torch-npu.cann-incompatible": DECLARED,
    # libtorch_npu.so: undefined symbol: _ZN5torch10ValueErrorC1EPKcz
    "torch-npu.torch-mismatch": "https://github.com/Ascend/pytorch/issues/35",
    "vllm-ascend.cann-incompatible": DECLARED,
    # libtorch_npu.so: undefined symbol: _ZN3atb15CreateOperationINS_5infer14GroupTopkParamEEE...
    "vllm-ascend.unmet-requirement": "https://github.com/vllm-project/vllm-ascend/issues/117",
    # a traceback in load_general_plugins()
    "vllm-ascend.vllm-mismatch": "https://github.com/vllm-project/vllm-ascend/issues/9672",
}


def test_every_rule_about_versions_that_is_an_error_names_the_failure() -> None:
    declared = {code: severity for one in load_all({}).checks for code, severity in one.codes.items()}
    errors = {code for code, severity in declared.items() if severity is Severity.ERROR}
    assert {code for code in errors if code.partition(".")[2] in WORDS} == set(SEEN)


@pytest.mark.parametrize("evidence", sorted({text for text in SEEN.values() if text.startswith("tests/")}))
def test_the_real_test_is_there(evidence: str) -> None:
    path, _colon, case = evidence.partition(": ")
    assert f'"{case}"' in (ROOT / path).read_text(encoding="utf-8") if case else (ROOT / path).is_file()


def test_every_row_that_makes_an_error_says_with_which_words() -> None:
    rows = Knowledge().rows("requirements", "fails")
    assert len(rows) >= 6
    for row in rows:
        seen = row["source"].startswith("seen: ") or " issue " in row["source"]
        assert (seen, bool(row["error"]), bool(row["breaks"])) == (True, True, True), row.values
