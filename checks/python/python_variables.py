"""Does Python start with the variables that it reads itself, and find its own library and packages?"""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from typing import Optional, Union

from npudoctor import ERROR, Action, Command, Facts, Finding, Fix, Host, Risk, Scope, Skip, _, check
from npudoctor.facts.python import framework_values
from npudoctor.host import CannotTell
from npudoctor.host.python.installed_files import site_of
from npudoctor.host.python.interpreter import Layout

HOME, PLATLIBDIR, EXECUTABLE, WARNINGS = (
    *("PYTHONHOME", "PYTHONPLATLIBDIR", "PYTHONEXECUTABLE", "PYTHONWARNINGS"),
)
# Where Paddle warns of it when it is imported.
CCACHE = ("paddle/utils/cpp_extension/extension_utils.py", "No ccache found")
_ALLOCATORS = ("default", "malloc", "malloc_debug", "pymalloc", "pymalloc_debug", "debug")
_MOST_SEED, _MOST_FRAMES, _LEAST_DIGITS = 4294967295, 65535, 640
NAMES = (
    *("PYTHONHASHSEED", "PYTHONMALLOC", "PYTHONUTF8", "PYTHONIOENCODING", "PYTHONTRACEMALLOC"),
    *("PYTHONINTMAXSTRDIGITS", "PYTHON_GIL", "PYTHON_CPU_COUNT", "PYTHON_FROZEN_MODULES"),
)
VARIABLES = (HOME, PLATLIBDIR, EXECUTABLE, WARNINGS, *NAMES, *framework_values.NAMES)


@check(
    "python-variables",
    scope=Scope.JOB,
    tags={"mindspore", "paddle", "pytorch", "tensorflow"},
    needs=tuple(f"${name}" for name in VARIABLES),
    codes={
        "python-variables.no-standard-library": ERROR,
        "python-variables.bad-value": ERROR,
        "python-variables.hides-packages": ERROR,
        "python-variables.warnings-as-errors": ERROR,
        "python-variables.framework-refuses": ERROR,
    },
)
def python_variables(host: Host) -> Iterator[Union[Finding, Facts]]:
    """Python starts with its own environment variables.

    ## What it does

    Judges the variables of Python by what the examined release does with them; each was tried with Python
    3.7 to 3.13. Nothing is run.

    - `python-variables.no-standard-library`: PYTHONHOME or PYTHONPLATLIBDIR points to a folder that has no
      standard library of this release, or none of its extension modules.
    - `python-variables.bad-value`: PYTHONHASHSEED, PYTHONMALLOC, PYTHONUTF8, PYTHONIOENCODING,
      PYTHONTRACEMALLOC, PYTHONINTMAXSTRDIGITS, PYTHON_GIL, PYTHON_CPU_COUNT or PYTHON_FROZEN_MODULES has a
      value with which Python does not start.
    - `python-variables.hides-packages`: PYTHONEXECUTABLE names another Python; from 3.11 on the packages of a
      virtual environment are then not found.
    - `python-variables.warnings-as-errors`: PYTHONWARNINGS turns all warnings into errors, and Paddle issues
      a warning when it is imported and ccache is not installed. torch, MindSpore and TensorFlow issue none.

    - `python-variables.framework-refuses`: a variable of torch, MindSpore, Paddle or NumPy has a value with
      which the import was seen to fail or never to end: TORCH_LOGS, TORCH_LOGS_OUT, TORCH_LOGS_FORMAT,
      PYTORCH_JIT, TORCH_DISTRIBUTED_DEBUG, GOMP_CPU_AFFINITY; GLOG_v, GLOG_stderrthreshold, GLOG_logtostderr,
      logger_maxBytes, logger_backupCount; FLAGS_prim_all, FLAGS_prim_forward, FLAGS_prim_backward;
      NUMPY_MADVISE_HUGEPAGE, NPY_PROMOTION_STATE. Reported only if the installed release contains the code
      that refuses the value.

    Others were tried and do no harm to an import: PYTHONOPTIMIZE, PYTHONDEVMODE, PYTHONSAFEPATH,
    PYTHONNOUSERSITE, PYTHONCASEOK, PYTHONDONTWRITEBYTECODE. PYTHONPATH is the subject of `source-shadowing`.

    ## Why it matters

    `Fatal Python error: init_fs_encoding` or `No module named 'encodings'` before the first line of a job:
    a module system or an old .bashrc sets PYTHONHOME for another Python. npudoctor itself is a Python
    program: where its own Python does not start either, only `env -u PYTHONHOME npudoctor check` says so.

    ## Fix safety

    The line changes the variable of the shell that starts the job.

    ## References

    - Python, "Command line and environment": environment variables.
    """
    layout = host.interpreter.layout()
    version = tuple(int(part) for part in (layout.version or "").split(".")[:2] if part.isdigit())
    if len(version) < 2:
        raise Skip(_("the version of {python} is unknown", python=host.interpreter.label))
    if not any(name in host.variables for name in VARIABLES):
        raise Skip(_("no variable changes how Python starts"))
    yield Facts({"variables": {name: host.variables[name] for name in VARIABLES if host.variables.get(name)}})
    free = any(folder.endswith(f"/python{_format_version(version)}t") for folder in layout.search_path)
    for name in NAMES:
        yield from _value(host, name, version, free)
    for refusal in framework_values.find_refused_values(host):
        words = {**refusal._asdict(), "wanted": refusal.allowed, "value": refusal.value or _("set and empty")}
        yield _finding(
            "python-variables.framework-refuses",
            refusal.name,
            _("{name} is {value}, and import {module} fails with it; valid: {wanted}", **words),
        )
    for finding in (
        _home(host, layout, version),
        _platlibdir(host, layout, version),
        _executable(host, layout, version),
        _warnings(host),
    ):
        if finding is not None:
            yield finding


