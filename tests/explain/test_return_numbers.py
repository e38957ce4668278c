"""Return numbers of CANN: each that is documented speaks, alone and in a log; other numbers are quiet."""

from __future__ import annotations

import re
from typing import Optional

import pytest
from tests.support.engines import late, plain

from npudoctor.explain.engine import Engine, make_engine
from npudoctor.explain.ranking.diagnosis import Diagnosis
from npudoctor.explain.signatures.codes import find_by_code
from npudoctor.explain.signatures.return_numbers import (
    ReturnNumber,
    explain_number,
    number_in,
    number_of_word,
    return_number,
)
from npudoctor.explain.signatures.signatures import InvalidSignature, built_in, signature_of
from npudoctor.knowledge.tables import load_table

ENGINE = late()

SECTIONS = [rows for rows in load_table("return_numbers").values() if isinstance(rows, list)]
ALL = {row["number"]: ReturnNumber(**row) for rows in SECTIONS for row in rows}
HCCL = [number for number, one in ALL.items() if one.name.startswith("HCCL_E_")]
ACL = [number for number in ALL if number not in HCCL]
# What the manuals list without a gap, and how many there are where they have gaps.
DENSE = [*range(100000, 100046), *range(148046, 148054), *range(507000, 507058), *range(561101, 561120)]
FORMS = (
    "RuntimeError: call:build/x.ts:81 NPU function error: aclrtThing, error code is {}",
    "RuntimeError: Device 3 call rtThing failed, ret[{}]. The details refer to 'Ascend Error Message'.",
    "[ERROR] RUNTIME(1,python):2026-01-02-03:04:05.006.007 [api.cc:12] thing failed, errorCode={}.",
    "[ERROR] aclThing(&desc) failed : {}",
    "推理失败，错误码：{}",
)
HCCL_FORMS = (
    "RuntimeError: create:x:1 HCCL function error: hcclInit(&root, &(comm->hcclComm_)), error code is {}",
    "RuntimeError: InnerRunOpApi:x.cpp:281 OPS function error: HcclAllreduce, error code is {}",
    "[ERROR] HCCL(1,python):2026-01-02-03:04:05.006.007 [a.cc:1] [1][Init]call trace: hcclRet -> {}",
    "[error] [36815] [hccl_runner.cpp:132] Runner:0 HcclCommInitRootInfo fail, error:{}, rank:1, rankSize:4",
)
OTHERS = (
    "step {n} loss 0.{n} lr 1e-4",
    "loss: {head}.{tail}",
    "pid {n} started, uid 0",
    "listening on port {port}",
    "epoch {n}/{n}, throughput: {n} tokens/s",
    "saved ckpt_{n}.pt ({n} bytes)",
    "eval result: {n}.25",
    "elapsed_ms={n}",
)


def diagnoses(log: str, engine: Engine = ENGINE) -> tuple[Diagnosis, ...]:
    return engine.judge([engine.scan_text(log)]).diagnoses


def speaking(number: str, log: str, engine: Engine = ENGINE) -> Optional[Diagnosis]:
    """The diagnosis by a row of the number."""
    return next((one for one in diagnoses(log, engine) if number in one.signature.codes), None)


def test_the_table_is_whole() -> None:
    assert not [number for number in DENSE if str(number) not in ALL]
    assert len(ACL) >= 290 and sorted(map(int, HCCL)) == [*range(1, 25), 1041]
    for one in ALL.values():
        assert re.search("[\u4e00-\u9fff]", one.zh) or "nullptr" in one.zh, one
        assert not re.search("[\u4e00-\u9fff]", one.en) and not one.en.endswith("."), one
    names = [one.name for one in ALL.values()]
    assert {name for name in names if names.count(name) > 1} == {"ACL_ERROR_RTC_NAME_EXPR_NOT_VALID"}


def test_a_row_is_found_by_its_number_and_by_its_name() -> None:
    assert sum(map(len, SECTIONS)) == len(ALL)
    for number, row in ALL.items():
        assert return_number(number) == row and number_of_word(number) == number
        assert number_of_word(row.name) == number or row.number == "276000"  # the manual has its name twice
    assert return_number("599999") is None and return_number('"') is None


