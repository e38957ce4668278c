"""Is the interpreter that runs the job the one that the framework was installed for?"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Optional, Union

from npudoctor import (
    ERROR,
    INFO,
    WARNING,
    Action,
    Command,
    Facts,
    Finding,
    Fix,
    Host,
    Risk,
    Scope,
    Skip,
    _,
    check,
)
from npudoctor.core.cann_version import train
from npudoctor.core.errors import DoesNotRun
from npudoctor.core.lazy import pattern
from npudoctor.facts.cann.in_use import cann_in_use, product_version
from npudoctor.facts.python.start_up_code import find_unreadable_pth
from npudoctor.facts.system.broken_rows import broken_rows
from npudoctor.host import CannotTell
from npudoctor.host.python.interpreter import Distribution, Interpreter
from npudoctor.host.variables import Variables
from npudoctor.knowledge.frameworks import find_python_row
from npudoctor.knowledge.tables import KnowledgeRow

# The distributions that train on NPUs, and the folder of each.
FRAMEWORKS = {
    "torch-npu": "torch_npu",
    "mindspore": "mindspore",
    "mindspore-ascend": "mindspore",
    "paddle-custom-npu": "paddle_custom_device",
}
# Variables that decide where a user's own packages are (site.USER_BASE); others must not influence another
# interpreter.
_OF_THE_USER = ("HOME", "PYTHONUSERBASE", "PYTHONNOUSERSITE")
_PYTHON = pattern(r"python(3(\.\d+)?)?\Z")
# The frameworks for which our tables name the CPython releases of each wheel.
PUBLISHED = ("torch-npu", "mindspore", "mindspore-ascend", "vllm-ascend")


@check(
    "interpreter",
    scope=Scope.JOB,
    tags={"mindspore", "pytorch", "paddle"},
    needs=("cann", "torch-npu", "mindspore", "mindspore-ascend", "paddle-custom-npu"),
    codes={
        "interpreter.does-not-run": ERROR,
        "interpreter.other-abi": ERROR,
        "interpreter.framework-elsewhere": WARNING,
        "interpreter.notebook-kernel": WARNING,
        "interpreter.cann-range": WARNING,
        "interpreter.python-not-listed": WARNING,
        "interpreter.site-table": WARNING,
    },
)
def interpreter(host: Host) -> Iterator[Union[Finding, Facts]]:
    """The framework was installed for this interpreter.

    ## What it does

    Looks at the python3 of PATH, or the one that `--python` names; nothing is imported.

    - `interpreter.does-not-run`: it ends with an error by itself, before any line of a program. Everything
      that is installed in it then remains unknown.
    - `interpreter.other-abi`: the extension modules of torch, torch_npu or MindSpore that it would load are
      all for another CPython.
    - `interpreter.framework-elsewhere`: CANN is installed, python3 has no framework for it, and another
      interpreter in PATH or in the active environment has one.
    - `interpreter.notebook-kernel`: in a notebook: the kernel runs in a different environment than python3.
    - `interpreter.cann-range`: the CANN in use does not support this CPython. Information if only sources
      other than the vendor say so.
    - `interpreter.python-not-listed`: according to our tables, the installed release of torch_npu, MindSpore
      or vllm-ascend was not published for this CPython. Information if its extension modules are for this
      CPython.
    - `interpreter.site-table`: rows that this site added cannot be used.

    ## Why it matters

    `python3` and `python` may be two installations, and a line in a notebook that begins with `!` runs the
    python3 of PATH, not the kernel's. Then everything looks right in one and is missing in the other.

    ## Fix safety

    Shown only: a line that checks the other interpreter.

    ## References

    - CANN, installation guide: dependencies.
    - PEP 3149: the names of extension modules.
    """
    try:
        layout = host.interpreter.layout()
    except DoesNotRun as error:
        yield _report_dead_interpreter(host, error)
        return
    installed = [copy for name in FRAMEWORKS for copy in host.interpreter.distributions(name)[:1]]
    install = cann_in_use(host)
    if not installed and install is None:
        raise Skip(_("no framework is installed in {python}", python=host.interpreter.label))
    yield Facts({"python": host.interpreter.path, "version": layout.version})
    yield from broken_rows(host, "interpreter", "cann_python")
    if layout.version:
        yield from _find_other_abi(host, layout.version)
        # The frameworks that have extension modules for this Python.
        tag = "".join(layout.version.split(".")[:2])
        copies = [(name, copy) for name in FRAMEWORKS for copy in host.interpreter.distributions(name)[:1]]
        yield from _find_unlisted(
            host,
            layout.version,
            [name for name, copy in copies if tag in _tags(host, copy, FRAMEWORKS[name])],
        )
        cann = product_version(host, install) if install and installed else None
        yield from _judge_cann_range(host, layout.version, cann)
    yield from _find_other_interpreter(host, bool(installed))


def _report_dead_interpreter(host: Host, error: DoesNotRun) -> Finding:
    files = list(find_unreadable_pth(host, None)) if "UnicodeDecodeError" in error.last_line else []
    title = _("move these files away, or save them in UTF-8: Python cannot decode them")
    moves = tuple(Command(("mv", path, f"{path}.not-utf8")) for path in files)
    return Finding(
        "interpreter.does-not-run",
        _(
            "{python} does not run: it exits with status {status}",
            python=host.interpreter.path,
            status=error.status,
        ),
        evidence=(*((error.last_line,) if error.last_line else ()), *files),
        action=Action.CONFIG,
        fix=Fix(title, steps=moves, risk=Risk.MANUAL, needs_root=False) if files else None,
        echo_of=(
            "virtual-environment.base-missing",
            *("standard-library.module-missing", "standard-library.damaged", "standard-library.not-readable"),
        ),
    )


def _find_other_abi(host: Host, version: str) -> Iterator[Finding]:
    tag = "".join(version.split(".")[:2])
    for name, folder in {"torch": "torch", **FRAMEWORKS}.items():
        for copy in host.interpreter.distributions(name)[:1]:
            tags = _tags(host, copy, folder)
            if tags and tag not in tags:
                dotted = ", ".join(f"{other[0]}.{other[1:]}" for other in sorted(tags))
                words = {"name": copy.name, "version": copy.version, "python": host.interpreter.path}
                yield Finding(
                    "interpreter.other-abi",
                    _(
                        "{name} {version} was installed for CPython {others}, but {python} is {mine}",
                        others=dotted,
                        mine=version,
                        **words,
                    ),
                    evidence=(copy.evidence,),
                    action=Action.CONFIG,
                )


def _tags(host: Host, copy: Distribution, folder: str) -> set[str]:
    """Return the CPython releases in the file names of its extension modules, such as 311."""
    names = host.files.names(f"{copy.folder.rpartition('/')[0]}/{folder}")
    # PEP 3149: _C.cpython-311-x86_64-linux-gnu.so is for CPython 3.11 only.
    matches = (re.search(r"\.cpython-(\d+)[a-z]*-[^/]*\.so\Z", name) for name in names)
    return {match[1] for match in matches if match}


def _judge_cann_range(host: Host, version: str, cann: Optional[str]) -> Iterator[Finding]:
    # Not at the top of the file: `packaging.specifiers` takes 20 to 40 ms to import, and most runs compare no
    # version here.
    from packaging.specifiers import SpecifierSet

    line = train(cann)
    for row in host.knowledge.rows("cann_python", "python"):
        if line in row.texts("cann"):
            minor = ".".join(version.split(".")[:2])
            if not SpecifierSet(row["python"]).contains(minor):
                words = {"cann": cann, "wanted": row["python"], "python": host.interpreter.path}
                yield Finding(
                    "interpreter.cann-range",
                    _(
                        "CANN {cann} is for CPython {wanted}, but {python} is {version}",
                        version=version,
                        **words,
                    ),
                    # The basis is a third party's guide, not the vendor's.
                    severity=INFO if row["basis"].startswith("third") else WARNING,
                    evidence=(f"{row['source']}, {row['as_of']}",),
                    action=Action.CONFIG,
                )
            return


def _find_other_interpreter(host: Host, has_framework: bool) -> Iterator[Finding]:
    """Report another interpreter that may be the one that trains: the notebook's kernel, or one with a
    framework."""
    kernel = _kernel_of_notebook(host)
    if kernel is not None:
        yield _report_other_interpreter(
            host,
            "interpreter.notebook-kernel",
            _(
                "the kernel of this notebook is {kernel}, but {python} was checked",
                kernel=kernel,
                python=host.interpreter.path,
            ),
            kernel,
            (),
        )
    elif not has_framework:
        for path, framework in _find_others(host, tuple(FRAMEWORKS)):
            words = {"other": path, "name": framework.name, "version": framework.version}
            message = _(
                "{python} has no framework for NPUs, but {other} has {name} {version}",
                python=host.interpreter.path,
                **words,
            )
            yield _report_other_interpreter(
                host, "interpreter.framework-elsewhere", message, path, (framework.evidence,)
            )
            return
        raise Skip(_("{python} has no framework for NPUs", python=host.interpreter.label))


def _report_other_interpreter(
    host: Host, code: str, message: str, path: str, evidence: tuple[str, ...]
) -> Finding:
    return Finding(
        code,
        message,
        evidence=evidence,
        action=Action.CONFIG,
        fix=Fix(
            _("check that interpreter"),
            steps=(Command(("npudoctor", "check", "--python", path)),),
            risk=Risk.MANUAL,
            needs_root=False,
        ),
    )


def _kernel_of_notebook(host: Host) -> Optional[str]:
    """Return the interpreter of the notebook kernel that started npudoctor, if it is in another environment.

    Jupyter sets JPY_PARENT_PID for its kernels; the kernel is an ancestor of what it starts.
    """
    if host.options.root is not None or host.interpreter.chosen_by == "option":
        return None
    if not host.variables.get("JPY_PARENT_PID"):
        return None
    processes = host.processes
    for pid in processes.ancestors(processes.self_pid):
        argv = processes.arguments(pid) or ()
        if any("ipykernel" in word for word in argv[1:]):
            path = argv[0] if argv[0].startswith("/") else processes.exe(pid)
            if not path:
                return None
            # A kernel in the same bin folder belongs to the examined environment.
            programs = (host.interpreter.path, path)
            examined, notebook = (host.files.real(program.rpartition("/")[0]) for program in programs)
            return path if examined is None or examined != notebook else None
    return None


def _find_others(host: Host, frameworks: Sequence[str]) -> Iterator[tuple[str, Distribution]]:
    """Yield interpreters on PATH and of the active environment that have one of the frameworks. They are
    read, not run."""
    if host.options.root is not None or host.interpreter.chosen_by != "path":
        return
    user_variables = {name: value for name, value in host.variables.items() if name in _OF_THE_USER}
    for path in _find_candidates(host):
        other = Interpreter(
            path, "path", files=host.files, commands=None, variables=Variables(user_variables), as_root=True
        )
        for name in frameworks:
            with suppress(CannotTell):
                for copy in other.distributions(name)[:1]:
                    yield path, copy


def _find_candidates(host: Host) -> Iterator[str]:
    folders = [
        f"{host.variables[name]}/bin" for name in ("VIRTUAL_ENV", "CONDA_PREFIX") if host.variables.get(name)
    ]
    for folder in dict.fromkeys([*folders, *host.variables.path_list("PATH")]):
        try:
            names = host.files.names(folder) if folder.startswith("/") else []
        except CannotTell:
            # A folder of PATH that cannot be listed is skipped by a shell as well.
            continue
        for name in names:
            path = f"{folder.rstrip('/')}/{name}"
            if _PYTHON.match(name) and path != host.interpreter.path:
                yield path


def _listed_pythons(row: KnowledgeRow, minor: str) -> Optional[str]:
    """Return the Pythons that the row accepts if `minor` is not one of them; None if it is."""
    listed = row.texts("python")
    if not listed:
        return None
    specifier = row["python"]
    if isinstance(specifier, str) and not specifier[:1].isdigit():
        from packaging.specifiers import SpecifierSet

        return None if SpecifierSet(specifier).contains(minor) else specifier
    pythons = ", ".join(listed)
    if row.values.get("compatible", True):
        return None if minor in listed else pythons
    return _("versions other than {pythons}", pythons=pythons) if minor in listed else None


def _find_unlisted(host: Host, version: str, built_names: Sequence[str]) -> Iterator[Finding]:
    """Report frameworks that were not published for this Python; information if their modules are for it
    anyway.

    `built_names`: the distributions whose modules are for this Python.
    """
    minor = ".".join(version.split(".")[:2])
    for name in PUBLISHED:
        for copy in host.interpreter.distributions(name)[:1]:
            row = find_python_row(host.knowledge, name, copy.version)
            pythons = _listed_pythons(row, minor) if row is not None else None
            if row is None or pythons is None:
                continue
            # The tag of the installed wheel names this Python: it is newer than our tables.
            wheel = host.files.text(f"{copy.folder}/WHEEL") or ""
            if f"\nTag: cp{minor.replace('.', '')}-" in f"\n{wheel}":
                continue
            words = {"name": copy.name, "version": copy.version, "wanted": pythons, "mine": version}
            yield Finding(
                "interpreter.python-not-listed",
                _(
                    "{name} {version} is published for CPython {wanted}, but {python} is {mine}",
                    python=host.interpreter.path,
                    **words,
                ),
                severity=INFO if name in built_names else WARNING,
                evidence=(copy.evidence, f"{row['source']}, {row['as_of']}"),
                action=Action.NONE if name in built_names else Action.CONFIG,
                echo_of=("interpreter.other-abi",),
            )
