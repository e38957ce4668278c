"""Folders for packages are read for root, and never run: real files, real uids."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Optional

import pytest
from tests.support.roots import SOMEBODY, commands, interpreter, leaving, looked, site, theirs

from npudoctor.host import CannotTell

pytestmark = pytest.mark.needs_root


@pytest.mark.parametrize("name", ["hook.pth", "sitecustomize.py", "usercustomize.py"])
@pytest.mark.parametrize("mode", [0o755, 0o1777])
def test_folders_for_packages_are_read_and_not_run(base: Path, mark: Path, name: str, mode: int) -> None:
    """Another user's, or sticky: also what is put there between the look and the start is not run."""
    theirs(site(base) / name, leaving(mark).strip() + "\n")
    (site(base) / "numpy-2.1.0.dist-info").mkdir()
    if mode == 0o755:
        theirs(site(base))
    site(base).chmod(mode)
    found = interpreter(base / "bin/python3")
    assert found.layout().asked, "its standard library is root's"
    assert found.version_of("numpy") == "2.1.0"
    if name == "sitecustomize.py":
        with pytest.raises(CannotTell, match="was not run"):
            found.version_of("torch-npu")
    elif name == "hook.pth":  # its text shows that it leads nowhere; root does not run it
        assert found.version_of("torch-npu") is None
        assert name in (pip(base) or "") or str(site(base)) in (pip(base) or "")
    assert not mark.exists()


def test_an_idle_sitecustomize_hides_nothing(base: Path, mark: Path) -> None:
    """Whoever it belongs to: it is read. Another user's is still not run."""
    own = site(base) / "sitecustomize.py"
    own.write_text("import os\nos.environ.setdefault('A', '1')\n")
    assert interpreter(base / "bin/python3").version_of("torch-npu") is None
    assert pip(base) is None
    own.unlink()
    theirs(own, "import os\nos.environ.setdefault('A', '1')\n")
    assert interpreter(base / "bin/python3").version_of("torch-npu") is None
    assert str(own) in (pip(base) or "")
    own.unlink()
    own.write_text("import sys\nsys.path.append('/opt/more')\n")
    with pytest.raises(CannotTell, match="sitecustomize"):
        interpreter(base / "bin/python3").version_of("torch-npu")


def pip(base: Path) -> Optional[str]:
    """Why root does not start it with its folders for packages, as pip is."""
    return commands().why_untrusted([str(base / "bin/python3"), "-m", "pip"], {"PATH": "/usr/bin"})


def test_code_of_roots_own_folders_may_lead_to_another_users(base: Path, tmp_path: Path, mark: Path) -> None:
    theirs(tmp_path / "far/sitecustomize.py", leaving(mark))
    (tmp_path / "far/torch_npu-2.7.1.dist-info").mkdir()
    assert pip(base) is None
    (site(base) / "dev.pth").write_text(f"import sys; sys.path.append({str(tmp_path / 'far')!r})\n")
    found = interpreter(base / "bin/python3")
    assert found.version_of("torch-npu") == "2.7.1", "the folder that it names is read"
    assert str(tmp_path / "far/sitecustomize.py") in (pip(base) or "")
    assert not mark.exists()


@pytest.mark.parametrize(
    "line", ["{}", "import sys; sys.path.insert(0, '{}')", "import site; site.addsitedir('{}')"]
)
def test_a_folder_that_nobody_has_made_yet(base: Path, tmp_path: Path, line: str) -> None:
    """Where only root may make it it leads nowhere; else somebody may make it before Python starts."""
    (site(base) / "dev.pth").write_text(line.format(base / "gone") + "\n")
    assert pip(base) is None
    far = tmp_path / "far"
    far.mkdir(mode=0o777)
    far.chmod(0o1777)
    (site(base) / "dev.pth").write_text(line.format(far / "gone") + "\n")
    assert str(far) in (pip(base) or "")


FUTURE = (
    "import sys; exec('try:\\n    import {0}\\nexcept ImportError:\\n    pass\\nelse:\\n"
    "    {0}.register()\\n')"
)
EDITABLE = "import __editable___own_1_0_finder; __editable___own_1_0_finder.install()\n"


PRECEDENCE = (
    "import os; var = 'SETUPTOOLS_USE_DISTUTILS'; enabled = os.environ.get(var, 'local') == 'local'; "
    "enabled and __import__('_distutils_hack').add_shim(); \n"
)


@pytest.mark.parametrize(
    ("name", "text", "may"),
    [
        ("distutils-precedence.pth", PRECEDENCE, True),
        ("distutils-precedence.pth", PRECEDENCE.replace(";", "; sys.path.append('/x');", 1), False),
        ("_virtualenv.pth", "import _virtualenv", True),
        ("aaaaa_future_fstrings.pth", FUTURE.format("future_fstrings"), True),
        ("own.pth", FUTURE.format("own"), False),
        ("own.pth", "import own.gone, gone\n", False),
        ("own.pth", "import os; addsitedir('/x')\n", False),
        ("__editable__.own-1.0.pth", EDITABLE, False),
        (".hidden.pth", "/x\n", False),
        ("sitecustomize.py", "", True),
        ("sitecustomize.py", "import mine\n", False),
    ],
)
def test_what_pip_would_load(base: Path, name: str, text: str, may: bool) -> None:
    (site(base) / "own-1.0.dist-info").mkdir()
    (site(base) / name).write_text(text)
    assert (pip(base) is None) is may
    found = interpreter(base / "bin/python3")
    if may or name.startswith("__editable__"):
        assert found.version_of("torch-npu") is None, "no distribution is hidden"


@pytest.mark.parametrize("deep", ["package/module.py", "package/deep/module.py"])
def test_one_file_of_another_in_roots_own_folders(base: Path, tmp_path: Path, mark: Path, deep: str) -> None:
    (site(base) / "dev.pth").write_text("import package.module, package.deep.module\n")
    for name in ("package/module.py", "package/deep/module.py"):
        (site(base) / name).parent.mkdir(parents=True, exist_ok=True)
        (site(base) / name).write_text("")
    theirs(site(base) / deep, leaving(mark))
    looked(base / "bin/python3")
    assert pip(base), "root does not run it"
    assert not mark.exists()


def test_a_folder_to_which_a_line_leads(base: Path, tmp_path: Path, mark: Path) -> None:
    theirs(tmp_path / "far/module.py", leaving(mark))
    (site(base) / "dev.pth").write_text(f"{tmp_path / 'far'}\nimport module\n")
    assert str(tmp_path / "far") in looked(base / "bin/python3").search_path
    assert not mark.exists()


def test_an_archive_to_which_a_line_leads(base: Path, tmp_path: Path) -> None:
    """Its modules are imported as they are: root's may be, another user's may not."""
    archive = base / "modules.zip"
    archive.write_bytes(b"PK\5\6" + bytes(18))
    (site(base) / "more.pth").write_text(f"{archive}\n")
    assert pip(base) is None
    far = tmp_path / "far/modules.zip"
    theirs(far, archive.read_text())
    (site(base) / "more.pth").write_text(f"{far}\n")
    assert str(far) in (pip(base) or "") or str(far.parent) in (pip(base) or "")
    # Root's own in a folder of another, who may put one of his there at any time.
    os.chown(far, 0, 0)
    os.chown(far.parent, SOMEBODY, SOMEBODY)
    assert str(far.parent) in (pip(base) or "")
