"""What names programs for root to run must be root's, before anything is started."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from npudoctor.core.errors import CannotTell
from npudoctor.core.trust import configuration as subject

SOMEBODY = 4711

pytestmark = pytest.mark.needs_root


@pytest.fixture(autouse=True)
def plain(monkeypatch: pytest.MonkeyPatch, trusted: Path) -> None:
    for name in ("CLUSTERSHELL_CFGDIR", "XDG_CONFIG_HOME", "SLURM_CONF"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(trusted))


@pytest.mark.parametrize("name", ["groups.conf", "topology.conf", "groups.conf.d/site.conf"])
@pytest.mark.parametrize("variable", ["CLUSTERSHELL_CFGDIR", "XDG_CONFIG_HOME", "HOME"])
def test_configuration_of_clustershell(
    trusted: Path, monkeypatch: pytest.MonkeyPatch, variable: str, name: str
) -> None:
    inner = {"CLUSTERSHELL_CFGDIR": "", "XDG_CONFIG_HOME": "clustershell", "HOME": ".config/clustershell"}
    file = trusted / "set" / inner[variable] / name
    file.parent.mkdir(parents=True)
    file.write_text("")
    monkeypatch.setenv(variable, str(trusted / "set"))
    subject.require_trusted()
    os.chown(file, SOMEBODY, SOMEBODY)
    with pytest.raises(CannotTell, match=f"{name} can specify programs.* belongs to another user"):
        subject.require_trusted()


def test_configuration_of_slurm_that_another_user_could_make(
    trusted: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLURM_CONF", str(trusted / "missing" / "slurm.conf"))
    subject.require_trusted("slurm")
    monkeypatch.setenv("SLURM_CONF", "/tmp/missing/slurm.conf")
    with pytest.raises(CannotTell, match="/tmp is writable by other users"):
        subject.require_trusted("slurm")
    subject.require_trusted("ssh")


def test_configuration_of_ssh_with_what_it_includes(trusted: Path) -> None:
    (trusted / "config").write_text("Host *\n  Include inner.*\n")
    (trusted / "inner.conf").write_text("ProxyCommand true\n")
    paths = list(subject._ssh_includes(str(trusted / "config"), str(trusted), "/root", 16))
    assert paths == [str(trusted / "config"), str(trusted / "inner.conf")]
    os.chown(trusted / "inner.conf", SOMEBODY, SOMEBODY)
    with pytest.raises(CannotTell, match="belongs to another user"):
        subject._require_trusted_paths(paths)
