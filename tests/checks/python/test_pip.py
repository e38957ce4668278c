"""The lines that install a package: of pip, of uv, or none, as the examined interpreter allows."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any, Callable

import pytest
from tests.support import pips

from npudoctor import Fix, Host
from npudoctor.checks.python._pip import pip_fix, pip_install, pip_reinstall, pip_replace
from npudoctor.checks.python.torch_npu import torch_npu
from npudoctor.host import Options
from npudoctor.testing import SITE, Content, ask, fake_host, folder, link, package_files

LIB = "/usr/lib/python3.11"
WHOLE: dict[str, Content] = {f"{LIB}/os.py": "", f"{LIB}/ensurepip/__init__.py": ""}
PIP = package_files("pip", "24.2")
MANAGED: dict[str, Content] = {f"{LIB}/EXTERNALLY-MANAGED": "[externally-managed]\n"}
UV: dict[str, Content] = {"/opt/bin/uv": ""}
EXTRA = "/data/site"


def told(files: dict[str, Content], **more: Any) -> Fix:
    more.setdefault("search_path", (EXTRA, LIB, SITE))
    fix: Fix = pip_install(fake_host(files, **more), "install it", "numpy<2")
    return fix


def test_pip_where_it_is() -> None:
    for files in ({}, {**WHOLE, **PIP}, {**WHOLE, **PIP, **UV}):
        assert told(files, variables={"PATH": "/opt/bin"}).commands == (
            "/usr/bin/python3 -m pip install 'numpy<2'",
        )


def test_uv_where_there_is_no_pip() -> None:
    host = fake_host({**WHOLE, **UV}, variables={"PATH": "rel:/opt/bin"}, search_path=(LIB, SITE))
    assert pip_fix(host, "so", ("uninstall", "triton"), ("install", "numpy<2")).commands == (
        "uv pip uninstall --python /usr/bin/python3 triton",
        "uv pip install --python /usr/bin/python3 'numpy<2'",
    )
    again = "uv pip install --python /usr/bin/python3 --force-reinstall --no-deps"
    assert pip_replace(host, "so", ("triton",), "triton-ascend==3.2.1").commands == (
        f"{again} --dry-run triton-ascend==3.2.1",
        "uv pip uninstall --python /usr/bin/python3 triton",
        f"{again} triton-ascend==3.2.1",
    )


def test_ensurepip_where_there_is_neither() -> None:
    last = "/usr/bin/python3 -m pip install 'numpy<2'"
    assert told(WHOLE).commands == ("/usr/bin/python3 -m ensurepip", last)
    # A virtual environment that is not started: its standard library is not seen.
    assert told({"/usr/pyvenv.cfg": "uv = 0.4\n"}).commands == ("/usr/bin/python3 -m ensurepip", last)


def test_no_line_where_nothing_can_be_installed() -> None:
    fix = told({**WHOLE, **PIP, **MANAGED})
    assert fix.commands == () and "virtual environment" in fix.title and "install it" in fix.title
    fix = told({f"{LIB}/os.py": ""})
    assert fix.commands == () and "virtual environment" in fix.title


def test_a_virtual_environment_is_not_the_systems_python() -> None:
    assert told({**WHOLE, **PIP, **MANAGED, "/usr/pyvenv.cfg": "home = /usr\n"}).commands != ()


def test_what_lies_in_front_is_taken_out_of_pythonpath() -> None:
    files = {**WHOLE, **PIP, **package_files("numpy", "2.1.0", site=EXTRA), **package_files("numpy", "2.0.0")}
    fix = told(files, variables={"PYTHONPATH": f"{EXTRA}:/opt/more"})
    assert fix.commands == ("export PYTHONPATH=/opt/more",)
    assert EXTRA in fix.title and "numpy 2.1.0" in fix.title
    assert fix.undo == (f"export PYTHONPATH={EXTRA}:/opt/more",)
    assert told(files, variables={"PYTHONPATH": EXTRA}).commands == ("unset PYTHONPATH",)


def test_an_entry_that_names_pips_own_folder_is_left() -> None:
    files = {**WHOLE, **PIP, **package_files("numpy", "2.1.0")}
    assert "pip install" in told(files, variables={"PYTHONPATH": SITE}).commands[0]


def test_an_image_is_entered() -> None:
    files = {**WHOLE, "/usr/local/bin/uv": ""}
    image = {f"/img{path}": content for path, content in files.items()}
    assert told(image, root="/img").commands[0].startswith("chroot /img uv pip install --python /usr/bin/")
    assert told({**image, f"/img{LIB}/EXTERNALLY-MANAGED": ""}, root="/img").commands == ()


def test_a_check_of_versions_names_the_entry() -> None:
    files = {
        **package_files("torch-npu", "2.7.1", "Requires-Dist: torch==2.7.1+cpu"),
        **package_files("torch", "2.8.0", site=EXTRA),
    }
    host = fake_host(files, variables={"PYTHONPATH": EXTRA}, search_path=(EXTRA, SITE))
    (finding,) = ask(torch_npu, host).findings
    assert finding.fix is not None and finding.fix.commands[0] == "unset PYTHONPATH"
    assert "-m pip install torch==2.7.1+cpu " in finding.fix.commands[1], "it is nowhere else"


PYTHON = "/usr/bin/python3"
RECORD = "pip/__init__.py,sha256=x,3\npip/__main__.py,sha256=x,3\n"
WHOLE_PIP: dict[str, Content] = {
    **PIP,
    f"{SITE}/pip-24.2.dist-info/RECORD": RECORD,
    f"{SITE}/pip/__init__.py": "a=1",
    f"{SITE}/pip/__main__.py": "a=1",
}
TORN_PIP: dict[str, Content] = {**WHOLE_PIP, f"{SITE}/pip/__main__.py": ""}


def test_a_pip_whose_files_are_gone_is_made_anew() -> None:
    """ensurepip installs nothing where metadata says that pip is there, so these are removed before."""
    assert told({**WHOLE, **WHOLE_PIP}).commands == (f"{PYTHON} -m pip install 'numpy<2'",)
    venv: dict[str, Content] = {"/usr/pyvenv.cfg": "home = /opt/python/bin\n"}
    lines = (f"{PYTHON} -m ensurepip", f"{PYTHON} -m pip install 'numpy<2'")
    removal = f"rm -r {SITE}/pip {SITE}/pip-24.2.dist-info"
    assert told({**WHOLE, **TORN_PIP, **venv}).commands == (removal, *lines)
    gone = {path: content for path, content in WHOLE_PIP.items() if "/pip/" not in path}
    assert told({**WHOLE, **gone, **venv}).commands == (f"rm -r {SITE}/pip-24.2.dist-info", *lines)
    files = {**WHOLE, **TORN_PIP, **venv, **UV}
    assert told(files, variables={"PATH": "/opt/bin"}).commands == (
        f"uv pip install --python {PYTHON} 'numpy<2'",
    )


def test_a_pip_that_is_too_old_for_its_python() -> None:
    files = {**WHOLE, **package_files("pip", "9.0.3"), "/usr/pyvenv.cfg": "home = /opt/python/bin\n"}
    assert len(told(files, python_version="3.11.7").commands) == 1
    assert told(files, python_version="3.12.1").commands[0] == f"rm -r {SITE}/pip-9.0.3.dist-info"


def test_what_a_managed_python_got_by_pip_is_replaced_there() -> None:
    """Images do so: `pip install --break-system-packages torch`."""
    torch = package_files("torch", "2.7.1")
    files = {**WHOLE, **PIP, **MANAGED, **torch}
    assert told(files).commands == ()
    files[f"{SITE}/torch-2.7.1.dist-info/INSTALLER"] = "pip\n"
    assert told(files).commands == (f"{PYTHON} -m pip install 'numpy<2' --break-system-packages",)
    host = fake_host(files, search_path=(LIB, SITE))
    assert pip_reinstall(host, "so", "x").commands[-1].endswith(" x --break-system-packages")


NUMPY = f"{SITE}/numpy-2.1.0.dist-info"
INSTALLED: dict[str, Content] = {
    **package_files("numpy", "2.1.0"),
    f"{NUMPY}/INSTALLER": "pip\n",
    f"{NUMPY}/RECORD": "numpy/__init__.py,sha256=x,3\nnumpy/core/a.so,sha256=x,3\n",
    f"{SITE}/numpy/__init__.py": "a=1",
    f"{SITE}/numpy/core/a.so": "a=1",
}


def reinstalled(change: dict[str, Content], **more: Any) -> tuple[str, ...]:
    files = {**WHOLE, **PIP, **INSTALLED, **change}
    fix: Fix = pip_reinstall(fake_host(files, search_path=(LIB, SITE), **more), "so", "numpy==2.1.0")
    return fix.commands


def test_what_pip_cannot_replace_is_removed_once_the_wheel_is_there() -> None:
    again = f"{PYTHON} -m pip install --force-reinstall --no-deps"
    assert reinstalled({}) == (f"{again} numpy==2.1.0",)
    first = f"{PYTHON} -m pip download --no-deps --dest npudoctor-wheels numpy==2.1.0"
    last = f"{again} --no-index --find-links npudoctor-wheels numpy==2.1.0"
    dead = link("/gone/a.so")
    removal = f"find {SITE}/numpy -xtype l -delete"
    assert reinstalled({f"{SITE}/numpy/core/a.so": dead}) == (first, removal, last)
    # A whole folder that leads to nothing: no file can be seen in it.
    without = {path: content for path, content in INSTALLED.items() if not path.startswith(f"{SITE}/numpy/")}
    host = fake_host({**WHOLE, **PIP, **without, f"{SITE}/numpy": link("/gone")}, search_path=(LIB, SITE))
    assert pip_reinstall(host, "so", "numpy==2.1.0").commands == (first, removal, last)
    assert reinstalled({f"{SITE}/numpy/core/a.so": folder()}) == (
        first,
        f"rm -r {SITE}/numpy/core/a.so",
        last,
    )
    for name in ("RECORD", "METADATA"):
        assert reinstalled({f"{NUMPY}/{name}": ""}) == (first, f"rm -r {NUMPY}", last)
    # What a system or conda installed has no list, and is not ours to remove.
    assert reinstalled({f"{NUMPY}/RECORD": "", f"{NUMPY}/INSTALLER": "conda\n"})[0].startswith(again)
    assert reinstalled({f"{NUMPY}/METADATA": dead, f"{NUMPY}/RECORD": dead}) == (
        first,
        f"find {SITE} -xtype l -delete",
        f"rm -r {NUMPY}",
        last,
    )


def test_no_version_is_no_empty_version() -> None:
    """Of a package without metadata none is known; then what it requires is installed with it."""
    fix: Fix = pip_reinstall(fake_host({**WHOLE, **PIP}, search_path=(LIB, SITE)), "so", "paddlepaddle==")
    assert fix.commands == (f"{PYTHON} -m pip install paddlepaddle",)


LED = {"PYTHONPATH": EXTRA}
IN_EXTRA = {
    **package_files("torch", "2.7.1", site=EXTRA),
    **package_files("numpy", "2.1.0", site=EXTRA),
    f"{EXTRA}/numpy-2.1.0.dist-info/RECORD": "numpy/__init__.py,sha256=x,3\n",
}


def test_an_entry_with_a_framework_is_kept() -> None:
    files = {**WHOLE, **PIP, **IN_EXTRA}
    target = f"{PYTHON} -m pip install --upgrade --no-deps --target {EXTRA}"
    assert told(files, variables=LED).commands == (
        f"{target} 'numpy<2'",
        f"rm -r {EXTRA}/numpy-2.1.0.dist-info",
    )
    host = fake_host(files, variables=LED, search_path=(EXTRA, LIB, SITE))
    assert pip_reinstall(host, "so", "numpy==2.1.0").commands == (f"{target} numpy==2.1.0",)
    files.update(package_files("torch", "2.7.1"))
    assert "--target" in told(files, variables=LED).commands[0]  # the only numpy
    files.update(package_files("numpy", "2.1.0"))
    assert told(files, variables=LED).commands == ("unset PYTHONPATH",)


def test_vendored_packages_are_mended_where_they_are() -> None:
    """A folder from which Python has its only numpy, be it no framework's: without the entry it is gone."""
    files: dict[str, Content] = {**WHOLE, **PIP}
    for name in ("numpy", "pandas"):
        files.update(package_files(name, "2.1.0", site=EXTRA))
        files[f"{EXTRA}/{name}-2.1.0.dist-info/RECORD"] = f"{name}/__init__.py,sha256=x,3\n"
    host = fake_host(files, variables=LED, search_path=(EXTRA, LIB, SITE))
    fix: Fix = pip_reinstall(host, "so", "numpy==2.1.0", "pandas==2.1.0")
    target = f"{PYTHON} -m pip install --upgrade --no-deps --target {EXTRA}"
    assert fix.commands == (f"{target} numpy==2.1.0 pandas==2.1.0",)
    assert "numpy 2.1.0" in fix.title and "pandas 2.1.0" in fix.title
    # Nobody else's folder is PEP 668's.
    host = fake_host({**files, **MANAGED}, variables=LED, search_path=(EXTRA, LIB, SITE))
    assert "--break-system-packages" not in pip_reinstall(host, "so", "numpy==2.1.0").commands[0]


