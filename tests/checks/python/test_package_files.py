"""package-files: the files of an installation against its RECORD."""

from __future__ import annotations

import base64
import hashlib
import importlib.util
import marshal
import os
import platform
import struct
import sys
from _imp import source_hash
from collections.abc import Iterator
from pathlib import Path
from typing import Optional

import pytest
from tests.checks.python.zips import zipped
from tests.elves import library as elf_library

from npudoctor import Severity, Status
from npudoctor.checks.python._permissions import report_closed_files
from npudoctor.checks.python.framework_modules import framework_modules
from npudoctor.checks.python.package_files import package_files as check
from npudoctor.checks.python.package_requirements import package_requirements
from npudoctor.testing import (
    SITE,
    Asked,
    Content,
    Node,
    ask,
    fake_host,
    folder,
    link,
    package_files,
    unreadable,
)

INFO = f"{SITE}/torch-2.13.0.dist-info"


def library(length: int = 4096) -> bytes:
    """An ELF file of 64 bits whose one program header ends with the file."""
    head = b"\x7fELF\x02\x01\x01" + bytes(9)
    head += struct.pack("<HHIQQQIHHHHHH", 3, 62, 1, 0, 64, 0, 0, 64, 56, 1, 64, 0, 0)
    segment = struct.pack("<IIQQQQQQ", 1, 5, 0, 0, 0, length, length, 4096)
    return (head + segment).ljust(length, b"\0")


# The head of byte code of Python 3.11, checked by content.
BYTE_CODE = (3495).to_bytes(2, "little") + b"\r\n" + b"\3\0\0\0" + bytes(8) + b"\xe3"
# As that of a module ends: its name twice, its first line, the tables of lines and of exceptions.
ENDING = b"\xda\x08<module>r\0\0\0\0\1\0\0\0s\2\0\0\0\xf0\3s\0\0\0\0"
FILES: dict[str, bytes] = {
    "torch/__init__.py": b"import os\n",
    "torch/nn/functional.py": b"def relu(): ...\n",
    "torch/lib/libc10.so": library(),
    "torch/_C.so.1": library(),
    "torch/py.typed": b"",
}


def told(change: dict[str, Content], gone: tuple[str, ...] = (), **more: object) -> Asked:
    """The answer of a torch whose files were changed, or removed, after it was installed."""
    lines = [f"{path},sha256=x,{len(content)}" for path, content in FILES.items()]
    lines += ["torch/include/a.h,sha256=x,9", "torch/testing/b.py,sha256=x,9", "bin/torchrun,,"]
    files: dict[str, Content] = {
        **package_files("torch", "2.13.0"),
        **{f"{SITE}/{path}": content for path, content in FILES.items()},
        f"{INFO}/RECORD": "\n".join(lines) + "\n",
        **{f"{SITE}/{path}": content for path, content in change.items()},
    }
    for path in gone:
        del files[f"{SITE}/{path}"]
    return ask(check, fake_host(files, **more))  # type: ignore[arg-type]


def test_quiet_when_well() -> None:
    asked = told({})
    assert (asked.status, asked.codes) == (Status.OK, [])
    assert asked.facts == {"distributions": 1, "files": 4}


@pytest.mark.parametrize(
    "change",
    [
        {"torch/nn/functional.py": "# patched by hand, and longer than before\n"},
        {"torch/nn/functional.py": "x = 1\n"},
        {"torch/lib/libc10.so": library(3000)},  # stripped: whole, and smaller
        {"torch/mine.py": "x = 1\n"},
    ],
)
def test_patched_and_stripped_is_well(change: dict[str, Content]) -> None:
    assert told(change).codes == []


def test_byte_code_alone_is_well() -> None:
    code = BYTE_CODE + ENDING
    assert told({"torch/nn/functional.pyc": code}, ("torch/nn/functional.py",)).codes == []


