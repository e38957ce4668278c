"""What the script of each release sets, for where it cannot be run: by hand up to 5.0, 5.1 to 8.x, 9."""

from __future__ import annotations

from npudoctor.core.cann_version import is_at_least
from npudoctor.core.frozen import replace
from npudoctor.environment.diff import EnvironmentDiff
from npudoctor.environment.owners import AICPU, ATB
from npudoctor.facts.cann.installations import ASCEND, Install
from npudoctor.facts.cann.set_env import variables_of
from npudoctor.host import Host

# Operators' implementations in Python, which te loads.
TBE = "opp/built-in/op_impl/ai_core/tbe"
PLUGINS = ("lib64", "lib64/plugin/opskernel", "lib64/plugin/nnengine")
# Of what a tree has not, nothing is added: so the later releases' lists hold for all from 5.1 on.
LIBRARIES = ("tools/aml/lib64", "tools/aml/lib64/plugin", *PLUGINS)
PROGRAMS = ("bin", "compiler/ccec_compiler/bin", "tools/ccec_compiler/bin")
PROGRAMS_9 = (
    *("bin", "tools/ccec_compiler/bin", "tools/profiler/bin", "tools/ascend_system_advisor/asys"),
    *("tools/show_kernel_debug_data", "tools/msobjdump"),
)
# From 9 on the script sets CMAKE_PREFIX_PATH, too.
CMAKE_9 = ("toolkit/tools/tikicpulib/lib/cmake", "lib64/cmake")
DRIVER = f"{ASCEND}/driver"


def expected_diff(host: Host, install: Install) -> EnvironmentDiff:
    """What a shell of this release has, by our tables."""
    # Of the 5.x era the last releases have the layout of those after them.
    if install.before_6 and host.files.stat(f"{install.path}/lib64") is None:
        return _expected_before_5_1(host, install)
    if is_at_least(install.version, "8.5"):
        install = replace(install, path=install.real)  # its script resolves the link `cann`
    at, arch = install.path, install.arch or host.system.machine
    values = {**variables_of(host.files, install), AICPU: at, "ASCEND_HOME_PATH": at}
    # Of releases up to 8.x; what a tree does not have is not added.
    tiling = f"{at}/{TBE}/op_tiling/lib/linux/{arch}"
    python = (f"{at}/python/site-packages", f"{at}/{TBE}")
    if is_at_least(install.version, "8.5"):
        libraries = (*_below(at, PLUGINS), tiling)
        drivers = (f"{DRIVER}/lib64", f"{DRIVER}/lib64/common", f"{DRIVER}/lib64/driver")
        front = {"LD_LIBRARY_PATH": (*libraries, *drivers), "PYTHONPATH": python}
        more = {"PATH": _below(at, PROGRAMS_9), "CMAKE_PREFIX_PATH": _below(at, CMAKE_9)}
        return EnvironmentDiff(values, {**front, **more})
    front = {"LD_LIBRARY_PATH": (*_below(at, LIBRARIES), tiling), "PYTHONPATH": python}
    return EnvironmentDiff(values, {**front, "PATH": _below(at, PROGRAMS)})


def expected_atb_diff(folder: str) -> EnvironmentDiff:
    """What ATB's script sets for the C++ ABI of this folder; its tuning variables are left at their
    defaults.
    """
    libraries = _below(folder, ("lib", "examples", "tests/atbopstest"))
    return EnvironmentDiff({ATB: folder}, {"LD_LIBRARY_PATH": libraries, "PATH": (f"{folder}/bin",)})


def _expected_before_5_1(host: Host, install: Install) -> EnvironmentDiff:
    at = install.path
    site = f"{at}/fwkacllib/python/site-packages"
    # As the script of Ascend/tools set them up to 5.0.x.
    eggs = (f"{site}/auto_tune.egg/auto_tune", f"{site}/schedule_search.egg")
    operators = tuple(f"{at}/{path}" for path in ("opp/op_impl/built-in/ai_core/tbe", TBE))
    drivers = (f"{DRIVER}/lib64/common", f"{DRIVER}/lib64/driver", f"{ASCEND}/add-ons")
    return EnvironmentDiff(
        {"ASCEND_HOME": ASCEND, **variables_of(host.files, install)},
        {"PYTHONPATH": (*eggs, site, f"{site}/hccl", *operators)},
        {
            "LD_LIBRARY_PATH": (f"{at}/fwkacllib/lib64", *drivers),
            "PATH": (f"{at}/fwkacllib/ccec_compiler/bin",),
        },
    )


def _below(folder: str, parts: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(f"{folder}/{part}" for part in parts)