def test_each_number_is_of_one_row_and_each_row_of_known_numbers() -> None:
    owners = [code for one in built_in() for code in one.codes if code.isdigit()]
    assert sorted(owners) == sorted(ALL)


@pytest.mark.parametrize("language", ["en", "zh"])
def test_each_number_speaks_when_it_is_asked_for(language: str) -> None:
    for number, row in ALL.items():
        (found,) = [explain_number(one, number) for one in find_by_code(number, built_in())]
        said = f"{found.title[language]} {found.cause[language]}"
        assert f"[{number} {row.name}]" in said and getattr(row, language) in said
        assert found.remedy[language]


@pytest.mark.parametrize("form", FORMS)
def test_each_number_is_found_in_a_line(form: str) -> None:
    for number in ACL:
        found = speaking(number, form.format(number))
        assert found is not None, number
        if found.signature.numbered:
            assert f"[{number} " in found.signature.title["en"]
            assert found.confidence != "certain"


@pytest.mark.parametrize("form", HCCL_FORMS)
def test_each_result_of_hccl_is_found_in_a_line(form: str) -> None:
    for number in HCCL:
        found = speaking(number, form.format(number))
        assert found is not None, number
        assert speaking(number, form.format(f"{number}9")) is None


def test_results_of_hccl_by_name_and_in_hexadecimal() -> None:
    for number in HCCL:
        for line in (
            f"[ERROR] Init failed: {ALL[number].name}",
            f"[ERROR] HCCL(1,python): [Init]errNo[0x000000000501{int(number):04x}] hcclComm init error",
        ):
            found = speaking(number, line)
            if number == "9" and "errNo" not in line:
                continue  # its row is known by what it says, not by its name
            assert found is not None, line
            if found.signature.numbered:
                assert f"[{number} " in found.signature.title["zh"], line


def test_both_engines_find_the_same() -> None:
    log = "\n".join(form.format(number) for form in FORMS for number in ACL[::7])
    ids = [{one.signature.id for one in diagnoses(log, engine)} for engine in (ENGINE, plain())]
    assert ids[0] == ids[1]


@pytest.mark.parametrize("form", OTHERS)
def test_other_numbers_are_quiet(form: str) -> None:
    for number in ACL:
        line = form.format(n=number, head=number[:3], tail=number[3:], port=number[:5])
        judged = ENGINE.judge([ENGINE.scan_text(f"{line}\nsaving the model\n")])
        assert (judged.verdict, judged.diagnoses) == ("clean", ()), line
        assert not ENGINE.scan_text(
            f"Traceback (most recent call last):\n{line}\nValueError: no"
        ).matches.keys() & {
            index for index, one in enumerate(ENGINE.table.signatures) if number in one.codes
        }, line


@pytest.mark.parametrize(
    "line",
    [
        '{"code": 200000, "msg": "success"}',
        '{"code": 100001, "message": "token expired"}',
        '{"error_code": 100005, "error_msg": "quota"}',
        '{"code": 107002, "msg": "no such order"}',
        "code 100001: token expired",
        "decode: 100000 samples",
        "result = 500000",
        "num_result: 300000",
        "error code is 5",
        "error code is 11",
        "process exited, ret -> 7",
        "HCCL_BUFFSIZE=7",
        "AllReduce call trace: 7 frames",
    ],
)
def test_small_and_round_numbers_need_more_words(line: str) -> None:
    text = f"{line}\nRuntimeError: something else is wrong here\n"
    assert not [one.signature.id for one in diagnoses(text) if set(one.signature.codes) & set(ALL)]


@pytest.mark.parametrize(
    ("number", "verdict", "category"),
    [
        ("161002", "not_environment", "script-bug-not-environment"),
        ("100001", "not_environment", "script-bug-not-environment"),
        ("107025", "not_environment", "script-bug-not-environment"),
        ("507022", "environment", "other"),
        ("507020", "environment", "driver-firmware"),
        ("545004", "environment", "other"),
        ("561107", "environment", "cann-env-not-sourced"),
        ("561114", "environment", "version-mismatch-cann"),
        ("207019", "environment", "driver-firmware"),
        ("574008", "environment", "driver-firmware"),
    ],
)
def test_verdicts(number: str, verdict: str, category: str) -> None:
    judged = ENGINE.judge([ENGINE.scan_text(FORMS[0].format(number))])
    assert (judged.verdict, judged.diagnoses[0].signature.category) == (verdict, category)


