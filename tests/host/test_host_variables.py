"""The same machine under other variables: what hangs on them is looked at anew, all else is kept."""

from __future__ import annotations

from npudoctor.host import Host
from npudoctor.testing import fake_host


def test_what_hangs_on_variables_is_new() -> None:
    host = Host(variables={"A": "1", "PATH": "/usr/bin"})
    assert host.once("fact", lambda: 1) == 1
    files, processes, python = host.files, host.processes, host.interpreter
    other = host.with_variables({"A": "2", "PATH": "/usr/bin"})
    assert (other.variables["A"], host.variables["A"]) == ("2", "1")
    assert other.files is files and other.processes is processes
    assert other.interpreter is not python
    assert other.once("fact", lambda: 2) == 2
    host.close()


def test_what_a_fake_machine_was_given_stays() -> None:
    host = fake_host({"/a": "x"}, packages={"torch": "2.1.0"}, variables={"A": "1"})
    other = host.with_variables({})
    assert other.files.text("/a") == "x" and other.interpreter.version_of("torch") == "2.1.0"
    assert dict(other.variables) == {}


def test_it_ends_with_the_first() -> None:
    host = Host(variables={})
    commands = host.with_variables({}).commands
    host.close()
    assert commands.run(["/bin/true"]).ended == "not-started"
