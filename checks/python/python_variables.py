"""Does Python start with the variables that it reads itself, and find its own library and packages?"""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from typing import Optional, Union

from npudoctor import (
    ERROR,
    WARNING,
    Action,
    Command,
    Export,
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
from npudoctor.facts.python import framework_values, keras_backend
from npudoctor.facts.python.split_paths import SplitFolder, find_split_folders, list_lost_modules
from npudoctor.host import CannotTell
from npudoctor.host.python.installed_files import site_of
from npudoctor.host.python.interpreter import Layout

HOME, PLATLIBDIR, EXECUTABLE, WARNINGS = (
    *("PYTHONHOME", "PYTHONPLATLIBDIR", "PYTHONEXECUTABLE", "PYTHONWARNINGS"),
)
# The file of Paddle that warns at import without ccache, and its words.
CCACHE = ("paddle/utils/cpp_extension/extension_utils.py", "No ccache found")
# The names in Objects/obmalloc.c of CPython; mimalloc was added in 3.13.
_ALLOCATORS = ("default", "malloc", "malloc_debug", "pymalloc", "pymalloc_debug", "debug")
# PYTHONHASHSEED is an unsigned 32-bit number, tracemalloc counts frames in 16 bits (from 3.9 on), and fewer
# than sys.int_info.str_digits_check_threshold digits are refused.
_MOST_SEED, _MOST_FRAMES, _LEAST_DIGITS = 4294967295, 65535, 640
# Variables whose wrong value ends Python at its start, before the first line of a program.
NAMES = (
    *("PYTHONHASHSEED", "PYTHONMALLOC", "PYTHONUTF8", "PYTHONIOENCODING", "PYTHONTRACEMALLOC"),
    *("PYTHONINTMAXSTRDIGITS", "PYTHON_GIL", "PYTHON_CPU_COUNT", "PYTHON_FROZEN_MODULES"),
)
VARIABLES = (HOME, PLATLIBDIR, EXECUTABLE, WARNINGS, *NAMES, *framework_values.NAMES, keras_backend.BACKEND)


@check(
    "python-variables",
    scope=Scope.JOB,
    tags={"mindspore", "paddle", "pytorch", "tensorflow"},
    needs=(*(f"${name}" for name in VARIABLES), "$PYTHONPATH", "keras"),
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
      virtual environment are then not found. Or a folder on PYTHONPATH has colons in its name, such as a time
      stamp: Python splits it there, and searches none of it. A warning if all that lies in it is found
      elsewhere.
    - `python-variables.warnings-as-errors`: PYTHONWARNINGS turns all warnings into errors, and Paddle issues
      a warning when it is imported and ccache is not installed. torch, MindSpore and TensorFlow issue none.

    - `python-variables.framework-refuses`: a variable of torch, MindSpore, Paddle, NumPy or Keras has a value
      with which the import was seen to fail or never to end: TORCH_LOGS, TORCH_LOGS_OUT, TORCH_LOGS_FORMAT,
      PYTORCH_JIT, TORCH_DISTRIBUTED_DEBUG, GOMP_CPU_AFFINITY; GLOG_v, GLOG_stderrthreshold, GLOG_logtostderr,
      logger_maxBytes, logger_backupCount; FLAGS_prim_all, FLAGS_prim_forward, FLAGS_prim_backward;
      NUMPY_MADVISE_HUGEPAGE, NPY_PROMOTION_STATE; TF_USE_LEGACY_KERAS without tf_keras; PYTHONOPTIMIZE=2
      with transformers, which reads docstrings; KERAS_BACKEND, or the file keras.json in its place.
      Reported only if the installed release contains the code that refuses the value. A warning if keras.json
      names a missing back end where only torch or JAX is installed: their jobs may never import Keras.

    Others were tried and do no harm to an import: PYTHONDEVMODE, PYTHONSAFEPATH, PYTHONNOUSERSITE,
    PYTHONCASEOK, PYTHONDONTWRITEBYTECODE, PYTHONOPTIMIZE elsewhere. What lies on PYTHONPATH is the subject of
    `source-shadowing`.

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
    split_folders = list(find_split_folders(host))
    backend = keras_backend.find_unusable_backend(host)
    if not any(name in host.variables for name in VARIABLES) and not split_folders and backend is None:
        raise Skip(_("no variable changes how Python starts"))
    yield Facts({"variables": {name: host.variables[name] for name in VARIABLES if host.variables.get(name)}})
    is_free_threaded = any(
        folder.endswith(f"/python{_format_version(version)}t") for folder in layout.search_path
    )
    for name in NAMES:
        yield from _judge_value(host, name, version, is_free_threaded)
    for refusal in framework_values.find_refused_values(host):
        words = {**refusal._asdict(), "wanted": refusal.allowed, "value": refusal.value or _("set and empty")}
        yield _finding(
            "python-variables.framework-refuses",
            refusal.name,
            _("{name} is {value}, and import {module} fails with it; valid: {wanted}", **words),
        )
    if backend is not None:
        yield _report_backend(host, backend)
    yield from (_report_split_folder(host, folder) for folder in split_folders)
    for finding in (
        _judge_home(host, layout, version),
        _judge_platlibdir(host, layout, version),
        _judge_executable(host, layout, version),
        _judge_warnings(host),
    ):
        if finding is not None:
            yield finding


def _judge_value(
    host: Host, name: str, version: tuple[int, ...], is_free_threaded: bool
) -> Iterator[Finding]:
    value = host.variables.get(name, "")
    valid = find_valid_values(name, value, version, is_free_threaded) if value else None
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


def _report_backend(host: Host, backend: keras_backend.UnusableBackend) -> Finding:
    is_variable = backend.source == keras_backend.BACKEND
    text = _("{source} names the back end {name}, which is not installed: import keras fails")
    if not backend.missing:
        text = _("{source} names the back end {name}, which this Keras does not know: import keras fails")
    # The file is written at the first import, and applies to every environment of its user.
    is_certain = is_variable or "tensorflow" in backend.usable or not backend.usable
    title = _("install that back end, or name another one in {variable}")
    if backend.usable:
        title = _("name a back end that is installed in {variable}")
    before = host.variables.get(keras_backend.BACKEND)
    undo = Command(("unset", keras_backend.BACKEND)).lines()
    if before is not None:
        undo = Export(keras_backend.BACKEND, before).lines()
    return Finding(
        "python-variables.framework-refuses",
        text.format(source=backend.source, name=backend.name),
        severity=ERROR if is_certain else WARNING,
        action=Action.CONFIG,
        fix=Fix(
            title.format(variable=keras_backend.BACKEND),
            steps=tuple(Export(keras_backend.BACKEND, name) for name in backend.usable[:1]),
            undo=undo if backend.usable else (),
            risk=Risk.MANUAL,
            needs_root=False,
        ),
    )


def _report_split_folder(host: Host, folder: SplitFolder) -> Finding:
    lost = list_lost_modules(host, folder.path)
    text = _("PYTHONPATH has the folder {folder}: Python splits its name at the colons and does not find it")
    if lost:
        text = _(
            "PYTHONPATH has the folder {folder}: Python splits its name at the colons and finds no {modules}"
        )
    parent = folder.path.partition(":")[0].rpartition("/")[0]
    name = folder.path[len(parent) + 1 :].strip("/").replace(":", "-").replace("/", "-")
    link = f"{parent}/{name}"
    before = host.variables["PYTHONPATH"]
    return Finding(
        "python-variables.hides-packages",
        text.format(folder=folder.path, modules=", ".join(lost[:3])),
        severity=ERROR if lost else WARNING,
        action=Action.CONFIG,
        fix=Fix(
            _("reach the folder by a link without colons in its name"),
            steps=(
                Command(("ln", "-s", folder.path, link)),
                Export("PYTHONPATH", ":".join((*folder.before, link, *folder.after))),
            ),
            undo=(*Export("PYTHONPATH", before).lines(), *Command(("rm", link)).lines()),
            risk=Risk.MANUAL,
            needs_root=False,
        ),
    )


def _lib_paths(prefix: str, *names: str) -> list[str]:
    return [f"{prefix.rstrip('/')}/{lib}/{name}" for name in names for lib in ("lib", "lib64")]


def _judge_home(host: Host, layout: Layout, version: tuple[int, ...]) -> Optional[Finding]:
    prefix, _colon, second = host.variables.get(HOME, "").partition(":")
    if not prefix.startswith("/"):
        return None
    end = f"python{_format_version(version)}"
    zipped = f"{prefix}/lib/{end.replace('.', '')}.zip"
    places = [[*_lib_paths(prefix, f"{end}/os.py", f"{end}/os.pyc"), zipped]]
    for folder in layout.search_path:  # _struct: every framework imports it, and this Python has it as a file
        names = host.files.names(folder) if folder.endswith("/lib-dynload") else []
        modules = [f"{end}/lib-dynload/{name}" for name in names if name.startswith("_struct.")]
        places += [_lib_paths(second or prefix, module) for module in modules]
    text = _(
        "PYTHONHOME is {value}, but Python {version} has no standard library there: {path} does not exist"
    )
    return _find_missing_library(host, HOME, version, text, places)


def _judge_platlibdir(host: Host, layout: Layout, version: tuple[int, ...]) -> Optional[Finding]:
    """Judge PYTHONPLATLIBDIR, which replaces `lib` in the path of the standard library (from 3.9 on)."""
    value, end = host.variables.get(PLATLIBDIR, ""), f"/python{_format_version(version)}"
    own = next((folder for folder in layout.search_path if folder.endswith(end)), "")
    prefix = own[: -len(end)].rpartition("/")[0]
    if not value or version < (3, 9) or not prefix or host.variables.get(HOME):
        return None
    text = _(
        "PYTHONPLATLIBDIR is {value}, but Python {version} has no standard library there: {path} "
        "does not exist"
    )
    return _find_missing_library(host, PLATLIBDIR, version, text, [[f"{prefix}/{value}{end}/os.py"]])


def _find_missing_library(
    host: Host, name: str, version: tuple[int, ...], text: str, places: list[list[str]]
) -> Optional[Finding]:
    """Return a finding if no file of one of the lists exists; None if each list has one."""
    for paths in places:
        if all(host.files.stat(path) is None for path in paths):
            words = {"value": host.variables[name], "version": _format_version(version), "path": paths[0]}
            return _finding("python-variables.no-standard-library", name, text.format(**words))
    return None


def _judge_executable(host: Host, layout: Layout, version: tuple[int, ...]) -> Optional[Finding]:
    """Judge PYTHONEXECUTABLE, which has an effect on Linux only from 3.11 on."""
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


def _judge_warnings(host: Host) -> Optional[Finding]:
    rules = [action for action in host.variables.get(WARNINGS, "").split(",") if _is_every_warning(action)]
    paddle = host.interpreter.installed("paddlepaddle") or host.interpreter.installed("paddlepaddle-gpu")
    if not rules or paddle is None or _has_ccache(host):
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


def _is_every_warning(rule: str) -> bool:
    """Whether a rule of PYTHONWARNINGS turns every UserWarning into an error."""
    action, message, category, module, line = (*rule.strip().split(":"), "", "", "", "", "")[:5]
    kinds = ("", "Warning", "UserWarning")
    return (
        # warnings._getaction() accepts any beginning of an action: `-W e` means error.
        bool(action) and "error".startswith(action) and category in kinds and not (message or module or line)
    )


def _has_ccache(host: Host) -> bool:
    for folder in host.variables.path_list("PATH"):
        try:
            if folder.startswith("/") and host.files.stat(f"{folder}/ccache") is not None:
                return True
        except CannotTell:
            # A closed folder of PATH cannot provide ccache.
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


def find_valid_values(
    name: str, value: str, version: tuple[int, ...], is_free_threaded: bool
) -> Optional[str]:
    """Return the values with which Python starts, as text, if `value` (not empty) is none of them; else None.

    `is_free_threaded`: the build without the global interpreter lock.
    """
    number = int(value) if value.isascii() and value.isdigit() else None
    is_3_13 = version >= (3, 13)
    if name == "PYTHONHASHSEED":
        is_valid = value == "random" or (number is not None and number <= _MOST_SEED)
        valid_text = _("'random' or a number up to {most}", most=_MOST_SEED)
    elif name == "PYTHONMALLOC":
        allocators = (*_ALLOCATORS, *(("mimalloc", "mimalloc_debug") if is_3_13 else ()))
        is_valid, valid_text = value in allocators, ", ".join(allocators)
    elif name == "PYTHONUTF8":
        is_valid, valid_text = value in ("0", "1"), "0, 1"
    elif name == "PYTHONIOENCODING":
        encoding, valid_text = value.partition(":")[0], _("the name of an encoding, such as utf-8")
        try:
            is_valid = not encoding or codecs.lookup(encoding) is not None
        except (LookupError, ValueError):
            # codecs.lookup() raises ValueError for a name with a null byte, LookupError for an unknown one.
            is_valid = False
    elif name == "PYTHONTRACEMALLOC":
        is_valid = number is not None and (number <= _MOST_FRAMES or version < (3, 9))
        valid_text = _("a number up to {most}", most=_MOST_FRAMES)
    elif name == "PYTHONINTMAXSTRDIGITS":  # before 3.11 only the last bugfix and security releases read it
        is_valid = number is not None and (number == 0 or number >= _LEAST_DIGITS)
        is_valid, valid_text = (
            is_valid or version < (3, 11),
            _("0, or a number of at least {least}", least=_LEAST_DIGITS),
        )
    elif name == "PYTHON_CPU_COUNT":
        is_valid, valid_text = (
            not is_3_13 or value == "default" or bool(number),
            _("'default' or a number of at least 1"),
        )
    elif name == "PYTHON_FROZEN_MODULES":
        is_valid, valid_text = not is_3_13 or value in ("on", "off"), "on, off"
    else:  # PYTHON_GIL
        is_valid, valid_text = not is_3_13 or value == "1" or (is_free_threaded and value == "0"), "1"
    return None if is_valid else valid_text