def test_the_systems_own_pip_is_never_removed() -> None:
    """A vendored pip without its parts hides it; ensurepip refuses there, and dpkg's files are dpkg's."""
    debian = "/usr/lib/python3/dist-packages"
    files: dict[str, Content] = {
        f"{LIB}/os.py": "",
        f"{LIB}/ensurepip/__init__.py": "",
        f"{debian}/pip/__init__.py": "",
        f"{debian}/pip-23.0.1.dist-info/METADATA": "Name: pip\nVersion: 23.0.1\n",
        f"{EXTRA}/pip-25.3.dist-info/METADATA": "Name: pip\nVersion: 25.3\n",
        f"{EXTRA}/pip-25.3.dist-info/RECORD": "pip/__init__.py,sha256=x,3\n",
        f"{EXTRA}/pip/__main__.py": "",
    }
    for more in ({}, MANAGED):
        host = fake_host({**files, **more}, variables=LED, search_path=(EXTRA, LIB, debian))
        fix: Fix = pip_install(host, "so", "six")
        assert not any("rm -r" in line or "ensurepip" in line for line in fix.commands), fix.commands
        assert more or fix.commands == ("/usr/bin/python3 -I -m pip install six",)


def test_two_versions_in_an_entry_become_one() -> None:
    """`pip install --target` twice: both metadata are there, and pip removes none of the other version."""
    files: dict[str, Content] = {**WHOLE, **PIP}
    for version in ("0.30.0", "2.4.0"):
        files.update(package_files("hub", version, site=EXTRA))
        files[f"{EXTRA}/hub-{version}.dist-info/RECORD"] = "hub/__init__.py,sha256=x,3\n"
    host = fake_host(files, variables=LED, search_path=(EXTRA, LIB, SITE))
    fix: Fix = pip_replace(host, "so", ("hub",), "hub==2.4.0", times=2)
    assert fix.commands == (
        f"{PYTHON} -m pip install --upgrade --no-deps --target {EXTRA} hub==2.4.0",
        f"rm -r {EXTRA}/hub-0.30.0.dist-info",
    )