@pytest.mark.parametrize("code", [b"x", BYTE_CODE + ENDING[:-5], b"\xcb" + BYTE_CODE[1:] + ENDING])
def test_byte_code_of_another_python_is_none(code: bytes) -> None:
    assert told({"torch/nn/functional.pyc": code}, ("torch/nn/functional.py",)).codes == [
        "package-files.missing"
    ]


@pytest.mark.parametrize("gone", ["torch/__init__.py", "torch/lib/libc10.so", "torch/nn/functional.py"])
def test_missing(gone: str) -> None:
    (finding,) = told({}, (gone,)).findings
    assert (finding.code, finding.severity) == ("package-files.missing", Severity.ERROR)
    assert f"{SITE}/{gone}" in finding.message and "torch 2.13.0" in finding.message
    assert finding.fix is not None
    assert finding.fix.commands == (
        "/usr/bin/python3 -m pip install --force-reinstall --no-deps torch==2.13.0",
    )


@pytest.mark.parametrize(
    ("path", "content"),
    [
        ("torch/lib/libc10.so", library()[:2000]),
        ("torch/lib/libc10.so", b""),
        ("torch/lib/libc10.so", b"\0" * 4000),
        ("torch/_C.so.1", library()[:80]),
        ("torch/nn/functional.py", b""),
    ],
)
def test_cut_short(path: str, content: bytes) -> None:
    (finding,) = told({path: content}).findings
    assert (finding.code, finding.severity) == ("package-files.cut-short", Severity.ERROR)
    assert path in finding.message


@pytest.mark.parametrize(("moved", "severity"), [(True, Severity.ERROR), (False, Severity.INFO)])
def test_a_stopped_pip(moved: bool, severity: Severity) -> None:
    files: dict[str, Content] = {f"{SITE}/~orch/__init__.py": ""}
    if not moved:
        files[f"{SITE}/torch/__init__.py"] = ""
    (finding,) = ask(check, fake_host(files)).findings
    assert (finding.code, finding.severity) == ("package-files.interrupted", severity)
    assert f"{SITE}/~orch" in finding.message


def test_other_folders_with_a_tilde_are_not_ours() -> None:
    assert ask(check, fake_host({f"{SITE}/~mine/a.py": "", f"{SITE}/~/b": ""})).status is Status.SKIPPED


def test_two_versions_in_one_folder() -> None:
    files = {**package_files("numpy", "1.26.4"), **package_files("numpy", "2.3.5")}
    (finding,) = ask(check, fake_host(files)).findings
    assert finding.code == "package-files.two-versions"
    assert "1.26.4" in finding.message and "2.3.5" in finding.message


def test_two_versions_and_the_files_are_of_the_other() -> None:
    files: dict[str, Content] = {**package_files("numpy", "1.26.4"), **package_files("numpy", "2.3.5")}
    for version, size in (("1.26.4", 5), ("2.3.5", 7)):
        record = f"numpy/version.py,sha256=x,{size}\nnumpy/{version}.py,sha256=x,1\n"
        files[f"{SITE}/numpy-{version}.dist-info/RECORD"] = record
    for text, severity in (("1.26.", Severity.WARNING), ("2.3.5.d", Severity.ERROR)):
        files[f"{SITE}/numpy/version.py"] = text
        (finding,) = [one for one in ask(check, fake_host(files)).findings if "versions" in one.code]
        assert finding.severity is severity
    assert "numpy is recorded as 1.26.4, but its files are rather those of 2.3.5" in finding.message
    assert finding.fix is not None
    assert [line.split("-m pip ")[1].split()[0] for line in finding.fix.commands] == [
        "download", "uninstall", "uninstall", "install",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("required", "severity"),
    [("numpy", Severity.WARNING), ("numpy>=1.20", Severity.WARNING), ("numpy<2", Severity.ERROR)],
)
def test_a_version_that_was_copied_whole_over_another(required: str, severity: Severity) -> None:
    """cp -r of a newer one: all works, unless something refuses the version that it is."""
    files: dict[str, Content] = {
        **package_files("torch", "2.13.0", f"Requires-Dist: {required}"),
        **package_files("numpy", "1.26.4"),
        **package_files("numpy", "2.3.5"),
        f"{SITE}/numpy/version.py": "2.3.5.d",
    }
    for version, size in (("1.26.4", 5), ("2.3.5", 7)):
        files[f"{SITE}/numpy-{version}.dist-info/RECORD"] = f"numpy/version.py,sha256=x,{size}\n"
    (finding,) = [one for one in ask(check, fake_host(files)).findings if "versions" in one.code]
    assert finding.severity is severity


