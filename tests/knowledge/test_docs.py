"""docs/knowledge.md: its example is loaded and counts, and its table names all sections."""

from __future__ import annotations

import re
from pathlib import Path

from npudoctor import Severity
from npudoctor.checking.needs import THINGS
from npudoctor.checks.python.interpreter import interpreter
from npudoctor.checks.python.package_requirements import package_requirements
from npudoctor.checks.python.torch_npu import torch_npu
from npudoctor.knowledge.site import Knowledge
from npudoctor.knowledge.tables import list_tables, load_table
from npudoctor.registry.entrypoints import parse_entry_points
from npudoctor.testing import ask, fake_host, package_files

from ..checks.python.stack_machine import cann, installed, site  # noqa: TID252

TEXT = (Path(__file__).parents[2] / "docs/knowledge.md").read_text(encoding="utf-8")
EXAMPLE, PLUG_IN = re.findall(r"^```toml\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)
CLOSED = ("hccl_variables", "log_variables", "nccl_variables", "paddle_flags", "return_numbers", "variables")


def test_the_example_is_used(tmp_path: Path) -> None:
    knowledge = Knowledge(site(tmp_path / "k", EXAMPLE))
    assert knowledge.broken() == []
    assert {key: len(rows) for key, rows in knowledge.site_rows().items()} == {
        ("torch_npu", "cann"): 2,
        ("mindspore", "python"): 1,
        ("frameworks", "trainers"): 1,
    }


def test_the_example_says_what_it_promises(tmp_path: Path) -> None:
    directory = site(tmp_path / "k", EXAMPLE)
    allowed = {**installed(torch_npu="2.7.1.post2", torch="2.7.1"), **cann("8.2.RC1")}
    assert ask(torch_npu, fake_host(allowed)).codes != []
    assert ask(torch_npu, fake_host(allowed, knowledge=directory)).codes == []
    forbidden = {**installed(torch_npu="2.6.0", torch="2.6.0"), **cann("8.1.RC1")}
    assert ask(torch_npu, fake_host(forbidden, knowledge=directory)).codes == ["torch-npu.cann-incompatible"]
    built = package_files("mindspore", "2.7.1")
    assert ask(interpreter, fake_host(built, python_version="3.12.1")).codes != []
    assert ask(interpreter, fake_host(built, python_version="3.12.1", knowledge=directory)).codes == []
    own = package_files("acme-trainer", "1.0", "Requires-Dist: acme-data")
    assert ask(package_requirements, fake_host(own)).codes == []
    told = ask(package_requirements, fake_host(own, knowledge=directory))
    assert [(one.code, one.severity) for one in told.findings] == [
        ("package-requirements.missing", Severity.WARNING)
    ]


def test_every_section_is_named() -> None:
    told = set(re.findall(r"^\| `([\w.*]+)` \|", TEXT, re.MULTILINE))
    for name in set(list_tables()) - set(CLOSED):
        sections = [key for key, rows in load_table(name).items() if isinstance(rows, list)]
        assert f"{name}.*" in told or {f"{name}.{section}" for section in sections} <= told, name
    assert {one.split(".")[0] for one in told} <= set(list_tables())


def test_the_plug_in_is_found_as_pip_installs_it() -> None:
    line = PLUG_IN.splitlines()[-1].replace('"', "")
    assert parse_entry_points(f"[npudoctor.checks]\n{line}\n") == [("site-disk", "acme_disk")]


def test_what_needs_may_name_is_all_there() -> None:
    assert all(f"`{thing}`" in TEXT for thing in THINGS)
