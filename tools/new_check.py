"""Write the skeleton of a check, its test and its fault: all three run, and TODO marks what is left to do."""

from __future__ import annotations

import argparse
import os
import re
import sys
from dataclasses import asdict
from pathlib import Path
from string import Template

sys.path.insert(0, str(Path(__file__).resolve().parent))
from npudoctor.registry import registry
from npudoctor.rehearsal.faults import FAULTS
from skeletons import CHECK, FAULT, SKELETONS, TEST

ROOT = Path(__file__).resolve().parent.parent
ID = re.compile(r"[a-z][a-z0-9]*(?:-[a-z0-9]+)*")
NEXT = """\
now: fill in what TODO marks, then
  make docs
  {bin}/npudoctor rehearse {id}
  a line in CHANGELOG.md, then make format lint test"""


def trouble(root: Path, name: str, group: str) -> str:
    """Why there can be no check of this id in this group; empty when there can be one."""
    checks = registry.load_all({"NPUDOCTOR_CHECKS_DIR": ""}).checks
    groups = {path.parent.name for path in root.glob("checks/*/__init__.py")}
    taken = groups | {check.id for check in checks} | {tag for check in checks for tag in check.tags}
    if not ID.fullmatch(name):
        return f"{name!r} is not an id: one or several lower-case words joined by hyphens, as driver-version"
    if group not in groups:
        return f"no group {group!r}: {', '.join(sorted(groups))} (a new one: checks/__init__.py says how)"
    if name in taken:
        return f"{name!r} is taken by another check, a group or a tag"
    if name in FAULTS:
        return f"{name!r} is taken by a fault: npudoctor rehearse --list"
    return next((f"{path} exists" for path in _files(name, group) if (root / path).exists()), "")


def _files(name: str, group: str) -> tuple[Path, Path]:
    module = name.replace("-", "_")
    return Path(f"checks/{group}/{module}.py"), Path(f"tests/checks/{group}/test_{module}.py")


def texts(name: str, group: str) -> tuple[str, str, str]:
    """The check, its test, and the fault, which is added to a module."""
    module = name.replace("-", "_")
    known = {"id": name, "name": module, "variable": module.upper(), "group": group}
    parts = asdict(SKELETONS.get(group, SKELETONS["host"]))
    known.update({part: Template(text).substitute(known) for part, text in parts.items()})
    return CHECK.substitute(known), TEST.substitute(known), FAULT.substitute(known)


def main() -> int:
    """Write all three, or say why not; 64 for a usage error."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("id")
    parser.add_argument("group")
    parser.add_argument("--root", type=Path, default=ROOT)
    options = parser.parse_args()
    why = trouble(options.root, options.id, options.group)
    if why:
        print(f"new-check: {why}", file=sys.stderr)
        return 64
    check, test, fault = texts(options.id, options.group)
    for path, text in zip(_files(options.id, options.group), (check, test)):
        (options.root / path).write_text(text, encoding="utf-8")
        print(path)
    module = SKELETONS.get(options.group, SKELETONS["host"]).module
    faults = Path(f"src/npudoctor/rehearsal/faults/{module}.py")
    with (options.root / faults).open("a", encoding="utf-8") as file:
        file.write(fault)
    print(faults)
    # Where no shell has activated the environment, its npudoctor is not on PATH.
    print(NEXT.format(id=options.id, bin=os.path.relpath(os.path.dirname(sys.executable))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
