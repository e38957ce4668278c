"""CANN, driver and firmware of a machine, and the variables that the release's own script exports."""

from __future__ import annotations

from tests.checks.cann import cann_trees as trees

from npudoctor.testing import Content, device, folder, link

from ..elves import library  # noqa: TID252
from .eras import Era
from .npu import GROUP

ASCEND = "/usr/local/Ascend"
DRIVER = f"{ASCEND}/driver"
TBE = trees.TBE
LIBRARIES = ("libascendcl.so", "libhccl.so", "libge_runner.so")
# What te requires in the metadata of 8.1.RC1.
NEEDS = (
    "numpy",
    "decorator",
    "sympy",
    "cffi",
    "protobuf",
    "attrs",
    "scipy",
    "psutil",
    "cloudpickle",
    "ml-dtypes",
    "tornado",
    "absl-py",
)


def top(era: Era) -> str:
    """The path of the installation, as its script names it."""
    if era.layout == "old":
        return f"{ASCEND}/nnae/latest"
    return trees.LATEST if era.layout == "latest" else f"{ASCEND}/cann-{era.cann}"


def library_folder(era: Era, arch: str) -> str:
    """Where its libraries really lie."""
    if era.layout == "old":
        return f"{top(era)}/fwkacllib/lib64"
    if era.layout == "latest":
        return f"{trees.TOOLKIT}/{era.cann}/{arch}-linux/lib64"
    return f"{top(era)}/{arch}-linux/lib64"


def tree(era: Era, arch: str) -> dict[str, Content]:
    """The installed CANN."""
    files = _OF_LAYOUT[era.layout](era, arch)
    lib = library_folder(era, arch)
    for name in LIBRARIES:
        files[f"{lib}/{name}"] = library(
            "libascend_hal.so", "libstdc++.so.6", "libc.so.6", soname=name, machine=arch
        )
    chip = {"0xd801": "ascend910", "0xd802": "ascend910b"}[era.chip]
    if era.layout != "old":
        real = f"{trees.TOOLKIT}/{era.cann}" if era.layout == "latest" else top(era)
        files[f"{real}/{TBE}/kernel/{chip}"] = folder()
        files[f"{real}/{TBE}/op_tiling/lib/linux/{arch}"] = folder()
        for plugin in ("opskernel", "nnengine"):
            files[f"{lib}/plugin/{plugin}"] = folder()
        site = f"{real}/python/site-packages"
        requires = "".join(f"Requires-Dist: {name}\n" for name in NEEDS)
        files[f"{site}/te-0.4.0.dist-info/METADATA"] = (
            f"Metadata-Version: 2.1\nName: te\nVersion: 0.4.0\n{requires}"
        )
        files[f"{site}/te/__init__.py"] = files[f"{site}/hccl/__init__.py"] = ""
        files[f"{site}/hccl-0.1.0.dist-info/METADATA"] = "Metadata-Version: 2.1\nName: hccl\nVersion: 0.1.0\n"
        wheels = f"{real}/compiler/lib64"
        files[f"{wheels}/te-0.4.0-py3-none-any.whl"] = files[f"{wheels}/hccl-0.1.0-py3-none-any.whl"] = ""
    files["/etc/Ascend/ascend_cann_install.info"] = f"Toolkit_InstallPath={ASCEND}\n"
    return files


def _old(era: Era, arch: str) -> dict[str, Content]:
    files = trees.old(top(era))
    site = f"{top(era)}/fwkacllib/python/site-packages"
    files[f"{site}/te/__init__.py"] = files[f"{site}/hccl/__init__.py"] = ""
    files[f"{site}/hccl/sys_version.py"] = f"__sys_version__ = '{era.component}'\n"
    return files


def _latest(era: Era, arch: str) -> dict[str, Content]:
    files = trees.release(era.cann, era.component, arch=arch, kernels=era.component if era.kernels else "")
    files.update({name: content for name, content in trees.latest(era.cann).items()
                  if era.kernels or not name.endswith("/opp_kernel")})  # fmt: skip
    files[f"{trees.LATEST}/{arch}-linux"] = link(f"../{era.cann}/{arch}-linux")
    files[f"{trees.TOOLKIT}/{era.cann}/{arch}-linux/ascend_toolkit_install.info"] = (
        f"package_name=Ascend-cann-toolkit\nversion={era.cann}\ninnerversion=V100R001{era.branch}SPC001B231\n"
        f"compatible_version=[V100R001C15],[V100R001{era.branch}]\narch={arch}\nos=linux\n"
        f"path={trees.TOOLKIT}/{era.cann}/{arch}-linux\n"
    )
    wants = "required_driver_ascendhal_version=4.0.0\nrequired_driver_dvppkernels_version=1.1\n"
    runtime = f"{trees.TOOLKIT}/{era.cann}/runtime/version.info"
    numbers = files[runtime]
    assert isinstance(numbers, str)
    files[runtime] = numbers + wants
    return files


def _new(era: Era, arch: str) -> dict[str, Content]:
    files = trees.later(era.cann, arch=arch)
    files[f"{top(era)}/set_env.sh"] = f"export LD_LIBRARY_PATH={DRIVER}/lib64/driver:$LD_LIBRARY_PATH\n"
    files[f"{top(era)}/{arch}-linux/ascend_ops_install.info"] = (
        f"package_name=Ascend-cann-910b-ops\nversion={era.cann}\narch={arch}\npath={top(era)}\n"
    )
    return files