def test_what_a_line_only_pins_is_not_replaced() -> None:
    host = fake_host({**WHOLE, **PIP, **IN_EXTRA}, variables=LED, search_path=(EXTRA, LIB, SITE))
    fix: Fix = pip_install(host, "so", "torch==2.7.1", "numpy==2.1.0", "six")
    assert fix.commands == (f"{PYTHON} -m pip install torch==2.7.1 numpy==2.1.0 six",)
    fix = pip_install(host, "so", "torch==2.7.1", "numpy<2")
    assert fix.commands[0].endswith(f"--target {EXTRA} 'numpy<2'")


def test_a_folder_that_others_share_is_not_replaced() -> None:
    """pip would put all of google/ anew; so what the entry provides is installed by the interpreter."""
    info = f"{EXTRA}/protobuf-5.0.dist-info"
    files: dict[str, Content] = {
        **WHOLE,
        **PIP,
        **IN_EXTRA,
        **package_files("protobuf", "5.0", site=EXTRA),
        f"{info}/RECORD": "google/protobuf/__init__.py,sha256=x,3\n",
        f"{EXTRA}/google/protobuf/__init__.py": "",
    }

    def lines() -> tuple[str, ...]:
        host = fake_host(files, variables=LED, search_path=(EXTRA, LIB, SITE))
        fix: Fix = pip_install(host, "so", "protobuf<5")
        return fix.commands

    assert "--target" in lines()[0]
    files[f"{EXTRA}/google/cloud/__init__.py"] = ""
    assert lines() == ("unset PYTHONPATH", f"{PYTHON} -m pip install torch==2.7.1 'protobuf<5'")


