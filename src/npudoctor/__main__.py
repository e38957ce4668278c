"""The entry point: answers `--version` before anything heavy loads, then hands over to the commands."""

from __future__ import annotations

import sys


def main() -> int:
    """Run the program on sys.argv; returns the exit status, which is the verdict."""
    if sys.argv[1:] == ["--version"]:
        return _version()
    from npudoctor.cli.main import run

    return run(sys.argv[1:])


def _version() -> int:
    from npudoctor import __version__

    try:
        sys.stdout.write(f"npudoctor {__version__}\n")
        sys.stdout.flush()
    except OSError:
        return 74  # EX_IOERR: a version that nobody could read is not a success
    return 0


if __name__ == "__main__":
    sys.exit(main())
