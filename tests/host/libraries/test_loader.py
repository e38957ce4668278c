"""The loader's answer: that of the real ld.so, for libraries that were compiled for the question."""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Optional

import pytest

from npudoctor.host.fs.files import Files, LocalDisk
from npudoctor.host.libraries.ldcache import CACHE, parse_cache, read_cache
from npudoctor.host.libraries.library import Libraries
from npudoctor.host.libraries.loader import LOADERS, Loader
from npudoctor.testing import Content, MemoryDisk, unreadable

from ...elves import cache, library  # noqa: TID252

HERE = platform.machine()
SYSTEM = ("libc.so.6", "libm.so.6", "libstdc++.so.6", "libz.so.1")


class Workshop:
    """A folder in which libraries and one program are compiled, and the real loader is asked."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def make(
        self, path: str, *needed: str, flags: Sequence[str] = (), soname: str = "", old: bool = True
    ) -> str:
        """Compile a library that needs these others, which need not exist; the search paths are of the
        old kind, RPATH, or the new one, RUNPATH."""
        made = self.folder / path
        made.parent.mkdir(parents=True, exist_ok=True)
        for name in needed:
            stub = self.folder / "stubs" / name
            stub.parent.mkdir(exist_ok=True)
            if not stub.exists():
                self._compile(stub, "-shared", f"-Wl,-soname,{name}")
        kind = ["-shared", f"-Wl,-soname,{soname or made.name}"] if ".so" in path else []
        tags = "-Wl,--disable-new-dtags" if old else "-Wl,--enable-new-dtags"
        stubs = [str(self.folder / "stubs" / name) for name in needed]
        self._compile(made, *kind, tags, *flags, "-Wl,--no-as-needed", *stubs, "-Wl,--allow-shlib-undefined")
        return str(made)

    def told_by_the_real_one(
        self, program: str, variables: Mapping[str, str], cwd: Optional[str] = None
    ) -> dict[str, str]:
        """What the real one says of our own program: the path of each library, "" when not found."""
        told = {**variables, "LD_TRACE_LOADED_OBJECTS": "1"}
        done = subprocess.run([program], env=told, cwd=cwd, capture_output=True, text=True)
        answer = {}
        for line in done.stdout.splitlines():
            found = line.strip().rpartition(" => ")[2].split(" (")[0]
            # A library in the working directory is told without a name.
            name = line.strip().rpartition(" => ")[0] or found.rpartition("/")[2]
            answer[name] = "" if found == "not found" else os.path.join(cwd or "/", found)
        return {name: path for name, path in answer.items() if not name.startswith("linux-vdso")}

    def told_by_us(
        self, program: str, variables: Mapping[str, str], cwd: Optional[str] = None
    ) -> dict[str, str]:
        files = Files(LocalDisk())
        loader = Loader(files, Libraries(files), variables, machine=HERE, working_folder=cwd)
        loader.start(program)
        found = {one.name: one.path for one in loader.loaded[1:]}
        return {**found, **{one.name: "" for one in loader.missing}}

    def agree(
        self, program: str, variables: Optional[Mapping[str, str]] = None, cwd: Optional[str] = None
    ) -> dict[str, str]:
        """Both answers, which must be one; without the loader itself."""
        real = self.told_by_the_real_one(program, variables or {}, cwd)
        ours = self.told_by_us(program, variables or {}, cwd)
        one, other = ({n: _clean(p) for n, p in told.items() if "ld-linux" not in n} for told in (ours, real))
        assert one == other
        return one

    def _compile(self, made: Path, *flags: str) -> None:
        made.parent.mkdir(parents=True, exist_ok=True)
        source = "int main(void){return 0;}" if "-shared" not in flags else "int nothing;"
        command = [
            "gcc",
            "-x",
            "c",
            "-",
            "-o",
            str(made),
            "-fPIC",
            *(flag for flag in flags if flag.startswith("-")),
        ]
        command += ["-x", "none", *(flag for flag in flags if not flag.startswith("-"))]
        subprocess.run(command, input=source, text=True, check=True, cwd=made.parent)


def _clean(path: str) -> str:
    """A folder may be written with doubled slashes or dots in between."""
    return os.path.normpath(path) if path else ""


@pytest.fixture
def workshop(tmp_path: Path, need: Callable[..., None], lack: Callable[[str], None]) -> Workshop:
    need("gcc")
    if HERE not in LOADERS:
        lack(f"no loader known for {HERE}")
    return Workshop(tmp_path)


def test_the_order_of_the_search_paths(workshop: Workshop, tmp_path: Path) -> None:
    for place in ("rpath", "variable", "runpath"):
        workshop.make(f"{place}/libone.so")
    variables = {"LD_LIBRARY_PATH": str(tmp_path / "variable")}
    for old, chosen in ((True, "rpath"), (False, "variable")):
        flags = [f"-Wl,-rpath,{tmp_path}/{'rpath' if old else 'runpath'}"]
        program = workshop.make(f"program{old}", "libone.so", flags=flags, old=old)
        assert workshop.agree(program, variables)["libone.so"] == f"{tmp_path}/{chosen}/libone.so"
        assert workshop.agree(program)["libone.so"].split("/")[-2] == ("rpath" if old else "runpath")


@pytest.mark.parametrize("old", [True, False])
def test_rpath_is_inherited_and_runpath_is_not(workshop: Workshop, tmp_path: Path, old: bool) -> None:
    workshop.make("deep/libtwo.so")
    workshop.make("deep/libone.so", "libtwo.so")
    program = workshop.make("bin/program", "libone.so", flags=["-Wl,-rpath,$ORIGIN/../deep"], old=old)
    told = workshop.agree(program)
    assert told["libtwo.so"] == (f"{tmp_path}/deep/libtwo.so" if old else "")


def test_a_library_with_runpath_shuts_the_rpath_of_others_out(workshop: Workshop, tmp_path: Path) -> None:
    workshop.make("deep/libtwo.so")
    workshop.make("deep/libone.so", "libtwo.so", flags=[f"-Wl,-rpath,{tmp_path}/none"], old=False)
    program = workshop.make("program", "libone.so", flags=[f"-Wl,-rpath,{tmp_path}/deep"])
    assert workshop.agree(program)["libtwo.so"] == ""


def test_what_is_loaded_already_is_taken(workshop: Workshop, tmp_path: Path) -> None:
    workshop.make("a/libtwo.so")
    workshop.make("b/libtwo.so")
    workshop.make("libone.so", "libtwo.so", flags=[f"-Wl,-rpath,{tmp_path}/b"])
    program = workshop.make(
        "program", "libtwo.so", "libone.so", flags=[f"-Wl,-rpath,{tmp_path}/a:{tmp_path}"]
    )
    assert workshop.agree(program)["libtwo.so"] == f"{tmp_path}/a/libtwo.so"


@pytest.mark.parametrize(
    ("entries", "folder"),
    [
        *(("{0}/none:{0}/a/:{0}/b", "a"), ("{0}/b;{0}/a", "b"), (":{0}/a", "here"), ("{0}/a:", "a")),
        *(("b:{0}/a", "here/b"), ("", None), ("{0}/wrong:{0}/a", "a")),
    ],
)
def test_entries_of_every_kind(
    workshop: Workshop, tmp_path: Path, entries: str, folder: Optional[str]
) -> None:
    for place in ("a", "b", "here", "here/b"):
        workshop.make(f"{place}/libone.so")
    (tmp_path / "wrong").mkdir()
    other = "aarch64" if HERE == "x86_64" else "x86_64"
    (tmp_path / "wrong/libone.so").write_bytes(library(machine=other))
    program = workshop.make("program", "libone.so")
    loaded = workshop.agree(program, {"LD_LIBRARY_PATH": entries.format(tmp_path)}, str(tmp_path / "here"))
    assert loaded["libone.so"] == (f"{tmp_path}/{folder}/libone.so" if folder else "")


def test_a_folder_that_is_not_for_us(workshop: Workshop, tmp_path: Path) -> None:
    """Root may open it all the same, and so does the system's own loader."""
    workshop.make("shut/libone.so")
    workshop.make("a/libone.so")
    (tmp_path / "shut").chmod(0)
    program = workshop.make("program", "libone.so")
    folder = "shut" if os.geteuid() == 0 else "a"
    loaded = workshop.agree(program, {"LD_LIBRARY_PATH": f"{tmp_path}/shut:{tmp_path}/a"})
    assert loaded["libone.so"] == f"{tmp_path}/{folder}/libone.so"
    (tmp_path / "shut").chmod(0o755)