@pytest.mark.parametrize(
    ("listed", "there", "codes"),
    [(True, False, ["package-files.missing"]), (True, True, []), (False, False, [])],
)
def test_the_program_without_which_torch_is_not_imported(listed: bool, there: bool, codes: list[str]) -> None:
    path = "torch/bin/torch_shm_manager"
    files: dict[str, Content] = {
        **package_files("torch", "2.13.0"),
        f"{SITE}/torch/__init__.py": "import os\n",
        f"{INFO}/RECORD": "torch/__init__.py,sha256=x,10\n" + (f"{path},sha256=x,80\n" if listed else ""),
    }
    if there:
        files[f"{SITE}/{path}"] = ""  # what it holds only some jobs ask
    asked = ask(check, fake_host(files))
    assert asked.codes == codes and all(path in finding.message for finding in asked.findings)


def test_a_folder_that_this_user_may_not_enter() -> None:
    """As where root installed it under a strict umask."""
    asked = told({"torch/nn/functional.py": unreadable()})
    assert asked.codes == ["package-files.unreadable"]
    assert f"{SITE}/torch/nn/functional.py" in asked.findings[0].message


@pytest.mark.parametrize(
    ("module", "tried_by"), [("typing_extensions.py", ("trial-python",)), ("other.py", ())]
)
def test_what_torch_requires_is_closed(module: str, tried_by: tuple[str, ...]) -> None:
    """With it the list of its files: its import is tried, where its name is known."""
    files: dict[str, Content] = {
        **package_files("torch", "2.13.0", "Requires-Dist: typing-extensions"),
        **package_files("numpy", "2.2.0"),
        f"{SITE}/typing_extensions-4.16.0.dist-info/METADATA": unreadable(),
        f"{SITE}/{module}": "",
    }
    for one in (check, framework_modules, package_requirements):
        asked = ask(one, fake_host(files))
        assert (asked.status, asked.tried_by) == (Status.UNKNOWN, tried_by)
        assert asked.codes == (["package-files.unreadable"] if one is check else [])
        assert "typing_extensions-4.16.0.dist-info" in asked.reason


@pytest.mark.parametrize(
    ("closed", "severity", "opened"),
    [
        (("METADATA",), Severity.WARNING, [f"{INFO}/METADATA"]),
        (
            ("METADATA", "../torch/__init__.py"),
            Severity.ERROR,
            [f"{INFO}/METADATA", f"{SITE}/torch/__init__.py"],
        ),
    ],
)
def test_the_metadata_of_the_framework_is_closed(
    closed: tuple[str, ...], severity: Severity, opened: list[str]
) -> None:
    """It is opened by a line, and not known until then."""
    files: dict[str, Content] = {**package_files("torch", "2.13.0"), f"{SITE}/torch/__init__.py": "x = 1\n"}
    for name in closed:
        path = os.path.normpath(f"{INFO}/{name}")
        files[path] = Node(b"Name: torch\n", permissions=0o600)
    asked = ask(check, fake_host(files, euid=1000))
    assert (asked.status, asked.codes) == (Status.UNKNOWN, ["package-files.unreadable"])
    (finding,) = asked.findings
    assert finding.severity is severity and finding.fix is not None
    assert finding.fix.commands == (f"chmod -R a+rX {' '.join(opened)}",)
    assert finding.fix.title == "as root, make the installed files readable for all users"
    assert "owner=root mode=0600" in finding.evidence[0]


