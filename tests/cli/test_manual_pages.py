"""Manual pages: one for each command, which man shows without a complaint, in both languages."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Callable

import pytest

from npudoctor.cli.companions.grammar import all_commands, command_tree

WRITE = "import sys; from npudoctor.cli.companions.share import write; write(sys.argv[1], sys.argv[2])"
SPEAK = "import sys; from npudoctor.core import messages; messages.activate(sys.argv[2]); "


@pytest.fixture(scope="module")
def share(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the build writes, in both languages."""
    folder = tmp_path_factory.mktemp("share")
    for language in ("en", "zh"):
        subprocess.run([sys.executable, "-c", SPEAK + WRITE, str(folder), language], check=True)
    return folder


@pytest.mark.parametrize("folder", ["man/man1", "man/zh_CN/man1"])
def test_each_command_has_a_page_with_its_options(share: Path, folder: str) -> None:
    names = {"-".join(("npudoctor", *command.words)) for command in all_commands(command_tree())}
    assert {path.stem for path in (share / folder).iterdir()} == names
    for command in all_commands(command_tree()):
        page = (share / folder / f"{'-'.join(('npudoctor', *command.words))}.1").read_text(encoding="utf-8")
        for option in command.options:
            for name in option.names:
                assert f"\\fB{name.replace('-', chr(92) + '-')}\\fR" in page


def test_the_pages_are_in_their_languages(share: Path) -> None:
    assert all(path.read_text("utf-8").isascii() for path in (share / "man/man1").iterdir())
    for path in (share / "man/zh_CN/man1").iterdir():
        assert re.search("[\u4e00-\u9fff]", path.read_text("utf-8")), path.name


@pytest.mark.parametrize("folder", ["man/man1", "man/zh_CN/man1"])
def test_man_shows_them(share: Path, folder: str, lack: Callable[[str], None]) -> None:
    if shutil.which("man") is None or shutil.which("groff") is None:
        lack("man and groff are not installed")
    for path in sorted((share / folder).iterdir()):
        done = subprocess.run(
            ["man", "--warnings", "-l", str(path)],
            env={"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", "MANWIDTH": "80", "HOME": "/"},
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert (done.returncode, done.stderr) == (0, ""), path.name
        assert done.stdout.count("\n") > 20 and "64" in done.stdout, json.dumps(done.stdout)
