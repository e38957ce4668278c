"""Machines on which cann-install says all that it can say."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from npudoctor.checks.cann.cann_install import cann_install
from npudoctor.testing import Asked, ask, fake_host, link, unreadable

from .cann_trees import ASCEND, CANN, LATEST, TOOLKIT, healthy, later, latest, release, sourced


def scene(tmp: Path) -> Iterator[Asked]:
    """Each code, and each way of putting it."""
    yield ask(cann_install, fake_host())
    yield ask(cann_install, fake_host(packages={"torch-npu": "2.5.1"}, expect="npu"))
    for tree in ({TOOLKIT: unreadable()}, {**healthy(), f"{TOOLKIT}/8.1.RC1/opp": unreadable()}):
        for variables in ({}, sourced()):
            yield ask(cann_install, fake_host(tree, variables=variables, machine="aarch64"))
    gone = {**release(), **latest("8.0.0")}
    yield ask(cann_install, fake_host(gone, machine="aarch64"))
    yield ask(cann_install, fake_host({**later(), CANN: link("cann-8.3.0")}, machine="aarch64"))
    two = {**healthy(), **release("8.0.0", "7.6.0.1.220"), **latest("8.1.RC1", opp="8.0.0")}
    yield ask(cann_install, fake_host(two, machine="x86_64"))
    bare = {path: content for path, content in healthy().items() if "opp_kernel" not in path}
    yield ask(cann_install, fake_host(bare, machine="aarch64", expect="npu"))
    bare = {path: content for path, content in later().items() if "ops_install" not in path}
    yield ask(cann_install, fake_host(bare, machine="aarch64", expect="npu"))
    other = {**healthy(), f"{TOOLKIT}/8.1.RC1/opp_kernel/version.info": "Version=7.5.0.1.129\n"}
    yield ask(cann_install, fake_host(other, machine="aarch64"))
    no_library = {path: content for path, content in healthy().items() if "libascendcl" not in path}
    yield ask(cann_install, fake_host(no_library, machine="x86_64", variables={"ASCEND_HOME_PATH": LATEST}))
    yield ask(cann_install, fake_host({f"{ASCEND}/nnae/latest": link("8.0.RC3"), **healthy()}))
