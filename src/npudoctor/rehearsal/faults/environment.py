"""CANN's and the frameworks' variables, and the packages of the job's Python."""

from __future__ import annotations

from npudoctor.core.messages import _
from npudoctor.rehearsal.fault import NOTHING, TYPED, fault, job_variable
from npudoctor.rehearsal.stage import Stage

job_variable(
    "verbose-log",
    "log-settings.verbose",
    _("CANN logs every call (debug level)"),
    ASCEND_GLOBAL_LOG_LEVEL="0",
)
job_variable(
    "log-folder-closed",
    "log-directory.not-writable",
    _("CANN's log folder is not writable"),
    remedy=NOTHING,
    ASCEND_PROCESS_LOG_PATH="/usr/bin",
)
job_variable(
    "cache-folder-missing",
    "compile-cache.missing",
    _("the folder for compiled operators does not exist"),
    remedy=NOTHING,
    ASCEND_CACHE_PATH="/data/cache",
)
job_variable(
    "bad-hccl-timeout",
    "hccl-env.bad-value",
    _("HCCL_CONNECT_TIMEOUT is not a number"),
    HCCL_CONNECT_TIMEOUT="two minutes",
)
job_variable(
    "curly-quotes",
    "hccl-env.pasted-punctuation",
    _("a variable contains curly quotes pasted from a document"),
    HCCL_BUFFSIZE="\u201c200\u201d",
)


@fault(
    "bad-hash-seed",
    "python-variables.bad-value",
    _("PYTHONHASHSEED has an invalid value: Python does not start"),
    remedy=TYPED,
)
def _hash_seed(stage: Stage) -> None:
    stage.variables["PYTHONHASHSEED"] = "abc"


@fault(
    "shadowed-package",
    "source-shadowing.standard-library",
    _("PYTHONPATH contains a random.py that shadows Python's own"),
    remedy=TYPED,
    real=False,
)
def _shadow(stage: Stage) -> None:
    stage.package("torch", "2.5.1")
    stage.write(f"{stage.home}/src/random.py", "")
    stage.variables["PYTHONPATH"] = f"{stage.home}/src"


@fault(
    "missing-requirement",
    "package-requirements.missing",
    _("a package that another one requires is not installed"),
    real=False,
)
def _requirement(stage: Stage) -> None:
    stage.package("torch", "2.5.1")
    stage.package("transformers", "4.48.0", "safetensors>=0.4.1")


@fault(
    "torch-mismatch",
    "torch-npu.torch-mismatch",
    _("torch_npu requires another release of torch"),
    real=False,
)
def _mismatch(stage: Stage) -> None:
    stage.npus()
    stage.package("torch", "2.1.0")
    stage.package("torch-npu", "2.5.1")


@fault("old-scipy", "scipy-version.unsuitable", _("SciPy is too old for this MindSpore"), real=False)
def _scipy(stage: Stage) -> None:
    stage.npus()
    stage.package("mindspore", "2.5.0")
    stage.package("scipy", "1.3.3")
    stage.package("numpy", "1.26.4")


@fault(
    "broken-import",
    "framework-imports.failed",
    _("importing torch fails (found by --profile deep)"),
    real=False,
    options=("--profile", "deep"),
)
def _import(stage: Stage) -> None:
    text = "libgomp.so.1: cannot open shared object file: No such file or directory"
    stage.package("torch", "2.5.1", code=f"raise ImportError({text!r})\n")
