"""Is the standard library of the job's Python whole, as far as frameworks import it?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Optional, Union

from npudoctor import (
    ERROR,
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
    Unknown,
    _,
    check,
)
from npudoctor.checks.trial._modules import LIBRARIES, library_fix, module_fix
from npudoctor.core.errors import DoesNotRun
from npudoctor.core.frozen import replace
from npudoctor.facts.python.frameworks import closure_of
from npudoctor.facts.python.standard_library import (
    Flaw,
    find_flaws,
    find_optional,
    find_standard_library,
    list_needed,
)
from npudoctor.knowledge.distributions import list_built_in_names

SHOWN = 8  # files or modules of one finding that are named


@check(
    "standard-library",
    scope=Scope.JOB,
    tags={"mindspore", "paddle", "pytorch", "tensorflow"},
    needs=("framework", *sorted(list_built_in_names())),
    codes={
        "standard-library.module-missing": ERROR,
        "standard-library.damaged": ERROR,
        "standard-library.library-missing": ERROR,
        "standard-library.not-readable": ERROR,
        "standard-library.optional-module": WARNING,
    },
)
def standard_library(host: Host) -> Iterator[Union[Finding, Facts]]:
    """The standard library has what frameworks import.

    ## What it does

    Lists the folder of the standard library of the examined Python and reads the ends of the files that
    frameworks import, and the libraries that its compiled modules need, as the loader finds them. Nothing is
    imported. Modules that are compiled into the program count as present.

    - `standard-library.module-missing`: a module or package is not there: that Python was built without the
      headers of a library, or something has deleted its files, such as a script that removes all folders
      called `unittest` or `test` from an image.
    - `standard-library.damaged`: a file is cut short, is empty or ends with zeros, as after a full disk or a
      crash; or its byte code is cut.
    - `standard-library.library-missing`: the loader does not find a library that a compiled module needs,
      such as libffi for `_ctypes`.
    - `standard-library.not-readable`: this user has no right to read a file or folder.

    - `standard-library.optional-module`: one of these, for a module without which frameworks can be imported:
      `_ssl`, `_hashlib`, `_lzma`, `_bz2`, `_sqlite3`. Downloads and data sets need them. An error for `_ssl`
      if huggingface-hub is installed, which transformers and datasets import, and for `_lzma` and `_bz2` if
      datasets is.

    ## Why it matters

    `ModuleNotFoundError: No module named '_ctypes'`, `No module named 'unittest'` from the first import of a
    framework, although pip lists everything as installed: the standard library is no package of pip's.

    ## Fix safety

    Shown only: the lines reinstall that Python, or the library, with whatever installed it.

    ## References

    - Python, "Python Setup and Usage: Build requirements".
    """
    layout, does_not_run = None, None
    try:
        layout = host.interpreter.layout()
        if not closure_of(host).roots:
            raise Skip(_("no framework is installed in {python}", python=host.interpreter.label))
    except DoesNotRun as error:  # why it does not, its files may show
        does_not_run = error
    library = find_standard_library(host, layout)
    if library is None:
        if does_not_run is not None:
            raise does_not_run
        if (
            layout is not None and layout.asked
        ):  # it has answered: its library is a zip file, or in the program
            raise Skip(_("the standard library of {python} is no folder", python=host.interpreter.label))
        raise Unknown(
            _("could not determine where {python} has its standard library", python=host.interpreter.label)
        )
    yield Facts({"folder": library.folder, "extensions": library.extensions})
    flaws = list(find_flaws(host, library, list_needed(host) if does_not_run is None else ()))
    optional = find_optional(host) if does_not_run is None else frozenset()
    for kind, report in _REPORTS.items():
        for is_optional in (False, True):
            some = [flaw for flaw in flaws if flaw.kind == kind and (flaw.module in optional) is is_optional]
            if some:
                finding = report(host, some)
                yield replace(finding, code="standard-library.optional-module") if is_optional else finding
    if does_not_run is not None and not flaws:
        raise does_not_run


def _report_absent(host: Host, flaws: Sequence[Flaw]) -> Finding:
    # What several modules lack, one rebuild brings: it is told by the first that has a library of its own.
    first = next((flaw.module for flaw in flaws if flaw.module in LIBRARIES), flaws[0].module)
    names = LIBRARIES[first].name if first in LIBRARIES and all(flaw.is_extension for flaw in flaws) else ""
    text = _("the standard library of {python} has no {modules}")
    if names and len(flaws) == 1:
        text = _("{python} has no module {modules}: it was built without {library}")
    message = text.format(python=host.interpreter.label, modules=_list_modules(flaws), library=names)
    fix = module_fix(host, first if names else "")
    return _finding("module-missing", message, flaws, fix)


def _report_damaged(host: Host, flaws: Sequence[Flaw]) -> Finding:
    message = _(
        "files of the standard library of {python} are damaged: {modules}",
        python=host.interpreter.label,
        modules=_list_modules(flaws),
    )
    if all(flaw.path.endswith(".pyc") for flaw in flaws):
        title = _("remove the damaged byte code: Python compiles it again")
        steps = (Command(("rm", "-f", *(flaw.path for flaw in flaws))),)
        return _finding("damaged", message, flaws, Fix(title, steps=steps, risk=Risk.MANUAL))
    return _finding("damaged", message, flaws, module_fix(host, ""))


def _report_closed(host: Host, flaws: Sequence[Flaw]) -> Finding:
    message = _(
        "the job's user has no right to read the standard library of {python}: {modules}",
        python=host.interpreter.label,
        modules=_list_modules(flaws),
    )
    steps = (Command(("chmod", "-R", "a+rX", *(flaw.path for flaw in flaws))),)
    title = _("as the owner, make the installed files readable for all users")
    return _finding("not-readable", message, flaws, Fix(title, steps=steps, risk=Risk.MANUAL))


def _report_library(host: Host, flaws: Sequence[Flaw]) -> Finding:
    message = _(
        "modules of {python} need libraries that are missing: {libraries} (for {modules})",
        python=host.interpreter.label,
        libraries=", ".join(dict.fromkeys(flaw.library for flaw in flaws)),
        modules=_list_modules(flaws),
    )
    return _finding("library-missing", message, flaws, library_fix(host, flaws[0].library, False))


_REPORTS = {
    "absent": _report_absent,
    "damaged": _report_damaged,
    "closed": _report_closed,
    "library": _report_library,
}


def _list_modules(flaws: Sequence[Flaw]) -> str:
    names = list(dict.fromkeys(flaw.module for flaw in flaws))
    more = len(names) - SHOWN
    shown = ", ".join(names[:SHOWN])
    return _("{names} and {count} more", names=shown, count=more) if more > 0 else shown


def _finding(name: str, message: str, flaws: Sequence[Flaw], fix: Optional[Fix]) -> Finding:
    return Finding(
        f"standard-library.{name}",
        message,
        evidence=tuple(flaw.path for flaw in flaws[:SHOWN]),
        action=Action.CONFIG,
        fix=fix,
    )
