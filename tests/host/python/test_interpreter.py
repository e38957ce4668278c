"""The interpreter of the job: asked where it may be run, read from its folders where it may not."""

from __future__ import annotations

import errno
import importlib.metadata
import os
import platform
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Optional

import pytest

from npudoctor.core.errors import DoesNotRun
from npudoctor.host import CannotTell, Host, Options
from npudoctor.host.fs.files import Files, LocalDisk
from npudoctor.host.process.commands import CommandResult, Commands
from npudoctor.host.python.interpreter import Interpreter, normalize_name
from npudoctor.host.python.metadata import parse_headers
from npudoctor.host.variables import Variables
from npudoctor.testing import (
    Content,
    FakeCommands,
    MemoryDisk,
    Node,
    fake_host,
    folder,
    link,
    package_files,
    unreadable,
)

BASE = os.path.realpath(f"{sys.base_prefix}/bin/python3")
REAL = Files(LocalDisk())


def asked(
    path: str, variables: Optional[Mapping[str, str]] = None, commands: Optional[Commands] = None
) -> Interpreter:
    """A real interpreter that may be run."""
    return Interpreter(
        path,
        "option",
        files=REAL,
        commands=commands or Commands(REAL, as_root=False),
        variables=Variables({"PATH": os.environ["PATH"], **(variables or {})}),
        as_root=False,
    )


def unasked(path: str, files: Files = REAL) -> Interpreter:
    """One that is not run, as in an image."""
    return Interpreter(path, "option", files=files, commands=None, variables=Variables({}), as_root=True)


def image(files: Mapping[str, Content]) -> Files:
    return Files(MemoryDisk(files))


def script(path: Path, text: str) -> str:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


@pytest.mark.parametrize("make", [asked, unasked])
def test_it_finds_what_the_interpreter_itself_finds(make: Callable[[str], Interpreter]) -> None:
    found = make(sys.executable)
    for name in ("pytest", "packaging", "typer"):
        assert found.version_of(name) == importlib.metadata.version(name)
    assert found.version_of("mindspore") is None


def test_what_it_says_of_itself() -> None:
    layout = asked(sys.executable).layout()
    assert (layout.version, layout.machine) == (platform.python_version(), platform.machine())
    assert layout.asked
    assert not unasked(sys.executable).layout().asked


def test_pythonpath_comes_in_front_and_the_working_directory_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("os.py", "site.py", "sitecustomize.py"):
        (tmp_path / name).write_text("raise SystemExit('imported from the working directory')\n")
    monkeypatch.chdir(tmp_path)
    layout = asked(sys.executable, {"PYTHONPATH": f"{tmp_path}::relative:/nonexistent"}).layout()
    assert layout.search_path[:2] == (str(tmp_path), "/nonexistent")
    assert "" not in layout.search_path


def test_the_users_own_packages_count_unless_switched_off(tmp_path: Path) -> None:
    version = "{}.{}".format(*sys.version_info)
    site = tmp_path / f"lib/python{version}/site-packages"
    (site / "mindspore-2.7.0.dist-info").mkdir(parents=True)
    variables = {"PYTHONUSERBASE": str(tmp_path)}
    # -I leaves PYTHONUSERBASE out, and the home decides.
    home = tmp_path / "home"
    (home / ".local").mkdir(parents=True)
    os.symlink(tmp_path / "lib", home / ".local/lib")
    variables["HOME"] = str(home)
    assert asked(BASE, variables).version_of("mindspore") == "2.7.0"
    assert asked(BASE, {**variables, "PYTHONNOUSERSITE": "1"}).version_of("mindspore") is None
    assert asked(sys.executable, variables).version_of("mindspore") is None, "a virtual environment"


def test_a_wrapper_that_talks_is_understood(tmp_path: Path) -> None:
    path = script(tmp_path / "python3", f'echo Welcome; echo to >&2; exec {shlex.quote(sys.executable)} "$@"')
    assert asked(path).version_of("pytest") == importlib.metadata.version("pytest")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("echo one >&2; echo 'no module' >&2; exit 1", "no module"),
        ("exit 1", "exited"),
        ("exit 0", "exited"),
        ("echo hello", "exited"),
        ("printf 'NPUDOCTOR\\0'", "exited"),
    ],
)
def test_one_that_does_not_answer(tmp_path: Path, text: str, why: str) -> None:
    with pytest.raises(CannotTell, match=f"does not answer: {why}"):
        asked(script(tmp_path / "python3", text)).layout()


def test_one_that_hangs() -> None:
    commands = FakeCommands({"python3": CommandResult((), "timeout")})
    with pytest.raises(CannotTell, match="timeout"):
        asked("/usr/bin/python3", commands=commands).version_of("mindspore")


