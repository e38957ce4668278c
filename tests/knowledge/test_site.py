"""The rows that a site adds: used when the file is trusted and they look as ours do, else told."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from npudoctor.host import Host, Options
from npudoctor.knowledge.distributions import list_job_distributions
from npudoctor.knowledge.site import _CLOSED, Knowledge, _find_problem
from npudoctor.knowledge.tables import BUILT_IN, list_tables, load_table
from npudoctor.testing import MemoryDisk, folder

GOOD = '[[torch_npu.cann]]\ntorch_npu = "2.7.1"\ncann = "7.0.0"\nsource = "ours"\nas_of = "2026-12"\n'


def written(folder: Path, text: str, name: str = "a.toml") -> Path:
    """A file that may be trusted."""
    path = folder / name
    path.write_text(text, encoding="utf-8")
    path.chmod(0o644)
    return path


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    made = tmp_path / "knowledge.d"
    made.mkdir(mode=0o755)
    return made


def test_its_rows_come_before_ours(directory: Path) -> None:
    path = written(directory, GOOD)
    rows = Knowledge(str(directory)).rows("torch_npu", "cann")
    assert (rows[0].texts("cann"), rows[0].origin) == (("7.0.0",), str(path))
    assert rows[1].origin == BUILT_IN and len(rows) == len(load_table("torch_npu")["cann"]) + 1


def test_a_broken_file_does_not_spoil_the_next(directory: Path) -> None:
    written(directory, "a = [", "a.toml")
    written(directory, GOOD, "b.toml")
    written(directory, "no rows", "c.txt")
    knowledge = Knowledge(str(directory))
    assert len(knowledge.site_rows()[("torch_npu", "cann")]) == 1
    (broken,) = knowledge.broken()
    assert broken.path.endswith("a.toml") and broken.reason
    assert knowledge.broken("mindspore") == [broken]  # it might have been about that


@pytest.mark.parametrize(
    ("text", "named"),
    [
        (GOOD.replace("source", "sauce"), "unknown key sauce"),
        (GOOD.replace('source = "ours"\n', ""), "lacks source"),
        (GOOD.replace('"7.0.0"', "7"), "cann is not a string"),
        (GOOD.replace('"7.0.0"', '["7.0.0", 1]'), "cann is not a string"),
        (GOOD.replace('"2.7.1"', '["2.7.1"]'), "torch_npu is not a string"),
        (GOOD + 'compatible = "no"\n', "compatible must be true or false"),
        (GOOD.replace('"2.7.1"', '"2.7.x"'), "torch_npu cannot be compared with a version: 2.7.x"),
        (GOOD.replace('"7.0.0"', "[]"), "cann is not a string"),
        ("[torch_npu]\ncann = 1\n", "not a list of rows"),
        ("[torch_npu.cannn]\n", "no such section"),
        ("torch_npu = 1\n", "no such section"),
    ],
)
def test_a_row_that_does_not_look_as_ours(directory: Path, text: str, named: str) -> None:
    written(directory, text)
    knowledge = Knowledge(str(directory))
    (broken,) = knowledge.broken("torch_npu")
    assert named in broken.reason
    assert knowledge.broken("mindspore") == []
    assert knowledge.rows("torch_npu", "cann")[0].origin == BUILT_IN


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("import acme", False),
        ("import acme.data", False),
        ("from acme import Trainer, Arguments", False),
        ("acme", True),
        ("import acme; print(1)", True),
        ("import acme\\nprint(1)", True),
        ("import os, acme", True),
        ("from acme import *", True),
        ("__import__('acme')", True),
    ],
)
def test_an_import_of_a_site_is_one_import_and_nothing_else(directory: Path, text: str, wrong: bool) -> None:
    row = f'[[frameworks.trainers]]\ndistribution = "acme"\nmodules = "acme"\nimports = "{text}"\n'
    written(directory, f'{row}source = "ours"\nas_of = "2026-11"\n')
    knowledge = Knowledge(str(directory))
    assert [
        "imports has no import statement" in broken.reason for broken in knowledge.broken("frameworks")
    ] == ([True] if wrong else [])
    assert ("acme" in {one.name for one in list_job_distributions(knowledge)}) is not wrong


def test_of_two_rows_about_one_distribution_the_sites_counts(directory: Path) -> None:
    text = (
        '[[frameworks.trainers]]\ndistribution = "Sentence_Transformers"\nmodules = "sentence_transformers"\n'
    )
    written(directory, f'{text}imports = ["import x"]\nsource = "ours"\nas_of = "2026-11"\n')
    ours = {one.name: one for one in list_job_distributions(Knowledge())}
    told = {one.name: one for one in list_job_distributions(Knowledge(str(directory)))}
    assert told.keys() == ours.keys() and told["torch"] == ours["torch"]
    one = told["sentence-transformers"]
    assert (one.imports, one.after, one.trainer, one.tried) == (("import x",), "", True, False)


def test_whether_a_table_may_mention_a_name(directory: Path) -> None:
    assert Knowledge().may_mention("frameworks", {"six", "torch_npu"})
    assert not Knowledge().may_mention("frameworks", {"six", "torc", "as_of"})
    text = '[[frameworks.trainers]]\ndistribution = "acme"\nmodules = "acme"\nimports = "import acme"\n'
    written(directory, f'{text}source = "ours"\nas_of = "2026-11"\n')
    assert Knowledge(str(directory)).may_mention("frameworks", {"six"})


def test_an_unknown_table_is_told_to_all(directory: Path) -> None:
    written(directory, GOOD.replace("torch_npu.cann", "torchnpu.cann"))
    (broken,) = Knowledge(str(directory)).broken("mindspore")
    assert "torchnpu" in broken.reason and "torch_npu" in broken.reason


PACKAGE = (
    '[[cann_packages.packages]]\nname = "ours"\nspecifier = "{}"\nstart = {}\n'
    'source = "us"\nas_of = "2026-12"\n'
)


def test_a_row_of_a_package(directory: Path) -> None:
    written(directory, PACKAGE.format(">=1", "true"))
    assert Knowledge(str(directory)).rows("cann_packages", "packages")[0]["start"] is True


@pytest.mark.parametrize(
    ("specifier", "start", "named"),
    [(">= what", "true", "specifier cannot be compared"), (">=1", '"yes"', "start must be true or false")],
)
def test_a_package_that_could_not_be_judged(directory: Path, specifier: str, start: str, named: str) -> None:
    written(directory, PACKAGE.format(specifier, start))
    (broken,) = Knowledge(str(directory)).broken("cann_packages")
    assert named in broken.reason


def test_how_a_variable_is_read_is_not_a_sites_to_say(directory: Path) -> None:
    written(directory, '[[variables.variable]]\nname = "X"\n')
    (broken,) = Knowledge(str(directory)).broken()
    assert "no table variables" in broken.reason and "torch_npu" in broken.reason


def test_a_file_that_is_nested_without_end(directory: Path) -> None:
    written(directory, "a = " + "[" * 100_000)
    assert len(Knowledge(str(directory)).broken()) == 1


def test_our_own_rows_are_as_a_sites_must_be() -> None:
    for name in list_tables():
        for section, rows in load_table(name).items():
            for row in rows if name not in _CLOSED else ():
                assert _find_problem(f"{name}.{section}", row, rows) is None, row


def test_what_others_may_write_is_not_read(directory: Path) -> None:
    written(directory, GOOD).chmod(0o666)
    knowledge = Knowledge(str(directory))
    assert knowledge.site_rows() == {} and "a.toml" in knowledge.broken()[0].reason


def test_bytes_that_are_no_text(directory: Path) -> None:
    written(directory, "").write_bytes(b"\xff\xfe")
    assert len(Knowledge(str(directory)).broken()) == 1


def test_no_directory_is_fine_and_a_file_in_its_place_is_told(tmp_path: Path) -> None:
    assert Knowledge(str(tmp_path / "none")).broken() == []
    assert Knowledge("").rows("torch_npu", "cann")
    path = written(tmp_path, GOOD)
    (broken,) = Knowledge(str(path)).broken()
    assert broken.path == str(path)


def test_what_may_hang_is_not_touched() -> None:
    class Remote(MemoryDisk):
        def may_block(self, path: str) -> bool:
            return path == "/mnt/far"

    host = Host(Options(knowledge="/mnt/far"), disk=Remote({"/mnt/far": folder()}), variables={})
    (broken,) = host.knowledge.broken()
    assert "/mnt/far" in broken.reason


def test_every_row_of_ours_has_its_source_and_its_time() -> None:
    ours = "cann_internal_versions cann_python mindspore paddle_npu torch_npu vllm_ascend".split()
    assert set(ours) <= set(list_tables())
    for name in ours:
        for section, rows in load_table(name).items():
            for row in rows:
                assert row["source"] and row["as_of"].startswith("20"), (section, row)


def test_read_once(directory: Path) -> None:
    written(directory, GOOD)
    knowledge = Knowledge(str(directory))
    first = knowledge.rows("torch_npu", "cann")
    os.unlink(directory / "a.toml")
    assert knowledge.rows("torch_npu", "cann") == first