def _value(host: Host, name: str, version: tuple[int, ...], free: bool) -> Iterator[Finding]:
    value = host.variables.get(name, "")
    valid = value_instead(name, value, version, free) if value else None
    if valid:
        words = {"name": name, "value": value, "wanted": valid}
        yield _finding(
            "python-variables.bad-value",
            name,
            _(
                "{name} is {value}, and Python {version} does not start with it; valid: {wanted}",
                version=_format_version(version),
                **words,
            ),
        )


def _in_libs(prefix: str, *names: str) -> list[str]:
    return [f"{prefix.rstrip('/')}/{lib}/{name}" for name in names for lib in ("lib", "lib64")]


def _home(host: Host, layout: Layout, version: tuple[int, ...]) -> Optional[Finding]:
    prefix, _colon, second = host.variables.get(HOME, "").partition(":")
    if not prefix.startswith("/"):
        return None
    end = f"python{_format_version(version)}"
    zipped = f"{prefix}/lib/{end.replace('.', '')}.zip"
    places = [[*_in_libs(prefix, f"{end}/os.py", f"{end}/os.pyc"), zipped]]
    for folder in layout.search_path:  # one that all import, where this Python has it as a file
        names = host.files.names(folder) if folder.endswith("/lib-dynload") else []
        modules = [f"{end}/lib-dynload/{name}" for name in names if name.startswith("_struct.")]
        places += [_in_libs(second or prefix, module) for module in modules]
    text = _(
        "PYTHONHOME is {value}, but Python {version} has no standard library there: {path} does not exist"
    )
    return _without_library(host, HOME, version, text, places)


def _platlibdir(host: Host, layout: Layout, version: tuple[int, ...]) -> Optional[Finding]:
    """It takes the place of `lib` in the path of the standard library."""
    value, end = host.variables.get(PLATLIBDIR, ""), f"/python{_format_version(version)}"
    own = next((folder for folder in layout.search_path if folder.endswith(end)), "")
    prefix = own[: -len(end)].rpartition("/")[0]
    if not value or version < (3, 9) or not prefix or host.variables.get(HOME):
        return None
    text = _(
        "PYTHONPLATLIBDIR is {value}, but Python {version} has no standard library there: {path} "
        "does not exist"
    )
    return _without_library(host, PLATLIBDIR, version, text, [[f"{prefix}/{value}{end}/os.py"]])


def _without_library(
    host: Host, name: str, version: tuple[int, ...], text: str, places: list[list[str]]
) -> Optional[Finding]:
    """Of each of these lists one file must be there."""
    for paths in places:
        if all(host.files.stat(path) is None for path in paths):
            words = {"value": host.variables[name], "version": _format_version(version), "path": paths[0]}
            return _finding("python-variables.no-standard-library", name, text.format(**words))
    return None


