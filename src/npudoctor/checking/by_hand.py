"""What a person does about an error for which no line can be typed: who does what where, one sentence a code.

Here and not in each check, so that a test can hold it: an error of ours has lines, or a sentence of these.
"""

from __future__ import annotations

from typing import Optional

from npudoctor.core.messages import _
from npudoctor.core.model import Fix, Risk


def N_(text: str) -> str:  # noqa: N802  (the catalogue's own name)
    """Marks a sentence for the catalogue; it is translated when it is said."""
    return text


_REINSTALL = N_(
    "ask the administrator to install CANN again as a whole, with the .run packages of one release"
)
_DRIVER = N_("ask the administrator to install the driver of this machine again, then reboot")
_RANK_TABLE = N_(
    "correct the rank table, or let the tool that made it make it again, and copy it to all nodes"
)
_HCCN = N_("ask the administrator to correct the addresses of the NPUs with hccn_tool, on this machine")
_SITE_ROW = N_("install a release that this site allows, or ask whoever maintains this site's table")
_OLD_SYSTEM = N_(
    "run it on a newer system, or in a container image of one; a newer C library cannot be added"
)
_NEW_GPU_DRIVER = N_(
    "ask the administrator to install a newer NVIDIA driver, or install a build for this driver"
)
_FREE = N_("free space there, or point TMPDIR and the job's folders to a file system that has some")

_LIMITS = N_("ask whoever sets limits here (the login, the container, the scheduler) to allow more")
_VARIABLE = N_("correct the variable in the job's script, or take it out there")
_PIP = N_("install it with pip of the interpreter that runs the job")
_PIP_AGAIN = N_("install the package again with pip of the interpreter that runs the job")

