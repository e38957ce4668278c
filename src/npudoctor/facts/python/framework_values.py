"""Values of variables with which an import of a framework was seen to fail, and what it takes instead.

A row counts only where the installed release still has the lines that refuse the value: each names the file
and words of it.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from typing import Callable, NamedTuple, Optional

from npudoctor.core.errors import CannotTell
from npudoctor.core.lazy import pattern
from npudoctor.core.messages import _
from npudoctor.facts.python.installed_modules import modules_of
from npudoctor.host.host import Host
from npudoctor.host.python.installed_files import site_of

# Here torch registers the names that TORCH_LOGS accepts.
_LOGS_FILE = "torch/_logging/_registrations.py"
_LOG_NAME = pattern(r"register_(?:log|artifact)\(\s*[\"']([\w.]+)[\"']")
_LOGS = pattern(r"((\+|-)?[\w\.]+,\s*)*(\+|-)?[\w\.]+?")
_CPUS = pattern(r"[\d\s,:-]*")
_WHOLE = pattern(r"\s*[+-]?\d+(?:_\d+)*\s*")
# The words of distutils.util.strtobool.
_TRUTH = ("y", "yes", "t", "true", "on", "1", "n", "no", "f", "false", "off", "0")
# DEBUG, INFO, WARNING, ERROR, CRITICAL of MindSpore.
_LEVELS = ("0", "1", "2", "3", "4")


class RefusedValue(NamedTuple):
    """A variable with a value that a module does not accept, and what it accepts (`allowed`)."""

    name: str
    value: str
    module: str
    allowed: str


def find_refused_values(host: Host) -> Iterator[RefusedValue]:
    """The variables that are set to a value which an installed framework refuses."""
    for row in ROWS:
        value = host.variables.get(row.name)
        if value is None:
            continue
        if row.words:
            applies = any(row.words in _read_file(host, name, row.file) for name in row.distributions)
        else:  # a library, which is there or not
            copies = map(host.interpreter.installed, row.distributions)
            applies = any(
                copy and host.files.stat(f"{site_of(copy)}/{row.file}") is not None for copy in copies
            )
        allowed = row.allowed(host, value) if applies else None
        if allowed is not None:
            yield RefusedValue(row.name, value, row.module, allowed)


def _judge_logs(host: Host, value: str) -> Optional[str]:
    """What TORCH_LOGS may be, where torch refuses this value: it takes its own names, and full names of
    existing modules. None where it accepts it.
    """
    registered = _LOG_NAME.findall(_read_file(host, "torch", _LOGS_FILE))
    allowed = _("comma-separated log names, such as {names}, or module names", names="dynamo, +inductor")
    if not value or not registered:
        return None
    if not _LOGS.fullmatch(value):
        return allowed
    names = [re.sub(r"\s+|^[+-]", "", name) for name in re.sub(r"\s+", "", value).split(",")]
    strange = [name for name in names if name not in (*registered, "all", *sys.builtin_module_names)]
    modules = modules_of(host) if strange else None
    return allowed if modules and any(modules.is_missing(name.lstrip("+-")) for name in strange) else None


def _judge_log_file(host: Host, value: str) -> Optional[str]:
    folder = value.rpartition("/")[0]
    try:
        is_missing = value.startswith("/") and host.files.stat(folder or "/") is None
    except CannotTell:
        return None
    return _("a file in an existing folder") if is_missing else None


def _judge_log_format(host: Host, value: str) -> Optional[str]:
    import logging  # of few

    try:
        logging.Formatter(value)
    except ValueError:
        return _("a Python logging format, such as {example}", example="%(levelname)s: %(message)s")
    except (TypeError, KeyError, IndexError):
        pass
    return None


def _one_of(*values: str, exact: bool = True) -> Callable[[Host, str], Optional[str]]:
    """A rule for values from a list. `exact`: upper and lower case differ."""

    def judge_value(_host: Host, value: str) -> Optional[str]:
        return None if (value if exact else value.lower()) in values else ", ".join(values)

    return judge_value


def _judge_level(_host: Host, value: str) -> Optional[str]:
    return None if not value or value.strip() in _LEVELS else ", ".join(_LEVELS)


def _judge_stderr(host: Host, value: str) -> Optional[str]:
    """What GLOG_logtostderr may be, where MindSpore refuses this value; None where it accepts it."""
    if value and value.strip() not in ("0", "1"):
        return "0, 1"
    # MindSpore raises where it is to log into files and no folder is named.
    nowhere = value.strip() == "0" and not host.variables.get("GLOG_log_dir")
    return _("1, or 0 with {variable} set", variable="GLOG_log_dir") if nowhere else None


def _judge_optimization(_host: Host, value: str) -> Optional[str]:
    """What PYTHONOPTIMIZE may be where docstrings are needed: Python drops them from 2 on, and reads what is
    no number as 1."""
    return _("1, or unset") if _WHOLE.fullmatch(value) and int(value) >= 2 else None


def _judge_legacy_keras(host: Host, value: str) -> Optional[str]:
    is_lacking = value in ("true", "True", "1") and modules_of(host).is_missing("tf_keras")
    return _("0, or 1 with {package} installed", package="tf_keras") if is_lacking else None


def _expect_whole(empty: bool) -> Callable[[Host, str], Optional[str]]:
    def judge_value(_host: Host, value: str) -> Optional[str]:
        right = _WHOLE.fullmatch(value) is not None or (empty and not value)
        return None if right else _("a whole number")

    return judge_value


def _judge_processors(_host: Host, value: str) -> Optional[str]:
    """What GOMP_CPU_AFFINITY may be, where libgomp cannot parse this value; None where it can."""
    if _CPUS.fullmatch(value):
        return None
    return _("processor numbers, such as {example}", example="0-3 8")


class ValueRule(NamedTuple):
    """One variable and the module that refuses some of its values.

    `file` and `words`: where the installed `distributions` refuse it. `allowed`: what is accepted instead of
    a refused value, else None. `tried_with`: the release with which it was tried.
    """

    name: str
    module: str
    distributions: tuple[str, ...]
    file: str
    words: str
    allowed: Callable[[Host, str], Optional[str]]
    tried_with: str


_TORCH, _MINDSPORE = ("torch",), ("mindspore", "mindspore-ascend", "mindspore-gpu")
_PADDLE, _NUMPY = ("paddlepaddle", "paddlepaddle-gpu"), ("numpy",)
_TENSORFLOW = ("tensorflow", "tensorflow-cpu")
_LOG_PY, _INTERNAL = "mindspore/log.py", "torch/_logging/_internal.py"
ROWS = (
    ValueRule("TORCH_LOGS", "torch", _TORCH, _INTERNAL, "_is_valid_module", _judge_logs, "torch 2.13.0"),
    ValueRule(
        "TORCH_LOGS_OUT", "torch", _TORCH, _INTERNAL, '"TORCH_LOGS_OUT"', _judge_log_file, "torch 2.13.0"
    ),
    ValueRule(
        *("TORCH_LOGS_FORMAT", "torch", _TORCH, _INTERNAL, "logging.Formatter(fmt)"),
        allowed=lambda host, value: None if value in ("short", "basic") else _judge_log_format(host, value),
        tried_with="torch 2.13.0",
    ),
    ValueRule(
        *("PYTORCH_JIT", "torch", _TORCH, "torch/jit/_state.py", "Unknown setting of"),
        allowed=lambda host, value: (
            None
            if value in ("1v", "0v")
            else _one_of("1", "true", "yes", "0", "false", "no", exact=False)(host, value)
        ),
        tried_with="torch 2.13.0",
    ),
    ValueRule(
        *("TORCH_DISTRIBUTED_DEBUG", "torch", _TORCH),
        *("torch/distributed/__init__.py", "set_debug_level_from_env"),
        allowed=lambda host, value: _one_of("OFF", "INFO", "DETAIL")(host, value.upper()),
        tried_with="torch 2.13.0",
    ),
    # libgomp never comes back from what it cannot read.
    ValueRule(
        *("GOMP_CPU_AFFINITY", "torch", _TORCH, "torch/lib/libgomp.so.1", ""),
        allowed=_judge_processors,
        tried_with="torch 2.13.0 (CPU)",
    ),
    *(
        ValueRule(name, "mindspore", _MINDSPORE, _LOG_PY, words, allowed, "MindSpore 2.7.0")
        for name, words, allowed in (
            ("GLOG_v", "Incorrect log level", _judge_level),
            ("GLOG_stderrthreshold", "Incorrect log level", _judge_level),
            ("GLOG_logtostderr", "must be 0 or 1", _judge_stderr),
            ("logger_maxBytes", "logger_maxBytes", _expect_whole(empty=True)),
            ("logger_backupCount", "logger_backupCount", _expect_whole(empty=True)),
        )
    ),
    *(
        ValueRule(
            name,
            "paddle",
            _PADDLE,
            "paddle/base/core.py",
            f'"{name}"',
            _one_of(*_TRUTH, exact=False),
            "Paddle 3.3.1",
        )
        for name in ("FLAGS_prim_all", "FLAGS_prim_forward", "FLAGS_prim_backward")
    ),
    ValueRule(
        *("NUMPY_MADVISE_HUGEPAGE", "numpy", _NUMPY, "numpy/__init__.py", "int(use_hugepage)"),
        allowed=_expect_whole(empty=False),
        tried_with="NumPy 2.5.5",
    ),
    ValueRule(
        *("NPY_PROMOTION_STATE", "numpy", _NUMPY, "numpy/__init__.py", "_set_promotion_state("),
        allowed=_one_of("weak", "legacy", "weak_and_warn"),
        tried_with="NumPy 1.26.4",
    ),
    ValueRule(
        *("PYTHONOPTIMIZE", "transformers", ("transformers",), "transformers/utils/auto_docstring.py"),
        words="section is found in the docstring of",
        allowed=_judge_optimization,
        tried_with="transformers 5.24.0",
    ),
    ValueRule(
        *("TF_USE_LEGACY_KERAS", "tensorflow.keras", _TENSORFLOW, "tensorflow/python/util/lazy_loader.py"),
        words='"do not have the tf_keras package installed',
        allowed=_judge_legacy_keras,
        tried_with="TensorFlow 2.21.0",
    ),
)
NAMES = tuple(row.name for row in ROWS)


def _read_file(host: Host, distribution: str, file: str) -> str:
    copy = host.interpreter.installed(distribution)
    return (host.files.text(f"{site_of(copy)}/{file}") or "") if copy is not None else ""
