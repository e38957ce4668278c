"""Writes again and again into a folder that another user exchanges: a program of its own for test_way.py."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from npudoctor.cli.arguments.paths import resolve_output, resolve_own_file
from npudoctor.cli.bundle import pack_bundle, validate_bundle_path
from npudoctor.cli.config import UsageError
from npudoctor.cli.terminal import output
from npudoctor.host.fs.files import Files, LocalDisk

STRANGER = 12345
ROUNDS = 150


@contextmanager
def exchanging(folder: Path, victim: Path) -> Iterator[None]:
    """Another user exchanges a folder of his with a link to somebody else's, as often as he can."""
    pid = os.fork()
    if not pid:
        os.setgid(STRANGER)
        os.setuid(STRANGER)
        os.chdir(folder.parent)
        os.symlink(victim, "link")
        while True:
            with suppress(OSError):
                os.rename(folder.name, "away")
                os.rename("link", folder.name)
                os.rename(folder.name, "link")
                os.rename("away", folder.name)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def attempt(kind: str, path: Path, files: Files) -> None:
    if kind == "collect":
        pack_bundle(validate_bundle_path(str(path), files), {"a": b"a"})
    else:
        target = (resolve_own_file if kind == "env --write" else resolve_output)(str(path), files, "--output")
        assert target is not None
        output.save(target, "text\n")


def main(kind: str, folder: Path, victim: Path) -> None:
    """What went wrong, and how many attempts there were."""
    disk = LocalDisk()
    failures: list[str] = []
    rounds = 0
    with exchanging(folder, victim):
        for number in range(ROUNDS):
            try:
                attempt(kind, folder / f"report-{number}", Files(disk))
            except (UsageError, output.OutputLost) as error:
                failures.append(str(error))
            rounds += 1
    disk.close()
    print(json.dumps([failures, rounds]))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]))
