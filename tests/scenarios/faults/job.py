"""Faults of the job's shell: logs, caches, ports, the user, variables of frameworks."""

from __future__ import annotations

from tests.scenarios.fault import anywhere, both, fault, kind
from tests.scenarios.machines import HOME, Machine

from npudoctor.testing import Node, folder

TORCH = kind("torch", "vllm")


def _set(name: str, value: str, code: str, where=anywhere) -> None:  # type: ignore[no-untyped-def]
    """A fault that is one variable with one value."""

    def breaks(machine: Machine) -> None:
        machine.variables[name] = value

    fault(f"{name}={value}", code, where)(breaks)


def _new_torch(machine: Machine) -> bool:
    return TORCH(machine) and machine.era.torch[1].startswith("2")


_set("ASCEND_GLOBAL_LOG_LEVEL", "0", "log-settings.verbose")
_set("ASCEND_GLOBAL_LOG_LEVEL", "1", "log-settings.verbose")
_set("ASCEND_MODULE_LOG_LEVEL", "HCCL=0:GE=1", "log-settings.verbose")
_set("DUMP_GE_GRAPH", "2", "log-settings.graph-dump")
_set("ASCEND_GLOBAL_LOG_LEVEL", "warning", "log-settings.bad-value")
_set("ASCEND_GLOBAL_LOG_LEVEL", "\uff13", "log-settings.pasted-punctuation")
_set("ASCEND_GLOBAL_LOG_LEVEL", "\u201c3\u201d", "log-settings.pasted-punctuation")
_set("ASCEND_SLOG_PRINT_TO_STDOUT", "3", "log-settings.bad-value")
_set("ASCEND_SLOG_PRINT_TO_STDOUT", "1", "log-settings.no-log-file")
_set("ASCEND_MODULE_LOG_LEVEL", "HCLL=3", "log-settings.unknown-module")
_set("ASCEND_HOST_LOG_FILE_NUM", "5000", "log-settings.bad-value")
_set("DUMP_GRAPH_LEVEL", "1", "log-settings.no-effect")
_set("TASK_QUEUE_ENABLE", "yes", "training-env.read-otherwise", TORCH)
_set("TASK_QUEUE_ENABLE", "3", "training-env.bad-value", TORCH)
_set("TASK_QUEUE_ENABLE", "\uff12", "training-env.pasted-punctuation", TORCH)
_set("COMBINED_ENABLE", "true", "training-env.read-otherwise", TORCH)
_set("ASCEND_LAUNCH_BLOCKING", "\u20181\u2019", "training-env.pasted-punctuation", TORCH)
_set("PTCOPY_ENABLE", "1", "training-env.no-effect", _new_torch)
_set("DYNAMIC_OP", "ADD#MUL", "training-env.no-effect", _new_torch)
_set("AUTO_USE_UC_MEMORY", "yes", "training-env.bad-value")
_set("ASCEND_TRACE_RECORD_NUM", "5", "training-env.bad-value")
_set("HCCL_IF_BASE_PORT", "70000", "hccl-ports.bad-value")
_set("HCCL_HOST_SOCKET_PORT_RANGE", "61000~61050", "hccl-ports.bad-value")
_set("HCCL_HOST_SOCKET_PORT_RANGE", "61050-61000", "hccl-ports.bad-value")
_set("HCCL_IF_BASE_PORT", "50000", "hccl-ports.ephemeral")
_set("ASCEND_PROCESS_LOG_PATH", "log", "log-directory.relative")
_set("ASCEND_PROCESS_LOG_PATH", "/usr/local/log", "log-directory.not-writable")
_set("ASCEND_PROCESS_LOG_PATH", "/etc/passwd", "log-directory.no-directory")
_set("ASCEND_WORK_PATH", "/var/ascend", "log-directory.not-writable")
_set("ASCEND_CACHE_PATH", "/data/cache", "compile-cache.missing")
_set("ASCEND_CACHE_PATH", "/usr/local/bin", "compile-cache.not-writable")
_set("ACL_OP_COMPILER_CACHE_DIR", "cache", "compile-cache.relative")
_set("ACL_OP_COMPILER_CACHE_DIR", "/usr/local/cache", "compile-cache.not-writable")
_set("MS_COMPILER_CACHE_PATH", "/usr/local/cache", "compile-cache.not-writable", kind("mindspore"))
_set("HOME", "/home/nobody", "identity.home-missing")
_set("HOME", "/usr/local/bin", "identity.home-not-writable")


