"""Faults of the variables of CANN and the frameworks, and of the packages of the job's Python."""

from __future__ import annotations

from npudoctor.core.messages import _
from npudoctor.rehearsal.fault import NOTHING, TYPED, register_fault, register_variable_fault
from npudoctor.rehearsal.stage import Stage

register_variable_fault(
    "verbose-log",
    "log-settings.verbose",
    _("CANN logs every call (debug level)"),
    ASCEND_GLOBAL_LOG_LEVEL="0",
)
register_variable_fault(
    "log-folder-closed",
    "log-directory.not-writable",
    _("CANN's log folder is not writable"),
    remedy=NOTHING,
    ASCEND_PROCESS_LOG_PATH="/usr/bin",
)
register_variable_fault(
    "cache-folder-missing",
    "compile-cache.missing",
    _("the folder for compiled operators does not exist"),
    remedy=NOTHING,
    ASCEND_CACHE_PATH="/data/cache",
)
register_variable_fault(
    "bad-hccl-timeout",
    "hccl-env.bad-value",
    _("HCCL_CONNECT_TIMEOUT is not a number"),
    HCCL_CONNECT_TIMEOUT="two minutes",
)
register_variable_fault(
    "curly-quotes",
    "hccl-env.pasted-punctuation",
    _("a variable contains curly quotes pasted from a document"),
    HCCL_BUFFSIZE="\u201c200\u201d",
)


@register_fault(
    "bad-hash-seed",
    "python-variables.bad-value",
    _("PYTHONHASHSEED has an invalid value: Python does not start"),
    remedy=TYPED,
)
def _set_bad_hash_seed(stage: Stage) -> None:
    stage.variables["PYTHONHASHSEED"] = "abc"


@register_fault(
    "shadowed-package",
    "source-shadowing.standard-library",
    _("PYTHONPATH contains a random.py that shadows Python's own"),
    remedy=TYPED,
    real=False,
)
def _shadow_random(stage: Stage) -> None:
    stage.add_package("torch", "2.5.1")
    stage.write(f"{stage.home}/src/random.py", "")
    stage.variables["PYTHONPATH"] = f"{stage.home}/src"


@register_fault(
    "missing-requirement",
    "package-requirements.missing",
    _("a package that another one requires is not installed"),
    real=False,
)
def _leave_out_requirement(stage: Stage) -> None:
    stage.add_package("torch", "2.5.1")
    stage.add_package("transformers", "4.48.0", "safetensors>=0.4.1")


@register_fault(
    "torch-mismatch",
    "torch-npu.torch-mismatch",
    _("torch_npu requires another release of torch"),
    real=False,
)
def _install_mismatched_torch(stage: Stage) -> None:
    stage.add_npus()
    stage.add_package("torch", "2.1.0")
    stage.add_package("torch-npu", "2.5.1")


@register_fault("old-scipy", "scipy-version.unsuitable", _("SciPy is too old for this MindSpore"), real=False)
def _install_old_scipy(stage: Stage) -> None:
    stage.add_npus()
    stage.add_package("mindspore", "2.5.0")
    stage.add_package("scipy", "1.3.3")
    stage.add_package("numpy", "1.26.4")


@register_fault(
    "broken-import",
    "framework-imports.failed",
    _("importing torch fails (found by --profile deep)"),
    real=False,
    options=("--profile", "deep"),
)
def _break_import(stage: Stage) -> None:
    text = "libgomp.so.1: cannot open shared object file: No such file or directory"
    stage.add_package("torch", "2.5.1", code=f"raise ImportError({text!r})\n")