def _executable(host: Host, layout: Layout, version: tuple[int, ...]) -> Optional[Finding]:
    """Before 3.11 it counts on macOS alone."""
    value = host.variables.get(EXECUTABLE, "")
    own = host.interpreter.path.rpartition("/")[0].rpartition("/")[0]
    if not value or version < (3, 11) or host.files.stat(f"{own}/pyvenv.cfg") is None:
        return None
    other = value.rpartition("/")[0].rpartition("/")[0]
    if host.files.real(other) == host.files.real(own):
        return None
    return _finding(
        "python-variables.hides-packages",
        EXECUTABLE,
        _(
            "PYTHONEXECUTABLE is {value}: Python does not find the packages of the environment {folder}",
            value=value,
            folder=own,
        ),
    )


def _warnings(host: Host) -> Optional[Finding]:
    every = [action for action in host.variables.get(WARNINGS, "").split(",") if _every(action)]
    paddle = host.interpreter.installed("paddlepaddle") or host.interpreter.installed("paddlepaddle-gpu")
    if not every or paddle is None or _ccache(host):
        return None
    name, words = CCACHE
    if words not in (host.files.text(f"{site_of(paddle)}/{name}") or ""):
        return None
    message = _(
        "PYTHONWARNINGS is {value}, and Paddle {version} warns when it is imported without ccache on PATH",
        value=host.variables[WARNINGS],
        version=paddle.version,
    )
    return _finding("python-variables.warnings-as-errors", WARNINGS, message)


def _every(rule: str) -> bool:
    """Whether a rule makes an error of a UserWarning, whatever it says and wherever it comes from."""
    action, message, category, module, line = (*rule.strip().split(":"), "", "", "", "", "")[:5]
    kinds = ("", "Warning", "UserWarning")
    return (
        bool(action) and "error".startswith(action) and category in kinds and not (message or module or line)
    )


def _ccache(host: Host) -> bool:
    for folder in host.variables.path_list("PATH"):
        try:
            if folder.startswith("/") and host.files.stat(f"{folder}/ccache") is not None:
                return True
        except CannotTell:
            continue
    return False


def _format_version(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))


def _finding(code: str, name: str, message: str) -> Finding:
    return Finding(
        code,
        message,
        action=Action.CONFIG,
        fix=Fix(
            _("unset {name}", name=name),
            steps=(Command(("unset", name)),),
            risk=Risk.MANUAL,
            needs_root=False,
        ),
    )


def value_instead(name: str, value: str, version: tuple[int, ...], free: bool) -> Optional[str]:
    """What Python wants instead of a value that is not empty; None where it starts with it.

    `free`: it is the build without the global lock.
    """
    number = int(value) if value.isascii() and value.isdigit() else None
    new = version >= (3, 13)
    if name == "PYTHONHASHSEED":
        right = value == "random" or (number is not None and number <= _MOST_SEED)
        wanted = _("'random' or a number up to {most}", most=_MOST_SEED)
    elif name == "PYTHONMALLOC":
        known = (*_ALLOCATORS, *(("mimalloc", "mimalloc_debug") if new else ()))
        right, wanted = value in known, ", ".join(known)
    elif name == "PYTHONUTF8":
        right, wanted = value in ("0", "1"), "0, 1"
    elif name == "PYTHONIOENCODING":
        encoding, wanted = value.partition(":")[0], _("the name of an encoding, such as utf-8")
        try:
            right = not encoding or codecs.lookup(encoding) is not None
        except (LookupError, ValueError):
            right = False
    elif name == "PYTHONTRACEMALLOC":
        right = number is not None and (number <= _MOST_FRAMES or version < (3, 9))
        wanted = _("a number up to {most}", most=_MOST_FRAMES)
    elif name == "PYTHONINTMAXSTRDIGITS":  # of the releases before 3.11 only the last ones read it
        right = number is not None and (number == 0 or number >= _LEAST_DIGITS)
        right, wanted = (
            right or version < (3, 11),
            _("0, or a number of at least {least}", least=_LEAST_DIGITS),
        )
    elif name == "PYTHON_CPU_COUNT":
        right, wanted = (
            not new or value == "default" or bool(number),
            _("'default' or a number of at least 1"),
        )
    elif name == "PYTHON_FROZEN_MODULES":
        right, wanted = not new or value in ("on", "off"), "on, off"
    else:  # PYTHON_GIL
        right, wanted = not new or value == "1" or (free and value == "0"), "1"
    return None if right else wanted
