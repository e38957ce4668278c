"""What another user wrote into an environment does not end up in what root starts or types."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, Optional

import pytest

from npudoctor.checks.python._permissions import _open_fix
from npudoctor.checks.python.virtual_environment import virtual_environment
from npudoctor.facts.python import pip_health
from npudoctor.host import Options
from npudoctor.host.python.installed_files import read_record
from npudoctor.host.python.interpreter import Distribution
from npudoctor.testing import SITE, Content, Node, ask, fake_host, folder, link, package_files

SECRETS: dict[str, Content] = {
    "/root/keys": folder(0o700),
    "/root/keys/id": Node(b"secret", permissions=0o600),
}


def test_no_link_is_opened_for_all() -> None:
    """`chmod -R` follows the link that it is given."""
    plain = fake_host({f"{SITE}/torch": folder(0o700)})
    assert _open_fix(plain, [f"{SITE}/torch"]).commands == (f"chmod -R a+rX {SITE}/torch",)
    led = fake_host({**SECRETS, f"{SITE}/torch": link("/root/keys")})
    assert _open_fix(led, [f"{SITE}/torch", f"{SITE}/torch/id"]).commands == ()
    moved = fake_host({**SECRETS, SITE: link("/root/keys")})
    assert _open_fix(moved, [SITE, f"{SITE}/id"]).commands == ()


def test_a_list_of_files_names_none_elsewhere() -> None:
    info = f"{SITE}/torch-2.7.1.dist-info"
    record = "torch/__init__.py,sha256=AAA,5\ntorch/../../../../../etc/x.py,sha256=AAA,5\n"
    needed, optional = read_record(
        fake_host({f"{info}/RECORD": record}).files, Distribution("torch", "2.7.1", info, ())
    )
    assert ([file.path for file in needed], optional) == (["torch/__init__.py"], [])


@pytest.mark.parametrize("name", ["/usr/bin/python3-team", "/opt/python-team"])
def test_a_program_of_the_system_is_not_replaced(name: str) -> None:
    venv = "/home/ann/venv"
    files: dict[str, Content] = {
        f"{venv}/pyvenv.cfg": "home = /opt/py/bin\nversion = 3.11.7\n",
        f"{venv}/bin/python3": link("/opt/py/bin/python3"),
        "/opt/py/bin/python3": Node(b"ELF", permissions=0o755),
        **package_files("torch", "2.7.1", site=f"{venv}/lib/python3.11/site-packages"),
        name: link(f"{venv}/bin/python3"),
    }
    host = fake_host(files, python=name, python_version="3.11.7", search_path=())
    (finding,) = ask(virtual_environment, host).findings
    assert finding.fix is not None
    assert bool(finding.fix.commands) is not name.startswith("/usr")
    if finding.fix.commands:
        assert finding.fix.undo == (f"ln -sfn {venv}/bin/python3 {name}",)


def asked_host(is_root: bool, trusted: tuple[str, ...]) -> tuple[Any, list[Any]]:
    """A host that notes with what pip is started; a Python in a folder `slow` has no answer in time,
    and one in a folder `none` no pip, or `closed` does not start."""
    started: list[Any] = []

    def run(argv: tuple[str, ...], timeout: float, variables: dict[str, str]) -> Any:
        started.append((argv, variables))
        if "/slow/" in argv[0]:
            return SimpleNamespace(ended="timeout", ok=False)
        if "/closed/" in argv[0]:
            return SimpleNamespace(ended="not-started", ok=False)
        return SimpleNamespace(ended="exited", ok="/none/" not in argv[0])

    site = "/opt/other/lib/python3.11/site-packages"
    files = fake_host(
        {"/opt/other/bin/python3": Node(b"ELF", permissions=0o755), f"{site}/pip/__init__.py": ""}
    ).files
    layout = SimpleNamespace(asked=True, search_path=(SITE,), unread=())
    commands = SimpleNamespace(
        run=run,
        join_trusted=":".join,
        may_run=lambda _path: True,
        may_load_from=lambda path: path in trusted,
    )
    host = SimpleNamespace(
        options=Options(),
        identity=SimpleNamespace(is_root=is_root),
        variables={"PIP_CONFIG_FILE": "/etc/mine"},
        files=files,
        interpreter=SimpleNamespace(layout=lambda: layout, path="/env/python", program="/env/python"),
        commands=commands,
    )
    return host, started


@pytest.mark.parametrize("is_root", [True, False])
def test_no_settings_of_pip_decide_what_its_trial_does(is_root: bool) -> None:
    """`[install] upgrade` and `find-links` of /etc/pip.conf would have pip 22 replace itself."""
    host, started = asked_host(is_root, (SITE,))
    assert pip_health._start(host, "/env/python", ("-m", "pip"), 0.4).ok
    ((_argv, variables),) = started
    assert variables["PIP_CONFIG_FILE"] == "/dev/null"


@pytest.mark.parametrize(("lacking", "starts"), [(None, 1), (0, 0), (1, 0), (2, 0)])
def test_root_starts_no_other_python_whose_packages_are_another_users(
    lacking: Optional[int], starts: int
) -> None:
    library = "/opt/other/lib/python3.11"
    trusted = [SITE, library, f"{library}/site-packages"]
    if lacking is not None:
        del trusted[lacking]
    host, started = asked_host(True, tuple(trusted))
    assert pip_health._may_start(host, ("/opt/other/bin/python3", "/env/python")) is bool(starts)
    assert started == []


def test_root_starts_no_python_that_is_gone() -> None:
    host, started = asked_host(True, (SITE,))
    assert not pip_health._may_start(host, ("/gone/python3", "/env/python"))
    assert started == []


@pytest.mark.parametrize(
    ("pythons", "found"),
    [
        (("/slow/python3", "/usr/bin/python3"), "/usr/bin/python3"),
        # On a busy machine none answers in time: that is no reason to say that there is none.
        (("/none/python3", "/slow/python3"), "/slow/python3"),
        (("/none/python3", "/closed/python3"), None),
    ],
)
def test_a_pip_without_an_answer_is_the_last_resort(
    monkeypatch: pytest.MonkeyPatch, pythons: tuple[str, ...], found: Optional[str]
) -> None:
    host, _started = asked_host(False, ())
    host.interpreter.all_installed = lambda: [SimpleNamespace(name="numpy", headers=("Name: numpy",))]
    host.once = lambda _key, make: make()
    monkeypatch.setattr(pip_health, "_list_other_pythons", lambda _host: iter(pythons))
    assert pip_health.find_other_pip(host) == found