_OF_LAYOUT = {"old": _old, "latest": _latest, "new": _new}


def driver(era: Era, arch: str) -> dict[str, Content]:
    """Driver, firmware, and eight NPUs on the PCI bus."""
    named = era.firmware.rsplit(".", 2)[0]
    line = ".".join(era.driver.split(".")[:2])
    files: dict[str, Content] = {
        f"{DRIVER}/version.info": (
            f"Version={era.driver}\nascendhal_version={era.hal}\naicpu_version=1.0\ndvppkernels_version=1.1\n"
            f"tsfw_version=1.0\nInnerversion=V100R001{era.branch}SPC001B124\n"
            f"compatible_version=[V100R001C15],[V100R001{era.branch}]\n"
            f"compatible_version_fw=[1.0.0,{named}.99]\npackage_version={era.driver}\n"
        ),
        f"{ASCEND}/firmware/version.info": (
            f"Version={era.firmware}\nfirmware_version=1.0\npackage_version={era.driver}\n"
            f"compatible_version_drv=[{line},{line}.]\n"
        ),
        "/etc/ascend_install.info": (
            "UserName=HwHiAiUser\nUserGroup=HwHiAiUser\nFirmware_Install_Type=full\n"
            f"Firmware_Install_Path_Param={ASCEND}\nDriver_Install_Type=full\n"
            f"Driver_Install_Path_Param={ASCEND}\nDriver_Install_For_All=yes\nDriver_Install_Mode=normal\n"
            + ("Driver_Install_Status=complete\n" if era.driver > "24.1" else "")
        ),
        f"{DRIVER}/lib64/driver/libascend_hal.so": library(
            "libc_sec.so", "libc.so.6", soname="libascend_hal.so", machine=arch),
        f"{DRIVER}/lib64/common/libc_sec.so": library("libc.so.6", soname="libc_sec.so", machine=arch),
        "/sys/bus/pci/drivers/devdrv_device_driver": folder(),
    }  # fmt: skip
    for number in range(2):
        card = f"/sys/bus/pci/devices/0000:{number + 0x61:02x}:00.0"
        files[f"/dev/davinci{number}"] = device(0o660, GROUP)
        files[f"{card}/vendor"], files[f"{card}/device"] = "0x19e5\n", f"{era.chip}\n"
        files[f"{card}/class"] = "0x120000\n"
        files[f"{card}/driver"] = link("/sys/bus/pci/drivers/devdrv_device_driver")
    for name in ("davinci_manager", "devmm_svm", "hisi_hdc"):
        files[f"/dev/{name}"] = device(0o660, GROUP)
    return files


def variables(era: Era, arch: str, path: str) -> dict[str, str]:
    """What the release's own script exports in a shell with this PATH; before 5.1 a hand-made one."""
    at = top(era)
    drivers = f"{DRIVER}/lib64:{DRIVER}/lib64/common:{DRIVER}/lib64/driver"
    if era.layout == "old":
        site = f"{at}/fwkacllib/python/site-packages"
        return {
            "ASCEND_HOME": ASCEND,
            "ASCEND_OPP_PATH": f"{at}/opp/",
            "LD_LIBRARY_PATH": f"/usr/local/lib/:/usr/lib/:{at}/fwkacllib/lib64:{DRIVER}/lib64/common/"
            f":{DRIVER}/lib64/driver/:{ASCEND}/add-ons/",
            "PYTHONPATH": f"{site}/auto_tune.egg/auto_tune:{site}/schedule_search.egg:{site}:{site}/hccl"
            f":{at}/opp/op_impl/built-in/ai_core/tbe",
            "PATH": f"{path}:{at}/fwkacllib/ccec_compiler/bin",
        }
    plugins = f"{at}/lib64:{at}/lib64/plugin/opskernel:{at}/lib64/plugin/nnengine"
    tiling = f"{at}/{TBE}/op_tiling/lib/linux/{arch}"
    found = {
        "ASCEND_HOME_PATH": at,
        "ASCEND_OPP_PATH": f"{at}/opp",
        "ASCEND_AICPU_PATH": at,
        "TOOLCHAIN_HOME": f"{at}/toolkit",
        "PYTHONPATH": f"{at}/python/site-packages:{at}/{TBE}",
        "PATH": f"{at}/bin:{at}/compiler/ccec_compiler/bin:{path}",
        # Up to 8.3 the driver's folders are the user's business.
        "LD_LIBRARY_PATH": f"{plugins}:{drivers}",
    }
    if era.cann.startswith("6"):
        return found
    found["ASCEND_TOOLKIT_HOME"] = at
    if era.layout == "latest":
        aml = f"{at}/tools/aml/lib64:{at}/tools/aml/lib64/plugin"
        found["LD_LIBRARY_PATH"] = f"{aml}:{plugins}:{tiling}:{drivers}:"
        found["PATH"] = f"{at}/bin:{at}/compiler/ccec_compiler/bin:{at}/tools/ccec_compiler/bin:{path}"
        found["PYTHONPATH"] += ":" if era.cann == "8.0.0" else ""
        return found
    found["LD_LIBRARY_PATH"] = f"{plugins}:{tiling}:{drivers}"
    found["PATH"] = f"{at}/bin:{at}/tools/ccec_compiler/bin:{at}/tools/profiler/bin:{path}"
    found["CMAKE_PREFIX_PATH"] = f"{at}/toolkit/tools/tikicpulib/lib/cmake:{at}/lib64/cmake"
    return found