SENTENCES = {
    "accelerator.fewer": N_(
        "ask the administrator to look for the others: lspci, then npu-smi info or nvidia-smi"
    ),
    "accelerator.missing": N_(
        "if they are built in, ask the administrator to install their driver and to reboot"
    ),
    "aicpu-path.missing": N_(
        "take ASCEND_AICPU_PATH out of the job's script and source CANN's set_env.sh there"
    ),
    "aicpu-path.other-install": N_(
        "source the set_env.sh of the one CANN that the job is to use, in a new shell"
    ),
    "aicpu-path.unset": N_("source CANN's set_env.sh in the job's script, before the job is started"),
    "cache-server.client-attached": N_(
        "end the process that is attached, if it hangs; npudoctor fix --cache-server does the rest"
    ),
    "cache-server.orphan-segment": N_("type npudoctor fix --cache-server, as the owner of the segment"),
    "cann-driver.incompatible": N_("ask the administrator to install the recommended driver, then reboot"),
    "cann-driver.missing": N_(
        "ask the administrator to install the driver and firmware of the NPUs, then reboot"
    ),
    "cann-driver.no-library": _DRIVER,
    "cann-env.mixed-installs": N_(
        "source the set_env.sh of the one CANN that the job is to use, in a new shell"
    ),
    "cann-env.no-such-path": N_(
        "take the variable out of the job's script and source the set_env.sh of a CANN"
    ),
    "cann-env.not-sourced": N_("source CANN's set_env.sh in the job's script, before the job is started"),
    "cann-env.other-install-first": N_("source the set_env.sh of the one CANN to use last, in a new shell"),
    "cann-env.unset": N_("source CANN's set_env.sh in the job's script, before the job is started"),
    "cann-install.dangling-latest": _REINSTALL,
    "cann-install.missing": N_(
        "ask the administrator to install CANN: the toolkit's and the kernels' .run packages for these NPUs, "
        "each with --install --install-for-all; with --expect none the CPU alone is judged"
    ),
    "cann-install.mixed-latest": _REINSTALL,
    "cann-install.not-readable": N_(
        "ask root to open CANN for all users, or to install it with --install-for-all"
    ),
    "cann-install.wrong-machine": N_("install the CANN packages for this machine's architecture"),
    "cann-python-deps.missing": N_("install these packages into the interpreter that runs the job"),
    "cann-python-deps.numpy-2": N_("install NumPy below 2 into the interpreter that runs the job"),
    "conflicting-packages.other-c-library": N_(
        "install it again with pip of this interpreter, from its own index"
    ),
    "conflicting-packages.other-machine": N_(
        "install it again with pip of this interpreter, from its own index"
    ),
    "conflicting-packages.other-python": N_(
        "install it again with pip of this interpreter, from its own index"
    ),
    "container-mounts.driver": N_("ask whoever starts the container to mount the driver's folders into it"),
    "cuda-driver.compat-unusable": _NEW_GPU_DRIVER,
    "cuda-driver.mismatch": N_(
        "ask the administrator to reboot, or to unload and load the nvidia module again"
    ),
    "cuda-driver.no-library": N_(
        "ask whoever starts the container to set NVIDIA_DRIVER_CAPABILITIES=compute,utility"
    ),
    "cuda-driver.stub-first": N_("take the folder of stubs out of LD_LIBRARY_PATH in the job's script"),
    "cuda-driver.too-old": _NEW_GPU_DRIVER,
    "device-nodes.missing": _DRIVER,
    "device-nodes.no-access": N_(
        "ask root to open these devices to the user of the job, by their group or their mode"
    ),
    "device-nodes.not-a-device": N_(
        "ask root to remove it and to load the driver again, which makes the node"
    ),
    "device-visibility.none-left": _VARIABLE,
    "disk-space.full": _FREE,
    "disk-space.no-inodes": N_(
        "delete files that nobody needs there: the file system has no room for more files"
    ),
    "file-limits.unusable": N_("ask root to raise nofile in /etc/security/limits.conf, then log in again"),
    "firewall.blocked": N_(
        "ask the administrator to let the nodes of the job reach these ports of each other"
    ),
    "framework-imports.failed": N_("install the framework again in a new virtual environment, and compare"),
    "framework-modules.backend-gone": N_("install the package of this back end again, or uninstall it"),
    "framework-modules.hidden": N_(
        "move the folder away that hides the package, or take it out of PYTHONPATH"
    ),
    "framework-modules.not-built": N_("build the framework in its source folder, or start the job elsewhere"),
    "framework-modules.plugin-unusable": N_("install the package of this plug-in again, or uninstall it"),
    "framework-modules.source-gone": N_(
        "install the package again: the folder that it was linked to is gone"
    ),
    "framework-modules.start-up-code": N_(
        "ask whoever wrote the start-up code to correct it, or take it away"
    ),
    "framework-selftest.failed": N_(
        "look the error up with npudoctor explain, and ask whoever maintains the machine"
    ),
    "gpu-collective.not-loadable": N_(
        "ask the administrator to install Open MPI and NCCL of the releases it needs"
    ),
    "gpu-nodes.missing": N_("ask the administrator to load the nvidia modules: nvidia-modprobe -u -c 0"),
    "gpu-nodes.no-access": N_("ask root to give the user access to /dev/nvidia*"),
    "gpu-nodes.not-a-device": N_(
        "ask root to remove it and to run nvidia-modprobe -u -c 0, which makes the node"
    ),
    "gpu-visibility.hidden": _VARIABLE,
    "gpu-visibility.none-left": _VARIABLE,
    "gpu-visibility.repeated": _VARIABLE,
    "hccl-env.bad-value": _VARIABLE,
    "hccl-env.pasted-punctuation": _VARIABLE,
    "hccl-env.unsupported-pair": N_("set only one of the two variables in the job's script"),
    "hccl-interface.bad-value": N_(
        "name one interface of this machine there, as `ip -br address` lists them"
    ),
    "hccl-interface.down": N_("ask the administrator to bring the interface up, or name another one"),
    "hccl-interface.inner": N_("name the interface that leads to the other nodes, as `ip route` shows it"),
    "hccl-interface.not-ours": N_("set it on each node to an address or interface of that node"),
    "hccl-interface.pasted-punctuation": _VARIABLE,
    "hccl-ports.bad-value": N_("set it in the job's script to a free port from 1024 to 65520, such as 29500"),
    "hccl-ports.held-by-stale": N_(
        "end the old process that holds the port, or choose another port for the job"
    ),
    "hccn-config.bad-value": _HCCN,
    "hccn-config.duplicate-address": _HCCN,
    "hccn-config.link-down": N_(
        "ask the administrator to check the NPU's cable and optics: hccn_tool -i N -optical -g"
    ),
    "hccn-config.no-address": _HCCN,
    "hccn-config.not-applied": N_("ask root to set the address of /etc/hccn.conf again with hccn_tool"),
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
        "start the job with the Python that it was installed for, or install it for this one"
    ),
    "library-path.broken": N_("install what the library belongs to again; until then its folder is no use"),
    "library-path.driver-not-found": N_(
        "ask the administrator to install the driver, or to mount it into the container"
    ),
    "library-path.not-found": N_(
        "install the CANN that the framework was made for, and source its set_env.sh"
    ),
    "library-path.other-cann": N_(
        "source the set_env.sh of the one CANN that the job is to use, in a new shell"
    ),
    "library-path.stub-first": N_("take the folder of stubs out of LD_LIBRARY_PATH in the job's script"),
    "libstdcxx.glibc-too-old": _OLD_SYSTEM,
    "libstdcxx.too-old": N_("install a newer libstdc++, such as that of conda, and put its folder first"),
    "like-snapshot.device": N_("ask the administrator why this node has other devices than the recorded one"),
    "like-snapshot.version": N_("install here what the recorded node has"),
    "loaded-libraries.lacks-symbols": N_("take the folder with the older library out of LD_LIBRARY_PATH"),
    "loaded-libraries.not-found": N_("install the package that brings the library again"),
    "loaded-libraries.not-loadable": N_(
        "install the package that brings the library again, for this machine"
    ),
    "master-address.bad-port": N_(
        "set it in the job's script to a free port from 1024 to 65535, such as 29500"
    ),
    "master-address.bad-value": N_("set it in the job's script to the address of the first node"),
    "master-address.ipv6": N_("set it in the job's script to an IPv4 address of the scheduler's node"),
    "master-address.loopback": N_(
        "set it in the job's script to an address of the first node that the others reach"
    ),
    "master-address.no-way": N_(
        "ask the administrator for a route there, or set an address that this node reaches"
    ),
    "master-address.not-ours": N_("set it in the job's script to an address of the node with rank 0"),
    "master-address.unresolvable": N_(
        "set an address instead of the name, or ask for the name in /etc/hosts or DNS"
    ),
    "memory.address-space": N_("start the job with a higher ulimit -v"),
    "mindspore-cann.cann-incompatible": _SITE_ROW,
    "mindspore-cann.not-accepted": N_(
        "source a CANN that this MindSpore accepts, or install another MindSpore"
    ),
    "nccl-env.bad-value": _VARIABLE,
    "nccl-version.missing": N_("install the NCCL that the framework needs"),
    "nccl-version.missing-symbols": N_(
        "install the NCCL that the framework needs, or take the other one away"
    ),
    "nccl-version.too-old": N_("put an NCCL of that release or newer first in LD_LIBRARY_PATH"),
    "nnal-atb.not-found": N_(
        "ask the administrator to install NNAL of the release of CANN, and source its script"
    ),
    "nnal-atb.undefined-symbols": N_("ask the administrator to install NNAL of the release of CANN"),
    "npu-health.alarm": N_("move the job to other NPUs, and send the fault codes of npu-smi to the vendor"),
    "npu-health.critical": N_(
        "take the NPU out of service, and send the fault codes of npu-smi to the vendor"
    ),
    "npu-tool.device-used": N_(
        "end the other container that holds the device, or give this one another device"
    ),
    "npu-tool.driver-not-ready": N_(
        "ask the administrator to reboot; if it stays, to install the driver again"
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
        "ask the owner to make these files readable, or install into an environment of yours"
    ),
    "package-requirements.missing": _PIP,
    "package-requirements.unsuitable": _PIP,
    "paddle-npu.cann-incompatible": _SITE_ROW,
    "paddle-npu.paddle-missing": _PIP,
    "protobuf-implementation.not-there": N_("take the variable out of the job's script"),
    "python-variables.bad-value": _VARIABLE,
    "python-variables.framework-refuses": _VARIABLE,
    "python-variables.hides-packages": _VARIABLE,
    "python-variables.no-standard-library": _VARIABLE,
    "python-variables.warnings-as-errors": _VARIABLE,
    "rank-env.bad-value": N_("correct the variable where the job is launched"),
    "rank-env.out-of-range": N_(
        "correct the ranks where the job is launched: they run from 0 to the size less one"
    ),
    "rank-table.bad-value": _RANK_TABLE,
    "rank-table.device-counts": _RANK_TABLE,
    "rank-table.initializing": N_(
        "wait until the cluster has written the table; else ask who runs the cluster"
    ),
    "rank-table.missing": N_("copy the rank table to this path on this node, or correct the variable"),
    "rank-table.no-address": _RANK_TABLE,
    "rank-table.no-device": _RANK_TABLE,
    "rank-table.not-json": _RANK_TABLE,
    "rank-table.not-this-host": _RANK_TABLE,
    "rank-table.rank-id": N_(
        "set RANK_ID in the job's script to the number of this process in the rank table"
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
        "name interfaces of this machine there, as `ip -br address` lists them"
    ),
    "socket-interfaces.down": N_("ask the administrator to bring the interface up, or name another one"),
    "socket-interfaces.missing": N_(
        "name an interface of this machine there, as `ip -br address` lists them"
    ),
    "socket-interfaces.no-address": N_(
        "name an interface that has an address, as `ip -br address` lists them"
    ),
    "socket-interfaces.pasted-punctuation": _VARIABLE,
    "source-shadowing.package": N_(
        "rename the file or folder that hides the package, or start the job elsewhere"
    ),
    "source-shadowing.standard-library": N_("rename the file that hides the standard library's module"),
    "te-topi.other-version": _REINSTALL,
    "temporary-folders.mindspore-closed": N_("ask root to remove the folder once no cache server uses it"),
    "temporary-folders.not-writable": N_(
        "set TMPDIR in the job's script to a folder in which the user may write"
    ),
    "torch-family.mismatch": N_("install the release of it that was made for this torch"),
    "torch-family.other-build": N_("install it again from the index of this build of torch"),
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
        "ask the administrator to make the device again, mode 666; in a container, whoever starts it"
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
        "build or install this Python again with what it lacks, or start the job with another one"
    ),
    "trial-rendezvous.cannot-bind": N_(
        "end what holds the port, if it is yours, or give the job another port, the same on every node"
    ),
    "trial-rendezvous.cannot-connect": N_(
        "let the network and the firewall pass what the ranks send each other, on this machine too"
    ),
    "trial-rendezvous.own-name": N_(
        "ask the administrator to give this machine's name its address, in /etc/hosts or the name service"
    ),
    "trial-shared-memory.no-room": N_(
        "free space in /dev/shm, or ask whoever starts the container to make it larger"
    ),
    "trial-shared-memory.refused": N_(
        "ask the administrator to mount /dev/shm for everybody, mode 1777; in a container, whoever starts it"
    ),
    "virtual-environment.base-missing": N_(
        "create a new environment beside it, and install the packages there"
    ),
    "virtual-environment.not-executable": N_(
        "ask the owner to make the interpreter executable for the job's user"
    ),
    "virtual-environment.other-python": N_(
        "create a new environment beside it, and install the packages there"
    ),
    "virtual-environment.settings-missing": N_(
        "create a new environment beside it, and install the packages there"
    ),
    "vllm-ascend.cann-incompatible": _SITE_ROW,
    "vllm-ascend.unmet-requirement": _PIP,
    "vllm-ascend.vllm-mismatch": N_("install the vLLM that it was made for, without dependencies"),
    "vllm-ascend.vllm-missing": N_("install the vLLM that it was made for, without dependencies"),
    "working-directory.gone": N_("change to a folder that exists, and start the job from there"),
}


def by_hand(code: str) -> Optional[Fix]:
    """The sentence for a code as a remedy without lines; None where there is none."""
    sentence = SENTENCES.get(code)
    return None if sentence is None else Fix(_(sentence), risk=Risk.MANUAL, needs_root=False)
