"""--user and --job: cache-server says only what is one owner's, whatever was needed to judge it."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest
from tests.checks.leftovers.leftovers_machine import Leftovers, key_of, logged, spilling

from npudoctor import Status
from npudoctor.checks.leftovers.cache_server import cache_server
from npudoctor.facts.leftovers.owners import selected_owner
from npudoctor.host import CannotTell, Host, Options
from npudoctor.testing import Asked, ask, fake_host


def machine(tmp: Path) -> Host:
    """One of everything that a cache server leaves, all of it ours."""
    left = Leftovers(tmp)
    orphan, attached = left.socket(50052), left.socket(50053)
    left.segment(1, key_of(orphan))
    left.segment(2, key_of(attached), nattch=3)
    left.client(4711, 2, key_of(attached))
    spilled = left.spill("a")
    left.log(logged(left.segment(3, 0x61000003)), spilling(spilled))
    left.segment(4, 0x61000004)
    return left.host()


def judged(tmp: Path, **options: str) -> Asked:
    host = machine(tmp)
    host.options = replace(host.options, **options)  # type: ignore[arg-type]
    return ask(cache_server, host)


def test_of_one_owner(tmp_path: Path) -> None:
    everything = judged(tmp_path / "1").codes
    assert {"cache-server.orphan-segment", "cache-server.client-attached", "cache-server.unproven"} <= set(
        everything
    )
    assert judged(tmp_path / "2", only_user=str(os.geteuid())).codes == everything
    assert judged(tmp_path / "3", only_user="61234").codes == []


def test_no_leftover_names_a_job(tmp_path: Path) -> None:
    assert judged(tmp_path, only_job="7").status is Status.SKIPPED


def test_names_are_the_machines_own() -> None:
    table = "root:x:0:0::/root:/bin/sh\nroot:x:4711:0::/:/bin/sh\nanna:x:1001:1001::/home/anna:/bin/sh\n"

    def owner(name: str) -> object:
        return selected_owner(fake_host({"/etc/passwd": table}, options=Options(only_user=name)))

    assert [owner(name) for name in ("anna", "1002")] == [1001, 1002]
    with pytest.raises(CannotTell):
        owner("nobody-has-this-name")
