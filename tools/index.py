"""Write the index of the built-in checks from their files; with --check fail when it is stale."""

from __future__ import annotations

import argparse
import json
import sys
from importlib import import_module
from pathlib import Path

from npudoctor.checking.index import FILE, index_row, load_check
from npudoctor.registry.registry import list_check_files


def text() -> str:
    """The index: a line for each check, so that a change shows as the line it is."""
    rows = []
    for group, name in list_check_files(list(import_module("npudoctor.checks").__path__)):
        rows.append(index_row(load_check(group, name.replace("_", "-"))))
    lines = ",\n".join(json.dumps(row, ensure_ascii=False) for row in rows)
    return f"[\n{lines}\n]\n"


def main() -> int:
    """Write or compare."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="fail when the index is stale")
    path = Path(FILE)
    if not parser.parse_args().check:
        path.write_text(text(), encoding="utf-8")
        return 0
    if path.is_file() and path.read_text(encoding="utf-8") == text():
        return 0
    print(f"{path.name} is out of date: make docs", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