def test_an_access_control_list_is_not_opened_by_a_mode() -> None:
    """The mode allows it to all, the kernel refuses: `chmod` would change nothing."""
    host = fake_host({**TORCH, f"{SITE}/torch/hidden.py": Node(b"x", permissions=0o640)}, euid=1000)
    (copy,) = host.interpreter.distributions("torch")
    paths = ["torch/__init__.py", "torch/hidden.py"]
    finding = report_closed_files(host, copy, paths, 2)
    assert finding.fix is not None
    assert finding.fix.commands == (
        f"setfacl -R -b {SITE}/torch/__init__.py",
        f"chmod -R a+rX {SITE}/torch/hidden.py",
    )


def test_packages_that_are_torn_together_have_one_line() -> None:
    """A tree that was cut: whoever reinstalls one after the other asks as many times."""
    change: dict[str, Content] = {
        **package_files("torch", "2.13.0", "Requires-Dist: tqdm"),
        **package_files("tqdm", "4.70.1"),
    }
    for name, version in (("torch", "2.13.0"), ("tqdm", "4.70.1")):
        record = f"{name}/__init__.py,sha256=x,3\n{name}/gone.py,sha256=x,3\n"
        change[f"{SITE}/{name}-{version}.dist-info/RECORD"] = record
        change[f"{SITE}/{name}/__init__.py"] = "x=1"
    findings = ask(check, fake_host(change)).findings
    assert [finding.code for finding in findings] == ["package-files.missing"] * 2
    lines = {finding.fix.commands[-1] for finding in findings if finding.fix is not None}
    (line,) = lines
    assert line.endswith("install --force-reinstall --no-deps torch==2.13.0 tqdm==4.70.1")


def test_a_line_names_the_closed_files_and_nothing_else() -> None:
    change: dict[str, Content] = {
        "torch/nn/functional.py": Node(FILES["torch/nn/functional.py"], permissions=0o600)
    }
    (finding,) = told(change, euid=1000).findings
    assert finding.fix is not None
    assert finding.fix.commands == (f"chmod -R a+rX {SITE}/torch/nn/functional.py",)
    change["torch/nn/functional.py"] = Node(FILES["torch/nn/functional.py"], permissions=0o200, uid=1000)
    (finding,) = told(change, euid=1000).findings
    assert finding.fix is not None and not finding.fix.needs_root, "it is the user's own"
    assert finding.fix.title == "make the installed files readable for all users"


def test_no_record_is_no_damage() -> None:
    assert ask(check, fake_host(package_files("torch", "2.13.0"))).status is Status.OK


def test_a_record_that_cannot_be_read_is_unknown() -> None:
    files: dict[str, Content] = {**package_files("torch", "2.13.0"), f"{INFO}/RECORD": unreadable()}
    assert ask(check, fake_host(files)).status is Status.UNKNOWN


def test_skipped_without_a_framework() -> None:
    assert ask(check, fake_host(package_files("requests", "2.32.0"))).status is Status.SKIPPED


def test_in_a_zip_file_of_the_search_path() -> None:
    archive: dict[str, Content] = {"/opt/t.zip": zipped("torch/nn/functional.py")}
    gone = ("torch/nn/functional.py",)
    assert told({"/opt/t.zip": ""}, gone).codes == ["package-files.missing"]
    files: dict[str, Content] = {**package_files("torch", "2.13.0"), **archive}
    files[f"{INFO}/RECORD"] = "torch/nn/functional.py,sha256=x,9\n"
    assert ask(check, fake_host(files, search_path=(SITE, "/opt/t.zip"))).codes == []
    assert ask(check, fake_host(files)).codes == ["package-files.missing"]


