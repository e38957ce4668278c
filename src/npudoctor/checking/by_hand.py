"""What a person does about an error for which no line can be typed: who does what where, one sentence a code.

Here and not in each check, so that a test can hold it: an error of ours has lines, or a sentence of these.
"""

from __future__ import annotations

from typing import Optional

from npudoctor.core.messages import _
from npudoctor.core.model import Fix, Risk


def N_(text: str) -> str:  # noqa: N802  (the catalogue's own name)
    """Mark a sentence for the catalogue; it is translated when it is used."""
    return text


# Sentences that several codes share.
_REINSTALL = N_("ask the administrator to reinstall all of CANN from the .run packages of one release")
_DRIVER = N_("ask the administrator to reinstall this machine's driver, then reboot")
_RANK_TABLE = N_(
    "correct the rank table, or regenerate it with the tool that made it, then copy it to all nodes"
)
_HCCN = N_("ask the administrator to correct the addresses of the NPUs with hccn_tool, on this machine")
_SITE_ROW = N_("install a release that this site allows, or ask whoever maintains this site's table")
_OLD_SYSTEM = N_(
    "run it on a newer system or in a newer container image; the C library cannot be upgraded alone"
)
_NEW_GPU_DRIVER = N_(
    "ask the administrator to install a newer NVIDIA driver, or install a build for this driver"
)
_FREE = N_("free space there, or point TMPDIR and the job's folders to a file system with free space")

_LIMITS = N_("ask whoever sets the limits (the login, the container, the scheduler) to raise them")
_PYTHON = N_("install this Python again: its standard library is incomplete")
_VARIABLE = N_("correct the variable in the launch script, or remove it")
_PIP = N_("install it with the pip of the interpreter that runs the job")
_PIP_AGAIN = N_("reinstall the package with the pip of the interpreter that runs the job")