def _run(*line: object) -> int:
    words = [str(word) for word in line]
    return subprocess.run(words, capture_output=True, timeout=240, check=False).returncode


@pytest.mark.slow
def test_real_environments(tmp_path: Path, lack: Callable[[str], None]) -> None:
    """The line that is shown works; in an environment of venv, one without pip, and one of uv."""

    def works(python: Path, path: str) -> tuple[str, ...]:
        variables = {"PATH": path, "HOME": str(tmp_path)}
        fix: Fix = pip_install(Host(Options(python=str(python)), variables=variables), "so", "packaging")
        for line in fix.commands:
            command = ["env", f"PATH={path}", "sh", "-c", line]
            if subprocess.run(command, capture_output=True, timeout=240, check=False).returncode:
                lack(f"the index has no packaging for {line}")
        return fix.commands

    tools, bare, whole = (tmp_path / name for name in ("tools", "bare", "whole"))
    if _run(sys.executable, "-m", "venv", "--without-pip", bare):
        lack("venv makes no environment")
    pips.environment(whole)
    assert works(whole / "bin/python", "/usr/bin:/bin")[0].endswith("-m pip install packaging")
    lines = works(bare / "bin/python", "/usr/bin:/bin")
    assert lines[0].endswith("-m ensurepip") and (bare / "bin/pip3").exists()
    if _run(whole / "bin/python", "-m", "pip", "install", "-q", "uv"):
        lack("uv cannot be installed")
    import shutil

    # What is broken in pip is not told by its metadata: gone files, and what only an installation needs.
    for torn in ("__main__.py", "_vendor/resolvelib"):
        (site,) = bare.glob("lib/python3*/site-packages")
        path = site / "pip" / torn
        shutil.rmtree(path) if path.is_dir() else path.unlink()
        lines = works(bare / "bin/python", "/usr/bin:/bin")
        assert lines[0].startswith("rm -r ") and lines[1].endswith("-m ensurepip")
    uv = whole / "bin/uv"
    if _run(uv, "venv", "--python", sys.executable, tools):
        lack("uv makes no environment")
    (line,) = works(tools / "bin/python", f"{whole}/bin:/usr/bin:/bin")
    assert line.startswith("uv pip install --python") and not (tools / "bin/pip").exists()