def test_tokens(workshop: Workshop, tmp_path: Path) -> None:
    for place in ("lib64", f"lib/{HERE}-linux-gnu", HERE):
        workshop.make(f"{place}/libone.so")
    for word in ("${LIB}", "$LIB", "$PLATFORM"):
        program = workshop.make("program", "libone.so", flags=[f"-Wl,-rpath,$ORIGIN/{word}"])
        if word != "$PLATFORM":  # some glibc call a processor haswell
            workshop.agree(program)
    assert workshop.told_by_us(program, {})["libone.so"].startswith(str(tmp_path))


def test_a_link_is_followed_for_the_program_but_not_for_a_library(workshop: Workshop, tmp_path: Path) -> None:
    workshop.make("real/libtwo.so")
    workshop.make("real/libone.so", "libtwo.so", flags=["-Wl,-rpath,$ORIGIN"])
    (tmp_path / "links").mkdir()
    (tmp_path / "links/libone.so").symlink_to("../real/libone.so")
    program = workshop.make("program", "libone.so", flags=[f"-Wl,-rpath,{tmp_path}/links"])
    assert workshop.agree(program)["libtwo.so"] == ""


def test_the_systems_own(workshop: Workshop) -> None:
    files = Files(LocalDisk())
    program = "/bin/sh"
    assert workshop.agree(program)["libc.so.6"]
    known = read_cache(files, HERE)
    asked = subprocess.run(["/sbin/ldconfig", "-p"], capture_output=True, text=True)
    rows = [line.split() for line in asked.stdout.splitlines() if " => " in line]
    ours = {"x86_64": "x86-64", "aarch64": "AArch64"}[HERE]
    told = {
        row[0]: row[-1] for row in reversed(rows) if ours in " ".join(row) and "hwcap" not in " ".join(row)
    }
    assert known == told