def test_it_is_asked_once() -> None:
    answer = b"NPUDOCTOR\0" + b"\0".join(
        [b"3.11.7", b"aarch64", b"/usr", b"/usr", b"/home/a/.local", b"/site"]
    )
    commands = FakeCommands({"python3": os.fsdecode(answer)})
    found = asked("/usr/bin/python3", commands=commands)
    assert [found.version_of(name) for name in ("a", "b", "a")] == [None] * 3
    assert len(commands.asked) == 1
    assert found.layout().machine == "aarch64"


def test_as_root_a_stranger_is_not_run(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    (tmp_path / "bin").mkdir()
    path = tmp_path / "bin/python3"
    path.write_bytes(b"\x7fELF")  # a start of it would fail, and be told
    path.chmod(0o755)
    (tmp_path / "lib/python3.11/site-packages/mindspore-2.7.0.dist-info").mkdir(parents=True)
    found = Interpreter(
        str(path),
        "path",
        files=REAL,
        commands=Commands(REAL, as_root=True),
        variables=Variables({}),
        as_root=True,
    )
    assert found.version_of("mindspore") == "2.7.0"
    assert not found.layout().asked


SITE = "/usr/lib/python3.11/site-packages"
PYTHON: dict[str, Content] = {
    "/usr/bin/python3": link("python3.11"),
    "/usr/bin/python3.11": Node(permissions=0o755),
    "/usr/lib/python3.11/os.py": "",
    "/usr/lib/python3.9/os.py": "",
    **package_files("mindspore", "2.7.0", site=SITE),
    **package_files("mindspore", "1.0.0", site="/usr/lib/python3.9/site-packages"),
}


def test_in_an_image_the_version_decides_the_folder() -> None:
    found = unasked("/usr/bin/python3", image(PYTHON))
    assert found.version_of("mindspore") == "2.7.0"
    assert found.layout().version == "3.11"


@pytest.mark.parametrize(
    "path", ["/usr/local/lib/python3.11/dist-packages", "/usr/lib/python3/dist-packages"]
)
def test_debian_keeps_packages_elsewhere(path: str) -> None:
    files = {**PYTHON, **package_files("scipy", "1.4.1", site=path)}
    assert unasked("/usr/bin/python3", image(files)).version_of("scipy") == "1.4.1"


@pytest.mark.parametrize(("own", "version"), [("false", None), ("true", "2.7.0")])
def test_a_virtual_environment_in_an_image(own: str, version: Optional[str]) -> None:
    files: dict[str, Content] = {
        **PYTHON,
        "/opt/venv/bin/python3": link("/usr/bin/python3"),
        "/opt/venv/pyvenv.cfg": f"home = /usr/bin\ninclude-system-site-packages = {own}\nversion = 3.11.7\n",
        **package_files("scipy", "1.11.4", site="/opt/venv/lib/python3.11/site-packages"),
    }
    found = unasked("/opt/venv/bin/python3", image(files))
    assert found.version_of("scipy") == "1.11.4"
    assert found.version_of("mindspore") == version


def test_a_folder_with_two_names_is_read_once() -> None:
    files = image({**PYTHON, "/usr/lib64": link("lib")})
    assert len(unasked("/usr/bin/python3", files).distributions("mindspore")) == 1


@pytest.mark.parametrize("path", ["/usr/bin/python4", "/opt/lonely/bin/python3"])
def test_in_an_image_without_it(path: str) -> None:
    files = image({**PYTHON, "/opt/lonely/bin/python3": Node(permissions=0o755)})
    with pytest.raises(CannotTell, match=path):
        unasked(path, files).version_of("mindspore")


@pytest.mark.parametrize(
    ("entry", "name", "version"),
    [
        ("mindspore_ascend-1.10.0.dist-info", "mindspore-ascend", "1.10.0"),
        ("MindSpore-2.7.0.dist-info", "mindspore", "2.7.0"),
        ("torch_npu-2.1.0.post12.dist-info", "torch.npu", "2.1.0.post12"),
        ("torch-npu-1.8.1.post1.dist-info", "torch_npu", "1.8.1.post1"),
        ("te-0.4.0-py3.7.egg-info", "te", "0.4.0"),
        ("scipy-1.10.1.egg-info", "scipy", "1.10.1"),
        ("scipy-unknown.dist-info", "scipy", "unknown"),
    ],
)
def test_names_of_metadata_folders(entry: str, name: str, version: str) -> None:
    found = unasked("/usr/bin/python3", image({**PYTHON, f"{SITE}/{entry}": folder()}))
    assert found.version_of(name) == version


@pytest.mark.parametrize(
    "entry",
    ["mindspore", "scipy-1.0.dist-info.bak", "~cipy-1.0.dist-info", "scipy.py", "-info", ".dist-info"],
)
def test_what_is_no_metadata_folder(entry: str) -> None:
    found = unasked("/usr/bin/python3", image({**PYTHON, f"{SITE}/{entry}": folder()}))
    assert found.version_of("scipy") is None


def test_a_development_install_and_a_plain_egg_info_file() -> None:
    files = image(
        {
            **PYTHON,
            f"{SITE}/mindformers.egg-info/PKG-INFO": "Name: mindformers\nVersion: 1.3.2\n",
            f"{SITE}/old-0.1-py3.11.egg-info": "Metadata-Version: 1.0\nName: old\nVersion: 0.1.dev1\n",
        }
    )
    found = unasked("/usr/bin/python3", files)
    assert found.version_of("mindformers") == "1.3.2"
    assert found.version_of("old") == "0.1.dev1"


def test_headers() -> None:
    text = "Name: a\nRequires-Dist: numpy\nRequires-Dist: scipy (>=1.5)\nLicense: one\n  two\n\nName: body\n"
    assert parse_headers(text) == (
        ("name", "a"),
        ("requires-dist", "numpy"),
        ("requires-dist", "scipy (>=1.5)"),
        ("license", "one\ntwo"),
    )


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_licence_of_many_paragraphs_does_not_end_the_headers(end: str) -> None:
    # As in the wheels of SciPy: the paragraphs are parted by lines of blanks, and a form feed may be there.
    lines = ["License: one", "         ", "         two\f", "Requires-Dist: numpy>=2", "", "Name: body"]
    headers = dict(parse_headers(end.join(lines)))
    assert headers["requires-dist"] == "numpy>=2"
    assert "name" not in headers


def test_normal_names() -> None:
    assert normalize_name("Torch__NPU.x-Y") == "torch-npu-x-y"


def python_of(path: Sequence[Path], **options: Optional[str]) -> tuple[str, str]:
    host = Host(Options(**options), variables={"PATH": ":".join(map(str, path))})  # type: ignore[arg-type]
    return host.interpreter.path, host.interpreter.chosen_by


def test_which_one_is_chosen(tmp_path: Path) -> None:
    for name in ("one", "two", "three"):
        (tmp_path / name).mkdir()
    (tmp_path / "one/python3").write_text("not executable")
    os.symlink("/nonexistent", tmp_path / "two/python3")
    path = script(tmp_path / "three/python3", "")
    folders = [Path("relative"), tmp_path / "gone", *(tmp_path / name for name in ("one", "two", "three"))]
    assert python_of(folders) == (path, "path")
    assert python_of(folders, python="/usr/bin/python3") == ("/usr/bin/python3", "option")
    assert python_of(folders[:-1]) == (sys.executable, "own")
    (tmp_path / "usr/local/bin").mkdir(parents=True)
    script(tmp_path / "usr/local/bin/python3", "")
    assert python_of(folders, root=str(tmp_path)) == ("/usr/local/bin/python3", "path")


def test_a_fake_host_knows_what_it_was_given() -> None:
    host = fake_host(packages={"mindspore-ascend": "1.10.0"})
    assert host.interpreter.version_of("mindspore_ascend") == "1.10.0"


def test_no_bytecode_and_no_prompt_are_left(tmp_path: Path) -> None:
    (tmp_path / "module.py").write_text("")
    before = sorted(os.listdir(tmp_path))
    asked(sys.executable, {"PYTHONPATH": str(tmp_path), "PYTHONSTARTUP": "/nonexistent"}).layout()
    assert sorted(os.listdir(tmp_path)) == before


@pytest.mark.parametrize(
    ("number", "seen"), [(errno.EACCES, True), (errno.EIO, False), (errno.ETIMEDOUT, False)]
)
def test_a_user_site_that_is_closed_is_not_there(number: int, seen: bool) -> None:
    site = "/root/.local/lib/python3.11/site-packages"
    words = ["3.11.2", "x86_64", "/usr", "/usr", site, "/usr/lib/python3"]
    commands = FakeCommands({"python3": "NPUDOCTOR\0" + "\0".join(words)})
    files = image({"/root": unreadable(number), **package_files("numpy", "1.26.4", site="/usr/lib/python3")})
    made = Interpreter(
        "/usr/bin/python3", "path", files=files, commands=commands, variables=Variables({}), as_root=False
    )
    if seen:
        assert made.version_of("numpy") == "1.26.4" and site not in made.layout().search_path
    else:
        with pytest.raises(CannotTell):
            made.layout()


def closed_entry(path: str, **more: Content) -> Host:
    files = {"/closed": unreadable(), **package_files("numpy", "1.26.4"), **more}
    host = fake_host(files, variables={"PYTHONPATH": path})
    words = ["3.11.2", "x86_64", "/usr", "/usr", "/none", SITE]
    commands = FakeCommands({"python3": "NPUDOCTOR\0" + "\0".join(words)})
    host._parts["interpreter"] = Interpreter(
        "/usr/bin/python3",
        "path",
        files=host.files,
        commands=commands,
        variables=host.variables,
        as_root=False,
    )
    return host


def test_a_closed_entry_of_pythonpath_is_passed_over_as_python_does() -> None:
    host = closed_entry("/closed:/closed/below:/src", **{"/src": folder()})
    assert host.interpreter.layout().search_path == ("/src", SITE)
    assert host.interpreter.version_of("numpy") == "1.26.4"


def test_closed_site_packages_are_not_passed_over() -> None:
    with pytest.raises(CannotTell):
        closed_entry("/src", **{SITE: unreadable()}).interpreter.version_of("numpy")
    with pytest.raises(CannotTell):
        closed_entry("/src", **{"/src": unreadable(errno.EIO)}).interpreter.version_of("numpy")


def test_what_could_not_be_seen_is_not_seen_as_nothing_the_second_time() -> None:
    host = fake_host({SITE: unreadable(errno.EACCES)})
    for _time in range(2):
        with pytest.raises(CannotTell):
            host.interpreter.distributions("torch")


@pytest.mark.parametrize("relative", ["site", "./site", "../{name}/site", "{absolute}"])
def test_a_relative_entry_of_pythonpath_is_one_of_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, relative: str
) -> None:
    (tmp_path / "site/mindspore-2.7.0.dist-info").mkdir(parents=True)
    (tmp_path / "torch-2.7.1.dist-info").mkdir()
    monkeypatch.chdir(tmp_path)
    entry = relative.format(name=tmp_path.name, absolute=f"{tmp_path}/site")
    variables = {"PATH": f"{sys.prefix}/bin", "PYTHONPATH": f":{entry}:"}
    host = Host(Options(python=sys.executable), variables=variables)
    assert host.interpreter.version_of("mindspore") == "2.7.0"
    assert host.interpreter.layout().search_path[0] == f"{tmp_path}/site"
    assert host.interpreter.version_of("torch") is None, "what lies in the working directory is no install"


