"""What goes wrong in the job's own variables, folders and account, written from manuals and facts alone."""

from __future__ import annotations

from tests.scenarios.fault import both, cann, fault, kind
from tests.scenarios.faults.fresh import MODERN
from tests.scenarios.machines import HOME, Machine

from npudoctor.testing import Node, folder

TODAY = both(kind("torch", "vllm"), cann("8.0.0", "8.1.RC1", "8.3.RC1", "8.5.0", "9.0.0", "9.1.0"))


@fault("INFO left on after a debugging session", "log-settings.verbose")
def _(machine: Machine) -> None:
    machine.variables["ASCEND_GLOBAL_LOG_LEVEL"] = "1"


@fault("one module on DEBUG", "log-settings.verbose", MODERN)
def _(machine: Machine) -> None:
    machine.variables["ASCEND_MODULE_LOG_LEVEL"] = "HCCL=0:GE=3"


@fault("level in full-width digits", "log-settings.pasted-punctuation")
def _(machine: Machine) -> None:
    machine.variables["ASCEND_GLOBAL_LOG_LEVEL"] = "３"


@fault("level as a word", "log-settings.bad-value")
def _(machine: Machine) -> None:
    machine.variables["ASCEND_GLOBAL_LOG_LEVEL"] = "ERROR"


@fault("more log files than there may be", "log-settings.bad-value")
def _(machine: Machine) -> None:
    machine.variables["ASCEND_HOST_LOG_FILE_NUM"] = "5000"


@fault("graphs still dumped", "log-settings.graph-dump")
def _(machine: Machine) -> None:
    machine.variables.update(DUMP_GE_GRAPH="2", DUMP_GRAPH_LEVEL="3")


@fault("logs to the screen only", "log-settings.no-log-file", MODERN)
def _(machine: Machine) -> None:
    machine.variables["ASCEND_SLOG_PRINT_TO_STDOUT"] = "1"


@fault("a first run with sudo made the log folder", "log-directory.not-writable")
def _(machine: Machine) -> None:
    machine.files[f"{HOME}/ascend"] = machine.files[f"{HOME}/ascend/log"] = folder(0o750)


@fault("a log file in place of the log folder", "log-directory.no-directory", MODERN)
def _(machine: Machine) -> None:
    machine.files[f"{HOME}/job/train.log"] = Node(b"step 1\n", uid=machine.uid)
    machine.variables["ASCEND_PROCESS_LOG_PATH"] = f"{HOME}/job/train.log"


@fault("logs relative to wherever the job starts", "log-directory.relative", MODERN)
def _(machine: Machine) -> None:
    machine.variables["ASCEND_PROCESS_LOG_PATH"] = "./logs"


@fault(
    "a dead build of an operator keeps its lock",
    "compile-cache.stale-lock",
    both(kind("mindspore"), cann("8.5.0", "9.0.0", "9.1.0")),
)
def _(machine: Machine) -> None:
    machine.variables["MS_COMPILER_CACHE_PATH"] = f"{HOME}/cache"
    machine.files[f"{HOME}/cache"] = machine.files[f"{HOME}/cache/my_ops"] = folder(0o755, machine.uid)
    machine.files[f"{HOME}/cache/my_ops/build.lock"] = Node(b"", permissions=0o600, uid=machine.uid)


@fault("kernel_meta of a run with sudo", "compile-cache.not-writable", kind("mindspore"))
def _(machine: Machine) -> None:
    machine.files[f"{HOME}/job/kernel_meta"] = folder(0o755)


@fault("operator cache on a disk that is not mounted", "compile-cache.missing", MODERN)
def _(machine: Machine) -> None:
    machine.variables["ASCEND_CACHE_PATH"] = "/data/cache"


@fault("operator cache on NFS without locks", "compile-cache.no-file-locks", MODERN)
def _(machine: Machine) -> None:
    machine.files["/data/cache"] = folder(0o755, machine.uid)
    mounts = machine.files["/proc/self/mountinfo"]
    assert isinstance(mounts, str)
    line = "40 21 0:45 / /data rw,relatime - nfs 192.0.2.7:/data rw,vers=3,nolock,proto=tcp\n"
    machine.files["/proc/self/mountinfo"] = mounts + line
    machine.variables["ASCEND_CACHE_PATH"] = "/data/cache"


@fault("container started with a user id of nobody", "identity.no-passwd-entry")
def _(machine: Machine) -> None:
    machine.uid = 5000
    machine.unset("USER", "LOGNAME")
    machine.files["/.dockerenv"] = ""
    machine.files["/workspace"] = folder(0o777, machine.uid)
    machine.variables["HOME"] = "/workspace"


@fault("a service without HOME", "identity.home-unset")
def _(machine: Machine) -> None:
    machine.unset("HOME")


@fault("HOME on a disk that is not mounted", "identity.home-missing")
def _(machine: Machine) -> None:
    machine.variables["HOME"] = "/mnt/home/trainer"


@fault("home made by root, never handed over", "identity.home-not-writable")
def _(machine: Machine) -> None:
    machine.files[HOME] = folder(0o755)


@fault("sudo -E keeps HOME", "identity.home-of-another")
def _(machine: Machine) -> None:
    machine.uid = 0


@fault("TASK_QUEUE_ENABLE of nobody's choice", "training-env.bad-value", TODAY)
def _(machine: Machine) -> None:
    machine.variables["TASK_QUEUE_ENABLE"] = "3"


@fault("COMBINED_ENABLE=2", "training-env.bad-value", TODAY)
def _(machine: Machine) -> None:
    machine.variables["COMBINED_ENABLE"] = "2"


@fault("quotes of a document around a number", "training-env.pasted-punctuation", TODAY)
def _(machine: Machine) -> None:
    machine.variables["TASK_QUEUE_ENABLE"] = "“1”"


@fault("a word where a number is read", "training-env.read-otherwise", TODAY)
def _(machine: Machine) -> None:
    machine.variables["TASK_QUEUE_ENABLE"] = "on"


@fault("PTCOPY_ENABLE carried on from torch 1.8", "training-env.no-effect", TODAY)
def _(machine: Machine) -> None:
    machine.variables["PTCOPY_ENABLE"] = "1"


@fault("a clone of torch on PYTHONPATH", "source-shadowing.package", kind("torch"))
def _(machine: Machine) -> None:
    machine.files[f"{HOME}/src/pytorch/torch/__init__.py"] = "from ._C import *\n"
    machine.files[f"{HOME}/src/pytorch/torch/nn/__init__.py"] = ""
    machine.variables["PYTHONPATH"] = f"{HOME}/src/pytorch:{machine.variables['PYTHONPATH']}"


@fault("a folder numpy beside the script, an empty entry in PYTHONPATH", "source-shadowing.package")
def _(machine: Machine) -> None:
    machine.files[f"{HOME}/job/numpy/__init__.py"] = "# my helpers\n"
    machine.variables["PYTHONPATH"] = f":{machine.variables['PYTHONPATH']}"


@fault("random.py beside the script, which PYTHONPATH names", "source-shadowing.standard-library")
def _(machine: Machine) -> None:
    machine.files[f"{HOME}/job/random.py"] = "SEED = 1\n"
    machine.variables["PYTHONPATH"] = f"{HOME}/job:{machine.variables['PYTHONPATH']}"
