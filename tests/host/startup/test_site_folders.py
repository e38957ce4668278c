"""An interpreter that is not run: what its .pth files and the user's own folder add to its search path."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from npudoctor.host import CannotTell, Host, Options
from npudoctor.host.fs.files import Files, LocalDisk
from npudoctor.host.python.interpreter import Interpreter
from npudoctor.host.startup.pth_code import adds_no_path
from npudoctor.host.startup.site_folders import PTH_LIMIT
from npudoctor.host.variables import Variables
from npudoctor.testing import Content, MemoryDisk, Node, fake_host, folder, package_files, unreadable

SITE = "/usr/lib/python3.11/site-packages"
PYTHON: dict[str, Content] = {
    "/usr/bin/python3": Node(permissions=0o755),
    "/usr/lib/python3.11/os.py": "",
    SITE: folder(),
}
COVERAGE = (
    'import sys; exec(\'import os\\n\\nif os.getenv("A"):\\n try:\\n  import coverage\\n except:\\n'
    '  pass\\n else:\\n  coverage.process_startup(slug="pth")\')'
)
VERSION = "{}.{}".format(*sys.version_info)


def unasked(files: Mapping[str, Content], variables: Mapping[str, str]) -> Interpreter:
    """An interpreter of these files that is not run."""
    disk = Files(MemoryDisk({**PYTHON, **files}))
    return Interpreter(
        "/usr/bin/python3", "path", files=disk, commands=None, variables=Variables(variables), as_root=True
    )


def read(path: str) -> Interpreter:
    """A real one that is not run."""
    files = Files(LocalDisk())
    return Interpreter(path, "path", files=files, commands=None, variables=Variables({}), as_root=True)


def environment(tmp_path: Path) -> tuple[str, Path]:
    """A real virtual environment, its program and its folder for packages."""
    command = [sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "env")]
    subprocess.run(command, check=True, timeout=60)
    return str(tmp_path / "env/bin/python3"), tmp_path / f"env/lib/python{VERSION}/site-packages"


def test_the_same_folders_as_a_start_of_python_finds(tmp_path: Path) -> None:
    program, site = environment(tmp_path)
    (tmp_path / "dev/torch_npu-2.7.1.dist-info").mkdir(parents=True)
    (site / "beside").mkdir()
    (tmp_path / "hidden").mkdir()
    lines = [
        "# a comment",
        "",
        str(tmp_path / "dev"),
        "beside",
        "/nonexistent",
        "import os",
        "./beside/../beside",
    ]
    (site / "dev.pth").write_text("\n".join(lines) + "\n")
    (site / ".hidden.pth").write_text(f"{tmp_path}/hidden\n")
    (site / "distutils-precedence.pth").write_text("import os; enabled = False and '_distutils_hack';\n")
    ask = [program, "-I", "-c", "import sys; print('\\n'.join(sys.path))"]
    told = subprocess.run(ask, check=True, timeout=60, capture_output=True, text=True).stdout.split("\n")
    found = read(program)
    mine = found.layout().search_path
    seen = [path for path in told if str(tmp_path) in path and not path.endswith("/hidden")]
    assert len(seen) == 3 and [path for path in mine if path in told and str(tmp_path) in path] == seen
    assert found.version_of("torch-npu") == "2.7.1"


def test_eggs_of_easy_install_go_first() -> None:
    """Its second line moves what its file named to the front; without that line they stay behind."""
    first = "import sys; sys.__plen = len(sys.path)\n./a.egg\n"
    last = "import sys; new=sys.path[sys.__plen:]; del sys.path[sys.__plen:]; p=getattr(sys,'__egginsert',0);"
    last += " sys.path[p:p]=new; sys.__egginsert = p+len(new)\n"
    for text, front in ((first + last, True), (first, False)):
        files: dict[str, Content] = {f"{SITE}/easy-install.pth": text, f"{SITE}/a.egg/x.py": ""}
        layout = unasked(files, {"PYTHONPATH": "/mine"}).layout()
        places = [layout.search_path.index(place) for place in (f"{SITE}/a.egg", SITE)]
        assert (places == sorted(places), layout.unread) == (front, ())
        assert not front or places[0] == 0


def test_code_that_was_not_run_may_lead_to_what_was_not_found(tmp_path: Path) -> None:
    program, site = environment(tmp_path)
    assert read(program).version_of("torch-npu") is None
    (site / "numpy-2.1.0.dist-info").mkdir()
    (site / "dev.pth").write_text("import sys; sys.path.append('/some' + 'where')\n")
    assert read(program).version_of("numpy") == "2.1.0"
    for _time in range(2):
        with pytest.raises(CannotTell, match=r"torch-npu.*dev\.pth"):
            read(program).version_of("torch-npu")


# As setuptools writes them.
NAMESPACE = (
    "import sys, types, os;has_mfs = sys.version_info > (3, 5);"
    "p = os.path.join(sys._getframe(1).f_locals['sitedir'], *('google',));"
    "importlib = has_mfs and __import__('importlib.util');"
    "has_mfs and __import__('importlib.machinery');"
    "m = has_mfs and sys.modules.setdefault('google', importlib.util.module_from_spec("
    "importlib.machinery.PathFinder.find_spec('google', [os.path.dirname(p)])));"
    "m = m or sys.modules.setdefault('google', types.ModuleType('google'));"
    "mp = (m or []) and m.__dict__.setdefault('__path__',[]);(p not in mp) and mp.append(p)"
)
FINDER = "import __editable___own_1_0_finder; __editable___own_1_0_finder.install()"


@pytest.mark.parametrize(
    ("files", "known"),
    [
        ({"google-nspkg.pth": NAMESPACE}, True),
        ({"google-nspkg.pth": f"{NAMESPACE};sys.path.append('/x')"}, False),
        ({"google-nspkg.pth": "import sys, types, os;p = os.path.join('google')"}, True),
        ({"easy-install.pth": "import sys; sys.__plen = len(sys.path)\n./a.egg\n"}, True),
        ({"easy-install.pth": "import sys; sys.__plen = 0; sys.path.append('/x')"}, False),
        ({"_virtualenv.pth": "import _virtualenv"}, True),
        ({"_virtualenv.pth": "import _virtualenv; import evil", "evil.so": ""}, False),
        ({"_virtualenv.pth": "import _virtualenv; import evil"}, True),
        ({"__editable__.own-1.0.pth": FINDER, "own-1.0.dist-info/METADATA": "Name: own"}, True),
        ({"__editable__.own-1.0.pth": "import finder", "own-1.0.dist-info/METADATA": "Name: own"}, True),
        ({"marked.pth": "\ufeffimport sys; sys.path.append('/x')"}, False),
        ({"split.pth": "# a comment\x0cimport sys; sys.path.append('/x')"}, False),
        ({"long.pth": "#" * PTH_LIMIT}, False),
        ({".hidden.pth": "/x"}, False),
        ({".hidden.pth": ""}, True),
        ({"__editable__.own-1.0.pth": "import __editable___own_1_0_finder"}, True),
        ({"distutils-precedence.pth": "import sys; sys.path.append('/x')"}, True),
        ({"distutils-precedence.pth": "import sys; sys.path.append(sys.prefix)"}, False),
        ({"sitecustomize.py": ""}, True),
        ({"sitecustomize.py": "import mine\n"}, False),
        ({"closed.pth": unreadable(errno.EACCES)}, False),
        # What site.py of 3.9 to 3.13 skips: a folder, a link to nothing, nothing, zeros. A pipe stops it.
        ({"folder.pth": folder()}, True),
        ({"old.pth": Node(target="/nfs/home/old/x.pth")}, True),
        ({"empty.pth": ""}, True),
        ({"nul.pth": "\0" * 512}, True),
    ],
)
def test_what_leads_nowhere_is_known(files: dict[str, Content], known: bool) -> None:
    made = unasked({f"{SITE}/{name}": content for name, content in files.items()}, {})
    assert (not made.layout().unread) is known
    if known:
        assert made.version_of("torch-npu") is None
    else:
        with pytest.raises(CannotTell):
            made.distributions("torch-npu")


HOMES: dict[str, Content] = {
    "/etc/passwd": "root:x:0:0::/root:/bin/sh\nann:x:1000:1000::/home/ann:/bin/sh\n",
    **package_files("torch-npu", "2.7.1", site="/home/ann/.local/lib/python3.11/site-packages"),
    **package_files("torch-npu", "2.5.1", site="/root/.local/lib/python3.11/site-packages"),
    **package_files("torch-npu", "2.1.0", site="/base/lib/python3.11/site-packages"),
    **package_files("torch-npu", "1.11.0", site="/home/ann/.local/lib/python3.7/site-packages"),
}
ANNS: dict[str, Content] = {"/usr/bin/python3": Node(permissions=0o755, uid=1000)}


@pytest.mark.parametrize(
    ("files", "variables", "found"),
    [
        ({}, {"HOME": "/home/ann"}, ["2.7.1"]),
        ({}, {}, ["2.5.1"]),
        (ANNS, {"HOME": "/root"}, ["2.5.1", "2.7.1"]),
        (ANNS, {"HOME": "/home/ann"}, ["2.7.1"]),
        (ANNS, {"PYTHONUSERBASE": "/base", "HOME": "/root"}, ["2.1.0"]),
        (ANNS, {"PYTHONNOUSERSITE": "1"}, []),
        ({"/usr/pyvenv.cfg": "include-system-site-packages = false\n"}, {"HOME": "/home/ann"}, []),
    ],
)
def test_the_users_own_folder(files: dict[str, Content], variables: dict[str, str], found: list[str]) -> None:
    made = unasked({**HOMES, **files}, variables)
    assert [copy.version for copy in made.distributions("torch-npu")] == found


def test_lines_in_the_users_own_folder_are_followed() -> None:
    site = "/home/ann/.local/lib/python3.11/site-packages"
    files = {f"{site}/a.pth": "/src", **package_files("mindspore", "2.7.0", site="/src")}
    assert unasked(files, {"HOME": "/home/ann"}).version_of("mindspore") == "2.7.0"


def test_a_users_folder_that_root_may_not_see() -> None:
    with pytest.raises(CannotTell, match="/home/ann"):
        unasked({**ANNS, **HOMES, "/home/ann": unreadable()}, {"PATH": "/"}).version_of("mindspore")


def test_an_image(tmp_path: Path) -> None:
    site = tmp_path / "usr/lib/python3.11/site-packages"
    (tmp_path / "usr/bin").mkdir(parents=True)
    (tmp_path / "usr/bin/python3").touch(0o755)
    (tmp_path / "src/torch_npu-2.7.1.dist-info").mkdir(parents=True)
    site.mkdir(parents=True)
    (site / "dev.pth").write_text("/src\n")
    host = Host(Options(root=str(tmp_path)))
    assert host.interpreter.version_of("torch-npu") == "2.7.1"
    os.makedirs(tmp_path / "root/.local/lib/python3.11/site-packages/mindspore-2.7.0.dist-info")
    assert host.fresh_copy().interpreter.version_of("mindspore") == "2.7.0"


def test_a_fake_host_knows_its_whole_path() -> None:
    assert fake_host().interpreter.version_of("torch") is None


@pytest.mark.parametrize(
    ("line", "nowhere"),
    [
        ("import coverage; coverage.process_startup()", True),
        (
            "import sys; exec('import os\\nif os.getenv(\"A\"):\\n import coverage\\n coverage.start()')",
            False,
        ),
        (COVERAGE, True),
        ("import sys; sys.path.append('/x')", False),
        ("import sys; exec('sys.path.append(1)')", False),
        ("import sys; coverage = sys; coverage.process_startup()", False),
        ("import os; os.environ.setdefault('A', '1')", True),
        ("import os; exec('import certifi\\nx = os.path.isfile(certifi.where())')", True),
        ("import os; exec('import os\\nexec(\"import certifi\")')", True),
        ("import os; exec('import sys; sys.path.append(1)')", False),
        ("import os; sys.path.append('/x')", False),
        ("import os; addsitedir('/x')", False),
        ("import os; known_paths.add('/x')", False),
        ("import os; builtins.exec('x')", False),
        ("import os; os = sys", False),
        ("import os; run = open; run('/x')", False),
        ("import os; exec('open = 1'); open('/x')", False),
        ("import os; x = [one for one in sys.path]", False),
        ("import os as x; x.sys", False),
        ("import os; f'{os.sys}'", False),
        ("import os; (lambda: 1)()", False),
        ("import os; os.environ.update(a=1)", False),
        ("import os; x = os.path.join('a', 'b').lower(); x.strip()", True),
        ("import os; exec('x' + 'y')", False),
        ("import os; exec(open('/x').read())", False),
        ("import os; run = exec; run('import sys')", False),
        ("import os; os.sys.path.append('/x')", False),
        ("import os; os.__dict__['sys']", False),
        ("import os; getattr(os, 's' + 'ys')", False),
        ("import os; __import__('sys').path.append('/x')", False),
        ("import os; eval('1')", False),
        ("import os.path, sys", False),
        ("import module", False),
        ("import os; from sys import path", False),
        ("import os; this is no Python", False),
    ],
)
def test_lines_of_code_that_lead_nowhere(line: str, nowhere: bool) -> None:
    assert adds_no_path(line) is nowhere


FUTURE = (
    "import sys; exec('try:\\n    import {0}\\nexcept ImportError:\\n    pass\\nelse:\\n"
    "    {0}.register()\\n')"
)
COLOREDLOGS = (
    'import os; exec(\'try: __import__("coloredlogs").auto_install() if '
    'os.environ.get("COLOREDLOGS_AUTO_INSTALL") else None\\nexcept ImportError: pass\')'
)


@pytest.mark.parametrize(
    ("line", "module", "known"),
    [
        (FUTURE.format("future_fstrings"), "import codecs\n", True),
        (FUTURE.format("future_fstrings"), "import sys\nsys.path.append('/x')\n", False),
        (COLOREDLOGS, "", True),
        ("import no_such_module_at_all", "", True),
        ("import hunter; hunter._embed_via_environment()", "", True),
        ("import os; raise ValueError(1)", "", True),
        ("import future_fstrings; future_fstrings.x()", "from sys import path\n", False),
        ("import importlib; importlib.import_module('a')", "", False),
        ("import sys; eval('sys.p' 'ath')", "", False),
        ("import sys; exec(open('/x').read())", "", False),
        ("import sys; getattr(sys, 'pa' + 'th').append('/x')", "", False),
        ("import x; if", "", False),
    ],
)
def test_what_a_line_imports_is_read(line: str, module: str, known: bool) -> None:
    """As coloredlogs, future-fstrings and hunter leave them, and a package that is gone."""
    files = {f"{SITE}/x.pth": f"{line}\n", f"{SITE}/future_fstrings.py": module}
    assert (not unasked(files, {}).layout().unread) is known


@pytest.mark.parametrize(
    ("line", "is_first"),
    [
        ("import site; import sys; sys.path.insert(0, '/opt/more')", True),
        ("import sys; sys.path.append('/opt/more')", False),
        ("import site; site.addsitedir('/opt/more')", False),
    ],
)
def test_a_folder_that_a_line_names_is_on_the_path(line: str, is_first: bool) -> None:
    files: dict[str, Content] = {
        f"{SITE}/x.pth": f"{line}\n",
        "/opt/more/torch_npu-2.7.1.dist-info/METADATA": "Name: torch-npu\nVersion: 2.7.1\n",
    }
    made = unasked(files, {})
    assert made.version_of("torch-npu") == "2.7.1"
    assert (made.layout().search_path[0] == "/opt/more") is is_first
    assert not made.layout().unread


def test_a_mark_before_a_comment_changes_nothing() -> None:
    """Windows' editors write it; releases before 3.13 take it for a part of a name."""
    assert not unasked({f"{SITE}/x.pth": "\ufeff# ours\n/opt/pkgs\n"}, {}).layout().unread
    assert not unasked({f"{SITE}/x.pth": "\ufeff/opt/pkgs\n"}, {}).layout().unread
    assert unasked({f"{SITE}/x.pth": "\ufeff/opt/pkgs\n", "/opt/pkgs": folder()}, {}).layout().unread


def test_folders_that_name_each_other_are_read_once() -> None:
    """`site.addsitedir` of a folder whose files name the first one again."""
    line = "import site; site.addsitedir('{}')\n"
    files = {
        f"{SITE}/a.pth": line.format("/opt/b"),
        "/opt/b/b.pth": line.format(SITE),
        "/opt/b/c.pth": "/opt/c\n",
    }
    found = unasked({**files, "/opt/c": folder()}, {})
    assert {"/opt/b", "/opt/c"} <= set(found.layout().search_path)
