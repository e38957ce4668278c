"""Real and made-up machines for the deep checks: an interpreter with a framework of a few lines."""

from __future__ import annotations

import functools
import json
import math
import os
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Callable, Optional, Union

from npudoctor.core.frozen import replace
from npudoctor.core.once import Once
from npudoctor.facts.python.pip_health import is_pip_well
from npudoctor.host import Host, Options
from npudoctor.host.fs.files import LocalDisk
from npudoctor.host.process.commands import CommandResult
from npudoctor.host.process.rights import Limits
from npudoctor.host.users.identity import Account, current_identity
from npudoctor.testing import Asked, FakeCommands, ask, fake_host, package_files

Says = Callable[[Sequence[str]], Union[CommandResult, dict[str, object]]]


def package(site: Path, name: str, source: str, version: str = "2.13.0", module: str = "") -> None:
    """Install a distribution whose module is these lines."""
    info = site / f"{name.replace('-', '_')}-{version}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    folder = site / (module or name.replace("-", "_"))
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text(f"__version__ = {version!r}\n{source}\n")


@functools.cache
def _of_the_interpreter() -> dict[tuple[str, str], Optional[str]]:
    """What root finds in its folders: they stay as they are, and one look takes longer than a probe."""
    host = Host(
        Options("none", python=sys.executable), disk=LocalDisk(), variables={"PATH": os.environ["PATH"]}
    )
    trust = host.commands.trust
    for folder in host.interpreter.layout().search_path:
        trust.why_not_modules(folder)
    own = (f"{sys.prefix}/", f"{sys.base_prefix}/")
    return {key: why for key, why in trust.reasons.items() if key[1].startswith(own)}


@functools.cache
def _has_pip(python: str) -> bool:
    """Whether its pip works, for the lines that are shown: no package of ours has one, and a try takes longer
    than a probe."""
    host = Host(Options("none", python=python), disk=LocalDisk(), variables={"PATH": os.environ["PATH"]})
    host.commands.trust.reasons.update(_of_the_interpreter())
    try:
        return is_pip_well(host)
    finally:
        host.close()


def machine(
    site: Path,
    until: float = math.inf,
    python: str = sys.executable,
    variables: Optional[Mapping[str, str]] = None,
) -> Host:
    """This machine, with these packages in front of the interpreter's own."""
    own = {"PATH": os.environ["PATH"], "HOME": str(site.parent / "home"), "PYTHONPATH": str(site)}
    identity = current_identity(frozenset())
    options = Options("none", python=python, until=until)
    host = Host(options, disk=LocalDisk(), variables={**own, **(variables or {})}, identity=identity)
    host.commands.trust.reasons.update(_of_the_interpreter())
    host._once_by_fact["pip is well"] = Once(lambda: _has_pip(python))
    return host


class Probes(FakeCommands):
    """Answers a probe as `says` tells by its arguments: with words, which make an answer, or as it is."""

    def __init__(self, says: Says) -> None:
        super().__init__({})
        self._says = says

    def run(
        self,
        argv: Sequence[str],
        *,
        timeout: float = 5.0,
        limit: int = 1 << 20,
        variables: Optional[Mapping[str, str]] = None,
        in_working_directory: bool = False,
        group: bool = False,
        farewell: Optional[int] = None,
        user: Optional[Account] = None,
        limits: Optional[Limits] = None,
    ) -> CommandResult:
        answer = self._says(argv[5:])
        if isinstance(answer, CommandResult):
            return answer
        Path(argv[3], argv[4]).write_text(json.dumps(answer))
        return CommandResult(tuple(argv), "exited", 0)


def ends(**words: object) -> Says:
    """Every probe ends so."""
    return lambda argv: CommandResult(tuple(argv), **words)  # type: ignore[arg-type]


def each(*answers: Union[CommandResult, dict[str, object]], seen: Sequence[object] = ()) -> Says:
    """One after the other; `seen` gets the arguments."""
    left = iter(answers)

    def says(argv: Sequence[str]) -> Union[CommandResult, dict[str, object]]:
        if isinstance(seen, list):
            seen.append(tuple(argv))
        return next(left)

    return says


def died(number: int) -> CommandResult:
    return CommandResult((), "exited", -number)


def asked(check: object, says: Says, *names: str, until: float = math.inf) -> Asked:
    """The answer where these are installed and probes end as told."""
    files = {path: text for name in names for path, text in package_files(name, "2.13.0").items()}
    host = fake_host(files, options=Options(until=until))
    host._parts["commands"] = Probes(says)
    return ask(check, host)  # type: ignore[arg-type]


def dies_too_late(check: object, *before: dict[str, object]) -> Asked:
    """torch dies, after these answers, when the run is over before it could be tried again."""
    host = fake_host(package_files("torch", "2.13.0"), options=Options(until=time.monotonic() + 3600))
    left = iter(before)

    def says(argv: Sequence[str]) -> Union[CommandResult, dict[str, object]]:
        told = next(left, None)
        if told is None:
            host.options = replace(host.options, until=time.monotonic())
        return told or died(11)

    host._parts["commands"] = Probes(says)
    return ask(check, host)  # type: ignore[arg-type]
