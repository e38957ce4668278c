"""What a virtual environment may lose: its settings, the right to execute its Python, a launcher's Python."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Optional

from npudoctor import WARNING, Action, Command, Finding, Fix, Host, Risk, _
from npudoctor.core.errors import CannotTell
from npudoctor.core.lazy import pattern
from npudoctor.host.python.site_folders import PYTHON_LIB

_LAUNCHERS = ("torchrun", "msrun", "vllm", "accelerate", "deepspeed", "fleetrun", "paddle")
_FIRST = pattern(r"#![ \t]*(/\S+)")
_LONG = pattern(r"""#!/bin/sh\n'''exec' (?:"([^"\n]+)"|(\S+)) "\$0\"""")  # of pip, where the path is long


def without_settings(host: Host, folder: str) -> Iterator[Finding]:
    """Of a folder that has all of an environment but its pyvenv.cfg."""
    program = f"{folder}/bin/python3"
    try:
        entry = host.files.lstat(program)
        lost = entry is not None and entry.is_link and host.files.stat(f"{folder}/pyvenv.cfg") is None
        if not lost or host.files.stat(f"{folder}/bin/activate") is None:
            return
        real, own = host.files.real(program), host.files.real(folder)
        packages = list(_packages(host, folder))
    except CannotTell:
        return
    if real is None or real.startswith(f"{own}/") or not packages:
        return
    text = _("{folder}/pyvenv.cfg is gone: its Python is {real} now, and does not look in {packages}")
    yield Finding(
        "virtual-environment.settings-missing",
        text.format(folder=folder, real=real, packages=packages[0]),
        action=Action.CONFIG,
        fix=Fix(
            _("write the settings of the environment once more; its packages stay"),
            steps=(Command((real, "-m", "venv", "--without-pip", folder)),),
            risk=Risk.MANUAL,
            needs_root=False,
        ),
    )


def _packages(host: Host, folder: str) -> Iterator[str]:
    """Its folders for packages, which no standard library lies beside."""
    for name in host.files.names(f"{folder}/lib"):
        library = f"{folder}/lib/{name}"
        own = PYTHON_LIB.match(name) is not None and host.files.stat(f"{library}/os.py") is None
        if own and host.files.stat(f"{library}/site-packages") is not None:
            yield f"{library}/site-packages"


def not_executable(host: Host, program: str) -> Optional[Finding]:
    """A shell passes over it, without a word, and takes the next one on PATH."""
    entry = host.files.stat(program)
    if entry is None or not entry.is_file or entry.mode & 0o111:
        return None
    text = _("nobody may execute {program}: its mode is {mode}")
    return Finding(
        "virtual-environment.not-executable",
        text.format(program=program, mode=f"{entry.mode & 0o7777:04o}"),
        action=Action.CONFIG,
        fix=Fix(
            _("make it executable"),
            steps=(Command(("chmod", "a+x", host.files.real(program) or program)),),
            risk=Risk.MANUAL,
            needs_root=False,
        ),
    )


def launchers(host: Host, folder: str) -> Iterator[Finding]:
    """Those whose first line names a Python that is gone, in one finding for each."""
    gone: dict[str, list[str]] = {}
    for name in _LAUNCHERS:
        try:
            python = _python_of(host, f"{folder}/bin/{name}")
            if python is not None and host.files.stat(python) is None:
                gone.setdefault(python, []).append(name)
        except CannotTell:
            continue
    for python, names in gone.items():
        text = _("{names} in {folder} cannot be started: the first line names {python}, which is gone")
        title = _("start the module instead, as in {line}, or install its package again")
        yield Finding(
            "virtual-environment.launcher-without-python",
            text.format(names=", ".join(names), folder=f"{folder}/bin", python=python),
            severity=WARNING,
            action=Action.CONFIG,
            fix=Fix(
                title.format(line=f"{folder}/bin/python3 -m torch.distributed.run"),
                risk=Risk.MANUAL,
                needs_root=False,
            ),
            echo_of=("virtual-environment.base-missing",),
        )


def _python_of(host: Host, script: str) -> Optional[str]:
    entry = host.files.stat(script)
    if entry is None or not entry.is_file:
        return None
    text = (host.files.read(script, 512) or b"").decode("utf-8", "surrogateescape")
    match = _LONG.match(text)
    if match is not None:
        return match[1] or match[2]
    match = _FIRST.match(text)
    return match[1] if match is not None else None