SENTENCES = {
    "accelerator.fewer": N_(
        "ask the administrator to find the missing ones: lspci, then npu-smi info or nvidia-smi"
    ),
    "accelerator.missing": N_(
        "if this machine has accelerators, ask the administrator to install their driver and to reboot"
    ),
    "aicpu-path.missing": N_(
        "remove ASCEND_AICPU_PATH from the launch script, and source CANN's set_env.sh there"
    ),
    "aicpu-path.other-install": N_(
        "in a new shell, source only the set_env.sh of the CANN that the job uses"
    ),
    "aicpu-path.unset": N_("source CANN's set_env.sh in the launch script, before the job is started"),
    "cache-server.client-attached": N_(
        "if the attached process hangs, end it; then run npudoctor fix --cache-server"
    ),
    "cache-server.orphan-segment": N_(
        "run npudoctor fix --cache-server as the owner of the shared memory segment"
    ),
    "cann-driver.incompatible": N_("ask the administrator to install the recommended driver, then reboot"),
    "cann-driver.missing": N_(
        "ask the administrator to install the driver and firmware of the NPUs, then reboot"
    ),
    "cann-driver.no-library": _DRIVER,
    "cann-env.mixed-installs": N_("in a new shell, source only the set_env.sh of the CANN that the job uses"),
    "cann-env.no-such-path": N_(
        "remove the variable from the launch script, and source the set_env.sh of a CANN"
    ),
    "cann-env.not-sourced": N_("source CANN's set_env.sh in the launch script, before the job is started"),
    "cann-env.other-install-first": N_("in a new shell, source the set_env.sh of the wanted CANN last"),
    "cann-env.unset": N_("source CANN's set_env.sh in the launch script, before the job is started"),
    "cann-install.dangling-latest": _REINSTALL,
    "cann-install.missing": N_(
        "ask the administrator to install CANN: the toolkit and kernels .run packages for these "
        "NPUs, each with --install --install-for-all; to check for the CPU only, use --expect none"
    ),
    "cann-install.mixed-latest": _REINSTALL,
    "cann-install.not-readable": N_(
        "ask root to make CANN readable for all users, or to install it with --install-for-all"
    ),
    "cann-install.wrong-machine": N_("install the CANN packages for this machine's architecture"),
    "cann-python-deps.missing": N_("install these packages into the interpreter that runs the job"),
    "cann-python-deps.numpy-2": N_("install NumPy below 2 into the interpreter that runs the job"),
    "conflicting-packages.other-c-library": N_(
        "reinstall it with this interpreter's pip, from the package's own index"
    ),
    "conflicting-packages.other-machine": N_(
        "reinstall it with this interpreter's pip, from the package's own index"
    ),
    "conflicting-packages.other-python": N_(
        "reinstall it with this interpreter's pip, from the package's own index"
    ),
    "container-mounts.driver": N_("ask whoever starts the container to mount the driver's folders into it"),
    "cuda-driver.compat-unusable": _NEW_GPU_DRIVER,
    "cuda-driver.mismatch": N_("ask the administrator to reboot, or to reload the nvidia module"),
    "cuda-driver.no-library": N_(
        "ask whoever starts the container to set NVIDIA_DRIVER_CAPABILITIES=compute,utility"
    ),
    "cuda-driver.stub-first": N_("remove the folder of stubs from LD_LIBRARY_PATH in the launch script"),
    "cuda-driver.too-old": _NEW_GPU_DRIVER,
    "device-nodes.missing": _DRIVER,
    "device-nodes.no-access": N_("ask root to give the job's user access to these devices, by group or mode"),
    "device-nodes.not-a-device": N_(
        "ask root to remove it and to reload the driver, which creates the device node"
    ),
    "device-visibility.none-left": _VARIABLE,
    "disk-space.full": _FREE,
    "disk-space.no-inodes": N_("delete unneeded files there: the file system has no free inodes"),
    "file-limits.unusable": N_("ask root to raise nofile in /etc/security/limits.conf, then log in again"),
    "firewall.blocked": N_("ask the administrator to open these ports between the nodes of the job"),
    "framework-imports.failed": N_("install the framework again in a new virtual environment, and compare"),
    "framework-modules.backend-gone": N_("install the package of this back end again, or uninstall it"),
    "framework-modules.hidden": N_("move the folder that hides the package, or remove it from PYTHONPATH"),
    "framework-modules.not-built": N_(
        "build the framework in its source folder, or start the job from another folder"
    ),
    "framework-modules.plugin-unusable": N_("install the package of this plug-in again, or uninstall it"),
    "framework-modules.source-gone": N_(
        "install the package again: the folder that it was linked to is gone"
    ),
    "framework-modules.start-up-code": N_("ask the author of the start-up code to correct or remove it"),
    "framework-selftest.failed": N_(
        "look the error up with npudoctor explain, and ask whoever maintains the machine"
    ),
    "gpu-collective.not-loadable": N_(
        "ask the administrator to install the Open MPI and NCCL releases that it needs"
    ),
    "gpu-nodes.missing": N_("ask the administrator to load the nvidia modules: nvidia-modprobe -u -c 0"),
    "gpu-nodes.no-access": N_("ask root to give the user access to /dev/nvidia*"),
    "gpu-nodes.not-a-device": N_(
        "ask root to remove it and to run nvidia-modprobe -u -c 0, which creates the device node"
    ),
    "gpu-visibility.hidden": _VARIABLE,
    "gpu-visibility.none-left": _VARIABLE,
    "gpu-visibility.repeated": _VARIABLE,
    "hccl-env.bad-value": _VARIABLE,
    "hccl-env.pasted-punctuation": _VARIABLE,
    "hccl-env.unsupported-pair": N_("set only one of the two variables in the launch script"),
    "hccl-interface.bad-value": N_(
        "set the variable to one IP address of this machine; `ip -br address` lists them"
    ),
    "hccl-interface.down": N_("ask the administrator to bring the interface up, or choose another one"),
    "hccl-interface.inner": N_(
        "set the variable to an address of the interface that leads to the other nodes; `ip route` shows it"
    ),
    "hccl-interface.not-ours": N_("set it on each node to an address of that node"),
    "hccl-interface.pasted-punctuation": _VARIABLE,
    "hccl-ports.bad-value": N_(
        "set it in the launch script to a free port from 1024 to 65520, such as 29500"
    ),
    "hccl-ports.held-by-stale": N_(
        "end the stale process that holds the port, or choose another port for the job"
    ),
    "hccn-config.bad-value": _HCCN,
    "hccn-config.duplicate-address": _HCCN,
    "hccn-config.link-down": N_(
        "ask the administrator to check the NPU's cable and optics: hccn_tool -i N -optical -g"
    ),
    "hccn-config.no-address": _HCCN,
    "hccn-config.not-applied": N_("ask root to set the address from /etc/hccn.conf again with hccn_tool"),
    "hccn-config.tls-differs": N_(
        "ask root to set the same TLS switch on the NPUs of all nodes with hccn_tool"
    ),
    "import-limits.address-space": N_(
        "start the job with a higher ulimit -v, or ask the scheduler for more memory"
    ),
    "import-limits.data": N_("start the job with a higher ulimit -d, or ask the scheduler for more memory"),
    "import-limits.not-executable": N_("install the environment on a file system that is not mounted noexec"),
    "import-limits.too-low": N_("start the job with higher limits, or ask the scheduler for more memory"),
    "interpreter.does-not-run": N_("start the job with another interpreter, or install this one again"),
    "interpreter.other-abi": N_(
        "start the job with the Python that the package was installed for, or install the package "
        "for this one"
    ),
    "library-path.broken": N_(
        "reinstall the software that the library belongs to; until then its folder is unusable"
    ),
    "library-path.driver-not-found": N_(
        "ask the administrator to install the driver, or to mount it into the container"
    ),
    "library-path.not-found": N_("install the CANN that matches the framework, and source its set_env.sh"),
    "library-path.other-cann": N_("in a new shell, source only the set_env.sh of the CANN that the job uses"),
    "library-path.stub-first": N_("remove the folder of stubs from LD_LIBRARY_PATH in the launch script"),
    "libstdcxx.glibc-too-old": _OLD_SYSTEM,
    "libstdcxx.too-old": N_(
        "install a newer libstdc++, such as that of conda, and put its folder first in LD_LIBRARY_PATH"
    ),
    "like-snapshot.device": N_(
        "ask the administrator why this node's devices differ from those of the recorded node"
    ),
    "like-snapshot.version": N_("install the versions that the recorded node has"),
    "loaded-libraries.lacks-symbols": N_("remove the folder with the older library from LD_LIBRARY_PATH"),
    "loaded-libraries.not-found": N_("reinstall the package that provides the library"),
    "loaded-libraries.not-loadable": N_(
        "reinstall the package that provides the library, in the build for this machine"
    ),
    "master-address.bad-port": N_(
        "set it in the launch script to a free port from 1024 to 65535, such as 29500"
    ),
    "master-address.bad-value": N_("set it in the launch script to the address of the first node"),
    "master-address.ipv6": N_("set it in the launch script to an IPv4 address of the scheduler's node"),
    "master-address.loopback": N_(
        "set it in the launch script to an address of the first node that the other nodes can reach"
    ),
    "master-address.no-way": N_(
        "ask the administrator to add a route to it, or set an address that this node can reach"
    ),
    "master-address.not-ours": N_("set it in the launch script to an address of the node with rank 0"),
    "master-address.unresolvable": N_(
        "set an address instead of the name, or ask the administrator to add the name to /etc/hosts or DNS"
    ),
    "memory.address-space": N_("start the job with a higher ulimit -v"),
    "mindspore-cann.cann-incompatible": _SITE_ROW,
    "mindspore-cann.not-accepted": N_(
        "source a CANN that this MindSpore accepts, or install another MindSpore"
    ),
    "nccl-env.bad-value": _VARIABLE,
    "nccl-version.missing": N_("install the NCCL that the framework needs"),
    "nccl-version.missing-symbols": N_("install the NCCL that the framework needs, or remove the other one"),
    "nccl-version.too-old": N_("put an NCCL of that release or newer first in LD_LIBRARY_PATH"),
    "nnal-atb.not-found": N_(
        "ask the administrator to install the NNAL release that matches CANN, and source its script"
    ),
    "nnal-atb.undefined-symbols": N_("ask the administrator to install the NNAL release that matches CANN"),
    "npu-health.alarm": N_("move the job to other NPUs, and send the fault codes of npu-smi to the vendor"),
    "npu-health.critical": N_(
        "take the NPU out of service, and send the fault codes of npu-smi to the vendor"
    ),
    "npu-tool.device-used": N_(
        "stop the other container that holds the device, or give this one another device"
    ),
    "npu-tool.driver-not-ready": N_(
        "ask the administrator to reboot and, if the problem remains, to reinstall the driver"
    ),
    "npu-tool.hung": N_("ask the administrator to reboot this machine"),
    "numpy-version.missing": _PIP,
    "numpy-version.unsuitable": _PIP,
    "openmpi.missing": N_(
        "ask the administrator to install Open MPI, and put its lib folder in LD_LIBRARY_PATH"
    ),
    "package-files.cut-short": _PIP_AGAIN,
    "package-files.interrupted": _PIP_AGAIN,
    "package-files.missing": _PIP_AGAIN,
    "package-files.spoiled": _PIP_AGAIN,
    "package-files.stale-code": _PIP_AGAIN,
    "package-files.two-versions": _PIP_AGAIN,
    "package-files.unreadable": N_(
        "ask the owner to make these files readable, or install into your own environment"
    ),
    "package-requirements.missing": _PIP,
    "package-requirements.unsuitable": _PIP,
    "paddle-npu.cann-incompatible": _SITE_ROW,
    "paddle-npu.paddle-missing": _PIP,
    "protobuf-implementation.not-there": N_("remove the variable from the launch script"),
    "python-variables.bad-value": _VARIABLE,
    "python-variables.framework-refuses": _VARIABLE,
    "python-variables.hides-packages": _VARIABLE,
    "python-variables.no-standard-library": _VARIABLE,
    "python-variables.warnings-as-errors": _VARIABLE,
    "rank-env.bad-value": N_("correct the variable where the job is launched"),
    "rank-env.out-of-range": N_(
        "correct the ranks where the job is launched: they range from 0 to the number of ranks minus 1"
    ),
    "rank-table.bad-value": _RANK_TABLE,
    "rank-table.device-counts": _RANK_TABLE,
    "rank-table.initializing": N_(
        "wait until the cluster has written the rank table; if it does not, ask the cluster administrator"
    ),
    "rank-table.missing": N_("copy the rank table to this path on this node, or correct the variable"),
    "rank-table.no-address": _RANK_TABLE,
    "rank-table.no-device": _RANK_TABLE,
    "rank-table.not-json": _RANK_TABLE,
    "rank-table.not-this-host": _RANK_TABLE,
    "rank-table.rank-id": N_(
        "set RANK_ID in the launch script to the number of this process in the rank table"
    ),
    "rank-table.rank-ids": _RANK_TABLE,
    "rank-table.repeated": _RANK_TABLE,
    "rank-table.super-pods": _RANK_TABLE,
    "rank-table.unreadable": N_("ask the owner to make the rank table readable for the user of the job"),
    "rank-table.wrong-address": _RANK_TABLE,
    "rank-table.wrong-count": _RANK_TABLE,
    "scipy-version.missing": _PIP,
    "scipy-version.slow-initialisation": _PIP,
    "scipy-version.unsuitable": _PIP,
    "socket-interfaces.bad-value": N_(
        "set the variable to interfaces of this machine; `ip -br address` lists them"
    ),
    "socket-interfaces.down": N_("ask the administrator to bring the interface up, or choose another one"),
    "socket-interfaces.missing": N_(
        "set the variable to an interface of this machine; `ip -br address` lists them"
    ),
    "socket-interfaces.no-address": N_(
        "set the variable to an interface that has an address; `ip -br address` lists them"
    ),
    "socket-interfaces.pasted-punctuation": _VARIABLE,
    "source-shadowing.package": N_(
        "rename the file or folder that hides the package, or start the job from another folder"
    ),
    "source-shadowing.standard-library": N_("rename the file that hides the standard library's module"),
    "standard-library.damaged": _PYTHON,
    "standard-library.library-missing": N_("ask the administrator to install the library that is missing"),
    "standard-library.module-missing": _PYTHON,
    "standard-library.not-readable": N_("ask the owner to make these files readable for all users"),
    "te-topi.other-version": _REINSTALL,
    "temporary-folders.mindspore-closed": N_("ask root to remove the folder once no cache server uses it"),
    "temporary-folders.not-writable": N_(
        "set TMPDIR in the launch script to a folder that the user can write to"
    ),
    "torch-family.mismatch": N_("install the release of it that matches this torch"),
    "torch-family.other-build": N_("reinstall it from the package index of this torch build"),
    "torch-family.torch-missing": _PIP,
    "torch-npu.cann-incompatible": _SITE_ROW,
    "torch-npu.cann-missing": N_(
        "install CANN and source its set_env.sh, or uninstall torch_npu if no NPU is used"
    ),
    "torch-npu.torch-mismatch": _PIP,
    "torch-npu.torch-missing": _PIP,
    "training-env.bad-value": _VARIABLE,
    "trial-files.cannot-write": N_("give the job a TMPDIR and a folder that it can write to"),
    "trial-files.device-unusable": N_(
        "ask the administrator (in a container: whoever starts it) to recreate the device with mode 666"
    ),
    "trial-files.path-too-long": N_("give the job a TMPDIR with a short path, such as /tmp"),
    "trial-memory.cannot-allocate": N_(
        "free memory, or ask whoever starts the container or sets limits here to allow more"
    ),
    "trial-memory.cannot-execute": N_(
        "install Python and its libraries on a file system that is mounted without noexec"
    ),
    "trial-memory.cannot-reserve": _LIMITS,
    "trial-processes.cpu-time": _LIMITS,
    "trial-processes.no-descriptors": _LIMITS,
    "trial-processes.no-processes": _LIMITS,
    "trial-processes.no-threads": _LIMITS,
    "trial-python.cannot-start": N_("install this Python again, or start the job with another one"),
    "trial-python.module-missing": N_(
        "rebuild or reinstall this Python with what is missing, or start the job with another one"
    ),
    "trial-rendezvous.cannot-bind": N_(
        "end the process that holds the port, if it is yours, or give the job another port, the same "
        "on every node"
    ),
    "trial-rendezvous.cannot-connect": N_(
        "allow traffic between the ranks through the network and the firewall, on this machine too"
    ),
    "trial-rendezvous.own-name": N_(
        "ask the administrator to add this machine's name and address to /etc/hosts or the name service"
    ),
    "trial-shared-memory.no-room": N_(
        "free space in /dev/shm, or ask whoever starts the container to make it larger"
    ),
    "trial-shared-memory.refused": N_(
        "ask the administrator (in a container: whoever starts it) to mount /dev/shm for all users, mode 1777"
    ),
    "virtual-environment.base-missing": N_(
        "create a new virtual environment, and install the packages there"
    ),
    "virtual-environment.linked-from-outside": N_("start the job by the path of the environment's Python"),
    "virtual-environment.not-executable": N_(
        "ask the owner to make the interpreter executable for the job's user"
    ),
    "virtual-environment.other-python": N_(
        "create a new virtual environment, and install the packages there"
    ),
    "virtual-environment.settings-missing": N_(
        "create a new virtual environment, and install the packages there"
    ),
    "vllm-ascend.cann-incompatible": _SITE_ROW,
    "vllm-ascend.unmet-requirement": _PIP,
    "vllm-ascend.vllm-mismatch": N_("install the vLLM release that matches it, without dependencies"),
    "vllm-ascend.vllm-missing": N_("install the vLLM release that matches it, without dependencies"),
    "working-directory.gone": N_("change to a folder that exists, and start the job from there"),
}


def by_hand(code: str) -> Optional[Fix]:
    """The sentence for a code as a fix without lines; None where there is none."""
    sentence = SENTENCES.get(code)
    return None if sentence is None else Fix(_(sentence), risk=Risk.MANUAL, needs_root=False)