@pytest.mark.parametrize(
    ("text", "status", "said"),
    [("echo one >&2; echo 'no encodings' >&2; exit 3", 3, "no encodings"), ("kill -SEGV $$", -11, "")],
)
def test_one_that_ends_with_an_error(tmp_path: Path, text: str, status: int, said: str) -> None:
    with pytest.raises(DoesNotRun) as failed:
        asked(script(tmp_path / "python3", text)).layout()
    assert (failed.value.status, failed.value.last_line) == (status, said)


@pytest.mark.parametrize("text", ["exit 0", "kill -KILL $$"])
def test_what_ends_so_may_run_another_time(tmp_path: Path, text: str) -> None:
    with pytest.raises(CannotTell) as unknown:
        asked(script(tmp_path / "python3", text)).layout()
    assert not isinstance(unknown.value, DoesNotRun)


def test_a_program_whose_own_interpreter_is_gone_does_not_run(tmp_path: Path) -> None:
    path = script(tmp_path / "python3", "")
    Path(path).write_text("#!/nonexistent/bin/sh\n")
    with pytest.raises(DoesNotRun):
        asked(path).layout()


@pytest.mark.parametrize("root", [True, False])
def test_for_root_a_library_that_is_not_found_proves_nothing(root: bool) -> None:
    commands = FakeCommands(
        {"python3": CommandResult((), "exited", 127, stderr="libpython3.11.so.1.0: cannot open")}
    )
    made = Interpreter(
        "/usr/bin/python3", "path", files=REAL, commands=commands, variables=Variables({}), as_root=root
    )
    with pytest.raises(CannotTell) as unknown:
        made.layout()
    assert isinstance(unknown.value, DoesNotRun) is not root


@pytest.mark.parametrize("kind", ["text", "empty", "script", "other program"])
def test_what_is_no_python_is_not_judged_by_the_folders_beside_it(tmp_path: Path, kind: str) -> None:
    """As root, who starts none of them: an environment whose python3 was overwritten or linked elsewhere."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "lib/python3.11/site-packages").mkdir(parents=True)
    python = tmp_path / "bin/python3"
    if kind == "other program":
        python.symlink_to("/bin/ls")
    else:
        python.write_text({"text": "hello\n", "empty": "", "script": "#!/bin/sh\nexit 0\n"}[kind])
        python.chmod(0o755)
    files = Files(LocalDisk())
    commands = Commands(files, as_root=True, may_block=lambda _path: False, variables={})
    judged = Interpreter(
        str(python), "path", files=files, commands=commands, variables=Variables({}), as_root=True
    )
    with pytest.raises(CannotTell, match=r"is not a Python program|is a script, which npudoctor"):
        judged.layout()