@pytest.mark.parametrize(
    ("number", "category"),
    [
        ("1", "script-bug-not-environment"),
        ("3", "out-of-device-memory"),
        ("4", "other"),
        ("5", "operator-unsupported"),
        ("7", "port-or-firewall-or-address-in-use"),
        ("9", "hccl-timeout-desync"),
        ("11", "network-hccl-link-or-ip"),
        ("15", "other"),
        ("16", "driver-firmware"),
        ("21", "network-hccl-link-or-ip"),
    ],
)
def test_results_of_hccl_are_each_of_their_own_category(number: str, category: str) -> None:
    assert diagnoses(HCCL_FORMS[0].format(number))[0].signature.category == category


@pytest.mark.parametrize(
    ("log", "root"),
    [
        (
            HCCL_FORMS[0].format(4)
            + "\nEI0006: 2024-08-05-18:15:21.270.506 Getting socket times out. Reason: ...",
            "hccl-connect-timeout",
        ),
        (
            FORMS[0].format(507020) + "\n[ERROR] HBM multi-bit ECC error on device 3",
            "npu-ecc",
        ),
        (
            FORMS[2].format(161002)
            + "\nImportError: libhccl.so: cannot open shared object file: No such file or directory",
            "loader-cann-library",
        ),
        (
            "[ERROR] HCCL(1,python): listen on ip[192.0.2.1] and specific port[16666] fail.\n"
            + HCCL_FORMS[2].format(7),
            "port-in-use-hccl",
        ),
    ],
)
def test_the_line_that_names_the_cause_beats_the_number(log: str, root: str) -> None:
    assert diagnoses(log)[0].signature.id == root


def test_device_0_is_not_the_scripts_fault() -> None:
    refused = "[PID: 77] Invalid_Device_ID(EL0002): The device ID is invalid, deviceId={}."
    first, ninth = (ENGINE.judge([ENGINE.scan_text(refused.format(number))]) for number in (0, 9))
    assert (first.verdict, first.diagnoses[0].signature.id) == ("environment", "device-zero-refused")
    assert (ninth.verdict, ninth.diagnoses[0].signature.id) == ("not_environment", "device-id-invalid-script")


def test_names_stand_for_numbers() -> None:
    assert number_of_word("ACL_ERROR_RT_IPC_ERROR") == "507022"
    assert number_of_word("hccl_e_unavail ") == "7"
    assert number_of_word("hccl-notify-timeout") == "hccl-notify-timeout"
    assert number_of_word("EE9999") == "EE9999"


def test_a_row_without_its_number_says_what_it_is_about() -> None:
    (row,) = (one for one in built_in() if one.id == "return-number-inner")
    assert explain_number(row, None) == row == explain_number(row, "507035")
    assert number_in(row, "something else, error code is 507035") is None


ROW = {
    "id": "own-number",
    "category": "other",
    "environment": True,
    "weight": 90,
    "title": {"en": "Ours", "zh": "自有"},
    "cause": {"en": "Ours.", "zh": "自有。"},
    "remedy": {"en": ["Ask."], "zh": ["询问。"]},
    "source": "own work",
    "as_of": "2026-11",
}


def test_a_site_may_list_numbers() -> None:
    row = signature_of({**ROW, "numbers": ["599123"], "codes": ["OWN1"]}, "site")
    assert row.codes == ("599123", "OWN1")
    engine = make_engine([row])
    assert engine.judge([engine.scan_text(FORMS[1].format(599123))]).diagnoses
    assert not engine.judge([engine.scan_text("ValueError: 599123")]).diagnoses


@pytest.mark.parametrize(
    "wrong", [{}, {"numbers": []}, {"numbers": ["9"]}, {"numbers": [507022]}, {"hccl": ["x"]}, {"hccl": "9"}]
)
def test_what_is_no_number_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(InvalidSignature, match="own-number"):
        signature_of({**ROW, **wrong}, "site")
