"""The scripts that set CANN's variables, written as those of each era work."""

from __future__ import annotations

from npudoctor.testing import Node

from ..scenarios import cann, python_env  # noqa: TID252
from ..scenarios.machines import Machine  # noqa: TID252

# Shows in the result that a script was run and not our tables asked.
MARK = "ASCEND_SET_BY_SCRIPT"
TBE = cann.TBE

_FROM_6 = """\
# An empty list gets an empty entry, as with the vendor's script.
here={top}
export {mark}=1
export LD_LIBRARY_PATH={libraries}:$LD_LIBRARY_PATH
export PYTHONPATH=$here/python/site-packages:$here/{tbe}:$PYTHONPATH
export PATH={programs}:$PATH
export ASCEND_AICPU_PATH=$here
export ASCEND_OPP_PATH=$here/opp
export TOOLCHAIN_HOME=$here/toolkit
export ASCEND_HOME_PATH=$here
{more}
"""
# Asks whether a driver is there, sources what its parts bring, and leaves a function and plain variables.
_FROM_8_5 = """\
here=$(cd "$(dirname "${{BASH_SOURCE[0]}}")" && pwd -P)
. "$here/share/info/setenv.bash" --quiet
prepend() {{
    case ":${{!1}}:" in *":$2:"*) ;; *) export "$1=$2:${{!1}}" ;; esac
}}
for one in {drivers} "$here/{tbe}/op_tiling/lib/linux/{arch}" "$here/lib64/plugin/nnengine" \\
    "$here/lib64/plugin/opskernel" "$here/lib64"; do
    prepend LD_LIBRARY_PATH "$one"
done
for one in "$here/{tbe}" "$here/python/site-packages"; do prepend PYTHONPATH "$one"; done
for one in msobjdump show_kernel_debug_data profiler/bin ccec_compiler/bin; do
    prepend PATH "$here/tools/$one"
done
prepend PATH "$here/bin"
export CMAKE_PREFIX_PATH="$here/toolkit/tools/tikicpulib/lib/cmake:$here/lib64/cmake:$CMAKE_PREFIX_PATH"
export ASCEND_TOOLKIT_HOME=$here ASCEND_HOME_PATH=$here ASCEND_AICPU_PATH=$here
export ASCEND_OPP_PATH=$here/opp TOOLCHAIN_HOME=$here/toolkit
"""

# Takes the C++ ABI from its words, else from torch; this one would wait for ever for torch.
_ATB = """\
for word in "$@"; do case "$word" in --cxx_abi=*) abi=${word#*=} ;; esac; done
[ -n "$abi" ] || sleep 1000
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/latest/atb/cxx_abi_$abi
export ATB_HOME_PATH=$here ASDOPS_LOG_LEVEL=ERROR LCCL_DETERMINISTIC=0
export LD_LIBRARY_PATH=$here/lib:$here/examples:$here/tests/atbopstest:$LD_LIBRARY_PATH
export PATH=$here/bin:$PATH
"""


def path_of(machine: Machine) -> str:
    """Where the script lies; "" for the eras that had none."""
    if machine.era.layout == "old":
        return ""
    return f"{machine.top.rpartition('/')[0]}/set_env.sh" if machine.era.layout == "latest" else (
        f"{machine.top}/set_env.sh"
    )  # fmt: skip


def give(machine: Machine, permissions: int = 0o644, uid: int = 0) -> None:
    """Put the script of its era on a machine."""
    path = path_of(machine)
    if path:
        machine.files[path] = Node(_text(machine).encode(), permissions=permissions, uid=uid)
    if machine.era.layout == "new":
        nested = f"{machine.top}/share/info/setenv.bash"
        machine.files[nested] = Node(f"[ $# = 1 ] && export {MARK}=1\n".encode())


def _text(machine: Machine) -> str:
    words = {"top": machine.top, "tbe": TBE, "arch": machine.arch, "mark": MARK}
    if machine.era.layout == "new":
        drivers = " ".join(f"{cann.DRIVER}/lib64{part}" for part in ("/driver", "/common", ""))
        return _FROM_8_5.format(drivers=drivers, **words)
    parts = ["lib64", "lib64/plugin/opskernel", "lib64/plugin/nnengine"]
    programs, more = ["bin", "compiler/ccec_compiler/bin"], ""
    if machine.era.cann >= "7":
        parts = ["tools/aml/lib64", "tools/aml/lib64/plugin", *parts, f"{TBE}/op_tiling/lib/linux/$(arch)"]
        programs.append("tools/ccec_compiler/bin")
        more = "export ASCEND_TOOLKIT_HOME=$here"
    below = (":".join(f"$here/{part}" for part in one) for one in (parts, programs))
    return _FROM_6.format(libraries=next(below), programs=next(below), more=more, **words)


def give_atb(machine: Machine) -> None:
    """Put ATB's script on a machine that has NNAL."""
    machine.files[f"{python_env.NNAL}/set_env.sh"] = Node(_ATB.encode())