def test_preloaded(workshop: Workshop, tmp_path: Path) -> None:
    for place in ("a", "b"):
        workshop.make(f"{place}/libone.so")
    program = workshop.make("program", "libone.so", flags=[f"-Wl,-rpath,{tmp_path}/a"])
    told = workshop.told_by_us(program, {"LD_PRELOAD": f"{tmp_path}/b/libone.so"})
    real = workshop.told_by_the_real_one(program, {"LD_PRELOAD": f"{tmp_path}/b/libone.so"})
    assert (
        told["libone.so" if "libone.so" in told else f"{tmp_path}/b/libone.so"] == f"{tmp_path}/b/libone.so"
    )
    assert f"{tmp_path}/a/libone.so" not in {*told.values(), *real.values()}


def test_dlopen_of_an_extension(workshop: Workshop, tmp_path: Path) -> None:
    workshop.make("lib/libtwo.so")
    extension = workshop.make("ext.so", "libtwo.so", "libgone.so", flags=["-Wl,-rpath,$ORIGIN/lib"])
    files = Files(LocalDisk())
    loader = Loader(files, Libraries(files), {}, machine=HERE)
    loader.start("/bin/sh")
    found = loader.dlopen(extension)
    assert found is not None
    assert {one.name: one.path for one in loader.loaded}["libtwo.so"] == f"{tmp_path}/lib/libtwo.so"
    assert [(one.name, one.needed_by) for one in loader.missing] == [("libgone.so", extension)]
    assert loader.dlopen("libtwo.so") is not None  # it is there already, whatever the search paths say
    assert loader.dlopen("libnone.so") is None


def fake(files: Mapping[str, Content], machine: str = "aarch64", **variables: str) -> Loader:
    below = Files(MemoryDisk(files))
    return Loader(below, Libraries(below), variables, machine=machine, working_folder="/job")


def test_another_machine_from_the_cache_and_the_default_folders() -> None:
    files: dict[str, Content] = {
        CACHE: cache({"libone.so": "/opt/libone.so", "libstale.so": "/gone/libstale.so"}, "aarch64"),
        "/opt/libone.so": library(machine="aarch64"),
        "/lib/aarch64-linux-gnu/libtwo.so": library(machine="aarch64"),
        "/usr/lib64/libstale.so": library(machine="aarch64"),
        "/lib64/libother.so": library(machine="x86_64"),
    }
    loader = fake(files)
    loader.load_for(["libone.so", "libtwo.so", "libstale.so", "libother.so"], "job")
    assert {one.name: one.via for one in loader.loaded} == {
        "libone.so": "cache",
        "libtwo.so": "default",
        "libstale.so": "default",
    }
    assert [one.name for one in loader.missing] == ["libother.so"]


def test_a_broken_library_stops_the_search() -> None:
    loader = fake(
        {"/a/libone.so": b"/* GNU ld script */", "/b/libone.so": library(machine="aarch64")},
        LD_LIBRARY_PATH="/a:/b",
    )
    loader.load_for(["libone.so"], "job")
    (missing,) = loader.missing
    assert "/a/libone.so is not an ELF file" in missing.broken


@pytest.mark.parametrize(
    "content",
    [b"", b"glibc-ld.so.cache1.1", b"glibc-ld.so.cache1.1" + b"\xff" * 90, b"ld.so-1.7.0" + bytes(90)],
)
def test_a_cache_that_is_none(content: bytes) -> None:
    assert parse_cache(content, "x86_64") == {}


def test_a_cache_behind_the_old_one_and_copies_for_newer_processors() -> None:
    new = cache({"libone.so": "/lib/libone.so"})
    assert parse_cache(b"ld.so-1.7.0" + bytes(5) + new, "x86_64") == {"libone.so": "/lib/libone.so"}
    assert parse_cache(cache({"libone.so": "/lib/v3/libone.so"}, hwcap=1 << 62), "x86_64") == {}
    assert parse_cache(new, "aarch64") == {}
    assert read_cache(Files(MemoryDisk({CACHE: unreadable()})), "x86_64") == {}