@pytest.mark.parametrize(
    ("path", "content", "severity"),
    [
        # MindSpore imports and computes without: it loads these where their devices are.
        ("libx.so.2", b"junk", Severity.WARNING),
        ("libmindspore_gpu.so.11.1", library()[:2000], Severity.WARNING),
        ("cpu/libakg.so", library()[:2000], Severity.WARNING),
        # Opened on every machine: without it no Ascend, and cut it kills.
        ("libmindspore_ascend.so.2", None, Severity.WARNING),
        ("libmindspore_ascend.so.2", b"", Severity.WARNING),
        ("libmindspore_ascend.so.2", library()[:2000], Severity.ERROR),
        ("libmindspore_ops_ascend.so", library()[:2000], Severity.ERROR),
        ("ascend/libmindspore_ascend_res_manager.so", library()[:2000], Severity.ERROR),
        ("ascend/libmindspore_ascend_res_manager.so", None, Severity.WARNING),
        # Needed on every machine.
        ("libmindspore_ops_cpu.so", None, Severity.ERROR),
        ("libmindspore_ops_host.so", b"", Severity.ERROR),
        ("cpu/libmindspore_cpu_res_manager.so", None, Severity.ERROR),
    ],
)
def test_plug_ins_of_mindspore(path: str, content: Optional[bytes], severity: Severity) -> None:
    whole = "mindspore/lib/plugin/libmindspore_gpu.so.11.6"
    lines = f"{whole},sha256=x,4096\nmindspore/lib/plugin/{path},sha256=x,{len(library())}\n"
    files: dict[str, Content] = {
        **package_files("mindspore", "2.10.0"),
        f"{SITE}/mindspore-2.10.0.dist-info/RECORD": lines,
    }
    if content is not None:
        files.update({f"{SITE}/{whole}": library(), f"{SITE}/mindspore/lib/plugin/{path}": content})
    (finding,) = ask(check, fake_host(files)).findings
    code = "missing" if content is None else "cut-short"
    assert (finding.code, finding.severity) == (f"package-files.{code}", severity)
    assert (path in finding.evidence[0]) or severity is Severity.WARNING, "what matters is named first"


@pytest.mark.parametrize(
    ("path", "content"),
    [
        ("torch/__init__.py", b"import os\0"[:9] + b"\0"),
        ("torch/__init__.py", bytes(10)),
        ("torch/lib/libc10.so", bytes(4096)),
        ("torch/nn/functional.py", b"version https://git-lfs.github.com/spec/v1\noid sha256:4d\n"),
        ("torch/nn/functional.py", b"def relu(): ...\n\0\0\0\0"),
    ],
)
def test_spoiled(path: str, content: bytes) -> None:
    (finding,) = told({path: content}).findings
    assert (finding.code, finding.severity) == ("package-files.spoiled", Severity.ERROR)
    assert f"{SITE}/{path}" in finding.message
    assert finding.fix is not None and "torch==2.13.0" in finding.fix.commands[0]


@pytest.mark.parametrize("content", [folder(), link("/store/torch/libc10.so"), link("/store/good.so")])
def test_a_folder_or_a_link_in_its_place(content: Content) -> None:
    """Where all files are links to a store, which somebody may have emptied."""
    files: dict[str, Content] = {**package_files("torch", "2.13.0"), f"{SITE}/torch/lib/libc10.so": content}
    files[f"{INFO}/RECORD"] = f"torch/lib/libc10.so,sha256=x,{len(library())}\n"
    files["/store/good.so"] = library()
    asked = ask(check, fake_host(files))
    kinds = {"": "package-files.spoiled", "/store/torch/libc10.so": "package-files.missing"}
    told_ = kinds.get(getattr(content, "target", ""))
    assert asked.codes == ([told_] if told_ else [])


def test_the_same_size_and_other_content() -> None:
    """A warning, where pip or uv installed it and it was written later; conda writes into its files."""
    content = library()
    wanted = base64.urlsafe_b64encode(hashlib.sha256(content + b"x").digest()).rstrip(b"=").decode()
    for later, installer, said in ((9, "pip\n", True), (9, "conda\n", False), (0, "pip\n", False)):
        files: dict[str, Content] = {
            **package_files("torch", "2.13.0"),
            f"{INFO}/RECORD": f"torch/_C.so,sha256={wanted},{len(content)}\n",
            f"{INFO}/INSTALLER": installer,
            f"{SITE}/torch/_C.so": Node(content, mtime=later),
        }
        findings = ask(check, fake_host(files)).findings
        assert [one.code for one in findings] == (["package-files.changed"] if said else [])
        assert all(one.severity is Severity.WARNING for one in findings)