@fault("TASK_QUEUE_ENABLE beside ASCEND_LAUNCH_BLOCKING", "training-env.overridden", TORCH)
def _(machine: Machine) -> None:
    machine.variables.update(TASK_QUEUE_ENABLE="2", ASCEND_LAUNCH_BLOCKING="1")


@fault("both names of a log variable", "log-settings.set-twice")
def _(machine: Machine) -> None:
    machine.variables.update(ASCEND_SLOG_PRINT_TO_STDOUT="0", ASCEND_LOG_PRINT_TO_STDOUT="0")


@fault("root made the log folder", "log-directory.not-writable")
def _(machine: Machine) -> None:
    machine.files[f"{HOME}/ascend"] = folder(0o755, 1000)
    machine.files[f"{HOME}/ascend/log"] = folder(0o750, 0)


@fault("a file where the log folder should be", "log-directory.no-directory")
def _(machine: Machine) -> None:
    machine.files[f"{HOME}/ascend"] = Node(uid=1000)


@fault("root made atc_data", "compile-cache.not-writable")
def _(machine: Machine) -> None:
    machine.files[f"{HOME}/atc_data"] = folder(0o750, 0)


@fault("the operator cache on NFSv3", "compile-cache.no-file-locks")
def _(machine: Machine) -> None:
    mounts = machine.files["/proc/self/mountinfo"]
    assert isinstance(mounts, str)
    machine.files["/proc/self/mountinfo"] = f"{mounts}30 21 0:40 / /nfs rw - nfs server:/nfs rw,nolock\n"
    machine.files["/nfs/cache"] = folder(0o755, 1000)
    machine.variables["ASCEND_CACHE_PATH"] = "/nfs/cache"


def _lock(machine: Machine, mtime: float) -> None:
    machine.variables["PWD"] = f"{HOME}/job"
    machine.files[f"{HOME}/job/kernel_meta"] = folder(0o755, 1000)
    machine.files[f"{HOME}/job/kernel_meta/add_custom/build.lock"] = Node(uid=1000, mtime=mtime)


@fault("a build died with its lock", "compile-cache.stale-lock", kind("mindspore"))
def _(machine: Machine) -> None:
    _lock(machine, 1_800_000_000.0 - 7200)


@fault("a build is under way", "compile-cache.lock", kind("mindspore"))
def _(machine: Machine) -> None:
    _lock(machine, 1_800_000_000.0 - 60)


def _listening(port: int, code: str) -> None:
    """A fault that is somebody on a port; `rem_address` and what follows are as the kernel prints them."""

    def breaks(machine: Machine) -> None:
        table = machine.files["/proc/net/tcp"]
        assert isinstance(table, str)
        rest = "00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 4711 1 0 100 0 0 10 0"
        machine.files["/proc/net/tcp"] = f"{table}   0: 00000000:{port:04X} {rest}\n"

    fault(f"somebody listens on port {port}", code)(breaks)


_listening(60003, "hccl-ports.held")
_listening(29500, "hccl-ports.default-held")
_listening(5500, "hccl-ports.default-held")


@fault("HCCL's ports are not reserved", "hccl-ports.ephemeral")
def _(machine: Machine) -> None:
    machine.files["/proc/sys/net/ipv4/ip_local_reserved_ports"] = "\n"


@fault("a user id without a name", "identity.no-passwd-entry")
def _(machine: Machine) -> None:
    machine.files["/etc/passwd"] = "root:x:0:0:root:/root:/bin/bash\n"
    machine.unset("USER")
    machine.uid = 4711
    machine.files[HOME] = folder(0o755, 4711)


@fault("HOME unset", "identity.home-unset")
def _(machine: Machine) -> None:
    machine.unset("HOME")


@fault("root with the HOME of another", "identity.home-of-another", both())
def _(machine: Machine) -> None:
    machine.uid = 0