CPU = ("--extra-index-url", "https://download.pytorch.org/whl/cpu")


@pytest.mark.parametrize(
    ("words", "added"),
    [
        (("torch==2.9.0+cpu",), CPU),
        (("torch===2.9.0+cpu", "torchvision==0.24.0+cpu", "numpy<2"), CPU),
        (("torch>=2.0,==2.9.0+cu126",), (CPU[0], CPU[1].replace("cpu", "cu126"))),
        (("torch==2.9.0",), ()),
        (("--no-deps", "--no-index", "torch==2.9.0+cpu"), ()),
        (("mindspore==2.7.0+local",), ()),
        (("/opt/wheels/torch-2.9.0+cpu-cp311-cp311-linux_x86_64.whl",), ()),
    ],
)
def test_a_build_comes_with_the_index_that_has_it(words: tuple[str, ...], added: tuple[str, ...]) -> None:
    (step,) = pip_fix(fake_host(), "so", ("install", *words)).steps
    assert getattr(step, "argv")[-len(words) - len(added) :] == (*words, *added)  # noqa: B009


def test_a_build_that_no_index_has_says_so() -> None:
    fix = pip_fix(fake_host(), "so", ("install", "mindspore==2.7.0+local", "torch==2.9.0+git1234"))
    assert fix.title == (
        "so; no public index has mindspore==2.7.0+local, torch==2.9.0+git1234: use the source that "
        "it was installed from"
    )
    assert pip_fix(fake_host(), "so", ("uninstall", "torch")).title == "so"