@pytest.mark.parametrize(("installed", "severity"), [(6, Severity.ERROR), (9, Severity.WARNING)])
def test_stale_code(installed: int, severity: Severity) -> None:
    """An error where the source is the one that was installed."""
    if sys.version_info < (3, 11):
        pytest.skip("byte code of 3.11 is told by 3.11 and later")
    code = BYTE_CODE[:4] + b"\1\0\0\0" + bytes(8) + b"\xe3" + ENDING
    files: dict[str, Content] = {
        **package_files("torch", "2.13.0"),
        f"{INFO}/RECORD": f"torch/__init__.py,sha256=x,{installed}\n",
        f"{SITE}/torch/__init__.py": "x = 1\n",
        f"{SITE}/torch/__pycache__/__init__.cpython-311.pyc": code,
    }
    if installed != 6:
        files[f"{INFO}/RECORD"] = f"torch/a.py,sha256=x,6\ntorch/__init__.py,sha256=x,{installed}\n"
        files[f"{SITE}/torch/a.py"] = "x = 1\n"
        files[f"{SITE}/torch/__pycache__/a.cpython-311.pyc"] = (
            code[:8] + source_hash(3495 | 0xA0D << 16, b"x = 1\n") + code[16:]
        )
    (finding,) = ask(check, fake_host(files)).findings
    assert (finding.code, finding.severity) == ("package-files.stale-code", severity)
    assert finding.fix is not None and f"compileall -q -f -l {SITE}/torch" in finding.fix.commands[0]
    assert ask(check, fake_host(files, variables={"PYTHONPYCACHEPREFIX": "/x"})).codes == []


@pytest.mark.parametrize(
    ("path", "cached", "said"),
    [
        ("torch/__init__.py", False, True),
        ("torch/__init__.py", True, False),  # its byte code is all that Python reads
        ("torch/nn/functional.py", False, True),
        ("torch/lib/libc10.so", False, True),
    ],
)
def test_what_this_user_may_not_read(path: str, cached: bool, said: bool) -> None:
    closed = Node(FILES[path], permissions=0o600)
    change: dict[str, Content] = {path: closed}
    if cached:
        # By its header of this very source (PEP 552): its moment, which is 0 here, and its size.
        stamp = bytes(8) + len(FILES[path]).to_bytes(4, "little")
        change["torch/__pycache__/__init__.cpython-311.pyc"] = BYTE_CODE[:4] + stamp + BYTE_CODE[16:] + ENDING
    asked = told(change, euid=1000)
    assert asked.codes == (["package-files.unreadable"] if said else [])
    assert all(f"{SITE}/{path}" in finding.message for finding in asked.findings)
    assert told(change).codes == [], "root reads it"
    code = Node(BYTE_CODE, permissions=0o600)
    asked = told({"torch/__pycache__/__init__.cpython-311.pyc": code}, euid=1000)
    assert asked.codes == [], "Python compiles the source"


@pytest.mark.parametrize("gone", [True, False])
def test_who_announces_a_back_end_to_torch_is_looked_at(gone: bool) -> None:
    info = f"{SITE}/mine-1.0.dist-info"
    files: dict[str, Content] = {
        **package_files("torch", "2.13.0"),
        **package_files("mine", "1.0"),
        f"{info}/entry_points.txt": "[torch.backends]\nmine = mine:_autoload\n",
        f"{info}/RECORD": "mine/lib/libmine.so,sha256=x,4096\n",
    }
    if not gone:
        files[f"{SITE}/mine/lib/libmine.so"] = library()
    assert ask(check, fake_host(files)).codes == (["package-files.missing"] if gone else [])


