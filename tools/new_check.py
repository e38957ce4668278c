"""Write the skeleton of a check and of its test: both run, and say what is left to do."""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

from npudoctor.registry import registry

ROOT = Path(__file__).resolve().parent.parent
ID = re.compile(r"[a-z][a-z0-9]*(?:-[a-z0-9]+)+")

CHECK = '''"""TODO: what this file looks at, in one line."""

from __future__ import annotations

from collections.abc import Iterator

from npudoctor import ERROR, Finding, Host, Scope, Skip, Unknown, _, check

PATH = "/etc/{id}.conf"  # TODO: what is looked at


@check("{id}", scope=Scope.NODE, codes={{"{id}.wrong": ERROR}})
def {name}(host: Host) -> Iterator[Finding]:
    """TODO: what is true when all is well, in about nine words.

    ## What it does

    TODO: what is read, and when which code is found.

    - `{id}.wrong`: TODO.

    ## Why it matters

    TODO: what the job dies of, an hour later.

    ## References

    TODO: where this is written.
    """
    text = host.files.text(PATH)  # what may not be read ends the check as unknown by itself
    if text is None:
        raise Skip(_("{{path}} does not exist", path=PATH))
    if not text.strip():
        raise Unknown(_("{{path}} is empty", path=PATH))
    if text.strip() != "well":
        message = _("{{path}} says {{value}}, not well", path=PATH, value=text.strip())
        yield Finding("{id}.wrong", message, evidence=(f"{{PATH}}: `{{text.strip()}}`",))
'''

TEST = '''"""{id}: quiet when well, speaks when ill, skipped, and cannot tell."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from npudoctor import Severity, Status
from npudoctor.checks.{group}.{name} import PATH, {name}
from npudoctor.testing import Asked, Content, ask, fake_host, unreadable


def judge(files: dict[str, Content]) -> Asked:
    """The answer on a machine on which there is nothing but these files."""
    return ask({name}, fake_host(files))


def scene(tmp: Path) -> Iterator[Asked]:
    """Each code and each way of putting it, skipped and unknown too: what is said here is read in Chinese."""
    yield judge({{PATH: "ill"}})
    yield judge({{}})
    yield judge({{PATH: ""}})


def test_quiet_when_well() -> None:
    asked = judge({{PATH: "well"}})
    assert (asked.status, asked.codes) == (Status.OK, [])


def test_speaks_when_ill() -> None:
    (finding,) = judge({{PATH: "ill"}}).findings
    assert (finding.code, finding.severity) == ("{id}.wrong", Severity.ERROR)
    assert "ill" in finding.message


def test_skipped_where_it_does_not_apply() -> None:
    assert judge({{}}).status is Status.SKIPPED


@pytest.mark.parametrize("content", ["", unreadable()])
def test_cannot_tell(content: Content) -> None:
    asked = judge({{PATH: content}})
    assert (asked.status, asked.codes) == (Status.UNKNOWN, [])


def test_nothing_is_left_to_do() -> None:
    """Delete this test when it passes."""
    text = Path("checks/{group}/{name}.py").read_text(encoding="utf-8")
    assert "TODO" not in text, "write what stands behind TODO in checks/{group}/{name}.py"
'''


def trouble(root: Path, name: str, group: str) -> str:
    """Why there can be no check of this id in this group; empty when there can be one."""
    checks = registry.load_all({"NPUDOCTOR_CHECKS_DIR": ""}).checks
    groups = {path.parent.name for path in root.glob("checks/*/__init__.py")}
    taken = groups | {check.id for check in checks} | {tag for check in checks for tag in check.tags}
    if not ID.fullmatch(name):
        return f"{name!r} is not an id: lower-case words joined by hyphens, as driver-version"
    if group not in groups:
        return f"no group {group!r}: {', '.join(sorted(groups))} (a new one: checks/__init__.py says how)"
    if name in taken:
        return f"{name!r} is taken by another check, a group or a tag"
    found = [path for path in _files(name, group) if (root / path).exists()]
    return f"{found[0]} exists" if found else ""


def _files(name: str, group: str) -> tuple[Path, Path]:
    module = name.replace("-", "_")
    return Path(f"checks/{group}/{module}.py"), Path(f"tests/checks/{group}/test_{module}.py")


def main() -> int:
    """Write both files, or say why not; 64 for a usage error."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("id")
    parser.add_argument("group")
    parser.add_argument("--root", type=Path, default=ROOT)
    options = parser.parse_args()
    why = trouble(options.root, options.id, options.group)
    if why:
        print(f"new-check: {why}", file=sys.stderr)
        return 64
    for path, text in zip(_files(options.id, options.group), (CHECK, TEST)):
        name = options.id.replace("-", "_")
        (options.root / path).write_text(
            text.format(id=options.id, name=name, group=options.group), encoding="utf-8"
        )
        print(path)
    print(f"now: write what stands behind TODO; make docs; npudoctor check {options.id}; make lint test")
    return 0


if __name__ == "__main__":
    sys.exit(main())
