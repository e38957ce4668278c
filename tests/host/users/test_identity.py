"""Who we are: always with a home that is an absolute path."""

from __future__ import annotations

import pytest

from npudoctor.checks.cann.cann_install import cann_install
from npudoctor.host import Host
from npudoctor.host.users.identity import current_identity
from npudoctor.testing import MemoryDisk, ask


@pytest.mark.parametrize("home", ["ann", "~", ""])
def test_a_home_that_is_no_absolute_path(home: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As Python says it of a user id without a name whose HOME is unset, or where HOME is relative."""
    monkeypatch.setattr("os.path.expanduser", lambda path: home)
    identity = current_identity()
    assert identity.home == "/"
    assert ask(cann_install, Host(disk=MemoryDisk({}), variables={}, identity=identity)).reason


def test_a_home() -> None:
    assert current_identity().home.startswith("/")