def test_another_file_of_what_a_framework_requires() -> None:
    """A warning: of typing_extensions an older file broke the import; a patched one would not."""
    files: dict[str, Content] = {
        **package_files("torch", "2.13.0", "Requires-Dist: typing-extensions"),
        **package_files("typing_extensions", "4.16.0"),
        f"{SITE}/typing_extensions-4.16.0.dist-info/RECORD": "typing_extensions.py,sha256=x,6\n",
    }
    for text, codes in (("x = 1\n", []), ("x = 12\n", ["package-files.changed"])):
        files[f"{SITE}/typing_extensions.py"] = text
        findings = ask(check, fake_host(files)).findings
        assert [one.code for one in findings] == codes
        assert all(one.severity is Severity.WARNING for one in findings)


RECORD = "torch/__init__.py,sha256=a,9\ntorch/lib/libtorch.so,sha256=b,99\n"
TORCH: dict[str, Content] = {
    **package_files("torch", "2.13.0"),
    f"{SITE}/torch-2.13.0.dist-info/RECORD": RECORD,
    f"{SITE}/torch/__init__.py": "import os",
}
OTHER: dict[str, Content] = {
    **package_files("torch", "2.13.0", "Requires-Dist: typing-extensions"),
    **package_files("typing_extensions", "4.16.0"),
    f"{SITE}/typing_extensions-4.16.0.dist-info/RECORD": "typing_extensions.py,sha256=x,6\n",
    f"{SITE}/typing_extensions.py": "x = 12\n",
}
SHORT: dict[str, Content] = {**TORCH, f"{SITE}/torch/lib/libtorch.so": "\x7fELF"}


def scene(tmp: Path) -> Iterator[Asked]:
    """Each code, each ending; what pip left with its package and without."""
    left: dict[str, Content] = {f"{SITE}/~orch/__init__.py": ""}
    twice = {**SHORT, **package_files("torch", "2.5.1")}
    for files in ({}, TORCH, SHORT, twice, left, {**SHORT, **left}):
        yield ask(check, fake_host(files))
    whole: dict[str, Content] = {**TORCH, f"{SITE}/torch/lib/libtorch.so": "x" * 99}
    yield ask(check, fake_host({**whole, f"{SITE}/torch/__init__.py": bytes(9)}))
    yield ask(check, fake_host({**whole, **OTHER}))
    closed: dict[str, Content] = {f"{SITE}/torch/lib/libtorch.so": Node(b"x" * 99, permissions=0o600)}
    yield ask(check, fake_host({**TORCH, **closed}, euid=1000))
    yield ask(check, fake_host(_stale(), python_version=RELEASE))
    yield ask(check, fake_host(_exchanged()))


# The running Python's: of its own byte code it can tell whether it is stale.
RELEASE = platform.python_version()


def _stale() -> dict[str, Content]:
    head = importlib.util.MAGIC_NUMBER + b"\1\0\0\0" + bytes(8)
    code = marshal.dumps(compile("import sys", "torch/__init__.py", "exec"))
    name = f"__init__.{sys.implementation.cache_tag}.pyc"
    return {
        **package_files("torch", "2.13.0"),
        f"{SITE}/torch-2.13.0.dist-info/RECORD": "torch/__init__.py,sha256=a,9\n",
        f"{SITE}/torch/__init__.py": "import os",
        f"{SITE}/torch/__pycache__/{name}": head + code,
    }


def _exchanged() -> dict[str, Content]:
    content = elf_library("libc.so.6")
    return {
        **package_files("torch", "2.13.0"),
        f"{SITE}/torch-2.13.0.dist-info/RECORD": f"torch/_C.so,sha256=other,{len(content)}\n",
        f"{SITE}/torch-2.13.0.dist-info/INSTALLER": "pip\n",
        f"{SITE}/torch/_C.so": Node(content, mtime=99),
    }
