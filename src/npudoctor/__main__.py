"""The entry point: answers `--version` before anything heavy loads, then hands over to the commands."""

from __future__ import annotations

import os
import sys


def main() -> int:
    """Run the program on sys.argv; returns the exit status, which is the verdict."""
    if sys.argv[1:] == ["--version"] and _told_version():
        return 0
    from npudoctor.cli.main import run

    return run(sys.argv[1:])


def _told_version() -> bool:
    """Whether the version could be written; if not, the commands say why."""
    from npudoctor import __version__

    try:
        return os.write(1, f"npudoctor {__version__}\n".encode()) > 0
    except OSError:
        return False


if __name__ == "__main__":
    sys.exit(main())
