"""standard-library: quiet when whole; speaks of what is missing, damaged, closed; skipped; cannot tell."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Optional

import pytest
from tests.elves import library

from npudoctor import Severity, Status
from npudoctor.checks.python.standard_library import standard_library
from npudoctor.core.errors import DoesNotRun
from npudoctor.core.once import Once
from npudoctor.facts.python.standard_library import EXTENSIONS, MODULES, NEEDED_BY, OPTIONAL, PACKAGES
from npudoctor.host.python.interpreter import Layout
from npudoctor.testing import Asked, Content, ask, fake_host, unreadable

PREFIX = "/opt/python"
LIB = f"{PREFIX}/lib/python3.11"
DYNLOAD, SITE = f"{LIB}/lib-dynload", f"{LIB}/site-packages"
LOADER = "/lib64/ld-linux-x86-64.so.2"
END = ".cpython-311-x86_64-linux-gnu.so"
TORCH: dict[str, Content] = {
    f"{SITE}/torch-2.13.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: torch\nVersion: 2.13.0\n",
    f"{SITE}/torch/__init__.py": "",
}
HUB: dict[str, Content] = {
    f"{SITE}/huggingface_hub-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: huggingface-hub\n"
    "Version: 1.0\n",
}
DATASETS: dict[str, Content] = {
    f"{SITE}/datasets-5.2.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: datasets\nVersion: 5.2.0\n",
    f"{SITE}/datasets/__init__.py": "",
}


def whole() -> dict[str, Content]:
    """A Python with all that frameworks import."""
    files: dict[str, Content] = {f"{PREFIX}/bin/python3.11": library(interpreter=LOADER)}
    files.update({f"{LIB}/{name}.py": "x = 1\n" for name in MODULES})
    files.update({f"{LIB}/{name}/__init__.py": "" for name in PACKAGES})
    files.update({f"{LIB}/{name}.py": "x = 1\n" for names in NEEDED_BY.values() for name in names})
    files[f"{LIB}/json/decoder.py"] = "x = 1\n"
    files[f"{DYNLOAD}/termios{END}"] = library()
    files.update({f"{DYNLOAD}/{name}{END}": library() for name in (*EXTENSIONS, *OPTIONAL)})
    return {**files, **TORCH}


def judge(
    files: Mapping[str, Content],
    built_in: Optional[frozenset[str]] = frozenset(),
    asked: bool = True,
    dies: Optional[Exception] = None,
    **more: Any,
) -> Asked:
    """What the check says of a machine with these files."""
    host = fake_host(files, python=f"{PREFIX}/bin/python3.11", search_path=(SITE,), **more)
    path = (LIB, DYNLOAD, SITE) if asked else (SITE,)

    def read() -> Layout:
        if dies is not None:
            raise dies
        return Layout(path, "3.11.7", "x86_64", asked, built_in=built_in)

    host.interpreter.layout = Once(read)
    return ask(standard_library, host)


def changed(remove: str = "", **put: Content) -> dict[str, Content]:
    """Without what begins with a path, and with others."""
    files = {path: content for path, content in whole().items() if not remove or not path.startswith(remove)}
    return {**files, **{f"{LIB}/{name}": content for name, content in put.items()}}


def scene(tmp: Path) -> Iterator[Asked]:
    """Each code, each skip and each unknown."""
    yield judge({})
    yield judge(TORCH)
    yield judge(TORCH, asked=False)
    yield judge(changed(f"{LIB}/unittest"))
    yield judge(changed(f"{DYNLOAD}/_ctypes"))
    yield judge(changed(f"{DYNLOAD}/_ssl"))
    yield judge({**whole(), f"{LIB}/ast.py": "x = ("})
    yield judge({**whole(), f"{LIB}/ast.py": unreadable()}, euid=1000)
    yield judge({**whole(), f"{DYNLOAD}/_ctypes{END}": library("libffi.so.8")})


def test_quiet_when_whole() -> None:
    asked = judge(whole())
    assert (asked.status, asked.codes) == (Status.OK, [])
    assert asked.facts == {"folder": LIB, "extensions": DYNLOAD}


@pytest.mark.parametrize("built_in", [frozenset((*EXTENSIONS, *OPTIONAL)), None])
def test_what_is_compiled_in_is_no_file(built_in: Optional[frozenset[str]]) -> None:
    # None: that Python was not asked, so that nobody knows.
    assert judge(changed(f"{DYNLOAD}/_"), built_in).codes == []


@pytest.mark.parametrize("gone", ["unittest", "difflib.py", "encodings", "lib-dynload/math", "lib-dynload/"])
def test_what_is_missing_is_named(gone: str) -> None:
    (finding, *others) = judge(changed(f"{LIB}/{gone}")).findings
    assert (finding.code, finding.weight) == ("standard-library.module-missing", Severity.ERROR)
    assert gone.rpartition("/")[2].partition(".")[0] in finding.message
    assert [other.code for other in others] == ["standard-library.optional-module"] * (gone == "lib-dynload/")


def test_a_build_without_headers_says_which(tmp_path: Path) -> None:
    files = {**changed(f"{DYNLOAD}/_ctypes"), "/usr/bin/apt-get": ""}
    (finding,) = judge(files).findings
    assert "built without libffi" in finding.message
    assert finding.fix is not None
    assert finding.fix.commands == ("apt-get install libffi-dev",)


def test_a_folder_without_extensions_needs_no_answer() -> None:
    assert judge(changed(f"{DYNLOAD}/"), None, asked=False).codes == ["standard-library.module-missing"]


@pytest.mark.parametrize("content", ["x = (", "", b"\0" * 100, "x = 1\n" + "\0" * 70])
@pytest.mark.parametrize("name", ["ast.py", "json/decoder.py"])
def test_what_is_cut_is_damaged(name: str, content: Content) -> None:
    (finding,) = judge({**whole(), f"{LIB}/{name}": content}).findings
    assert (finding.code, finding.evidence) == ("standard-library.damaged", (f"{LIB}/{name}",))


def test_a_cut_extension_is_damaged() -> None:
    (finding,) = judge({**whole(), f"{DYNLOAD}/math{END}": library()[:100]}).findings
    assert finding.code == "standard-library.damaged"


def test_a_library_that_is_not_there() -> None:
    files = {**whole(), f"{DYNLOAD}/_ctypes{END}": library("libffi.so.8"), "/usr/bin/apt-get": ""}
    (finding,) = judge(files).findings
    assert finding.code == "standard-library.library-missing"
    assert finding.fix is not None
    assert finding.fix.commands == ("apt-get install --reinstall libffi8",)


def test_what_this_user_may_not_read() -> None:
    (finding,) = judge({**whole(), f"{LIB}/uuid.py": unreadable()}, euid=1000).findings
    assert finding.code == "standard-library.not-readable"
    assert finding.fix is not None
    assert finding.fix.commands == (f"chmod -R a+rX {LIB}/uuid.py",)


@pytest.mark.parametrize(("more", "code"), [({}, "optional-module"), (HUB, "module-missing")])
def test_ssl_is_needed_by_the_hub(more: dict[str, Content], code: str) -> None:
    assert judge({**changed(f"{DYNLOAD}/_ssl"), **more}).codes == [f"standard-library.{code}"]


@pytest.mark.parametrize(
    ("gone", "more", "codes"),
    [
        (f"{LIB}/zoneinfo", {}, []),
        (f"{LIB}/zoneinfo", HUB, []),
        (f"{LIB}/zoneinfo", DATASETS, ["standard-library.module-missing"]),
        (f"{DYNLOAD}/termios", DATASETS, ["standard-library.module-missing"]),
        (f"{DYNLOAD}/_lzma", HUB, ["standard-library.optional-module"]),
        (f"{DYNLOAD}/_lzma", DATASETS, ["standard-library.module-missing"]),
        (f"{LIB}/configparser", {}, []),
        (f"{LIB}/configparser", HUB, ["standard-library.module-missing"]),
    ],
)
def test_what_only_some_packages_import(gone: str, more: dict[str, Content], codes: list[str]) -> None:
    assert judge({**changed(gone), **more}).codes == codes


def test_one_that_does_not_start_is_looked_at() -> None:
    dies = DoesNotRun("it does not answer", 1, "ModuleNotFoundError")
    assert judge(changed(f"{LIB}/encodings"), dies=dies).codes == ["standard-library.module-missing"]
    assert judge(whole(), dies=dies).status is Status.UNKNOWN


def test_without_a_folder_it_is_skipped_or_unknown() -> None:
    assert judge(TORCH).status is Status.SKIPPED
    assert judge(TORCH, asked=False).status is Status.UNKNOWN
    assert judge({}).status is Status.SKIPPED


@pytest.mark.parametrize(
    ("prefix", "line"),
    [
        ("/home/u/.pyenv/versions/3.11.7", "pyenv install --force 3.11.7"),
        (
            "/home/u/.local/share/uv/python/cpython-3.11.7-linux-x86_64-gnu",
            "uv python install --reinstall 3.11.7",
        ),
        ("/opt/conda", "conda install --yes --force-reinstall --prefix /opt/conda python=3.11.7"),
    ],
)
def test_it_is_installed_again_by_what_installed_it(prefix: str, line: str) -> None:
    files = {path.replace(PREFIX, prefix): content for path, content in changed(f"{LIB}/unittest").items()}
    if "conda" in prefix:
        files[f"{prefix}/conda-meta/history"] = ""
    lib = f"{prefix}/lib/python3.11"
    host = fake_host(files, python=f"{prefix}/bin/python3.11", search_path=(f"{lib}/site-packages",))
    layout = Layout((lib, f"{lib}/site-packages"), "3.11.7", "x86_64", True, built_in=frozenset())
    host.interpreter.layout = Once(lambda: layout)
    (finding,) = ask(standard_library, host).findings
    assert finding.fix is not None
    assert finding.fix.commands == (line,)
