"""The Python of a machine: its program and libraries, and an environment with torch or with MindSpore."""

from __future__ import annotations

from npudoctor.facts.python.standard_library import EXTENSIONS, MODULES, NEEDED_BY, OPTIONAL, PACKAGES
from npudoctor.testing import Content, link

from ..elves import cache, library  # noqa: TID252
from .eras import Era

PREFIX = "/usr/local/python3"
SYSTEM = {"x86_64": "/usr/lib/x86_64-linux-gnu", "aarch64": "/usr/lib/aarch64-linux-gnu"}
LINUX = {"x86_64": "/lib64/ld-linux-x86-64.so.2", "aarch64": "/lib/ld-linux-aarch64.so.1"}
GLIBC = ("GLIBC_2.2.5", "GLIBC_2.17", "GLIBC_2.28", "GLIBC_2.35")
GLIBCXX = ("GLIBCXX_3.4", "GLIBCXX_3.4.21", "GLIBCXX_3.4.29", "CXXABI_1.3", "CXXABI_1.3.13")
NNAL = "/usr/local/Ascend/nnal/atb"
# What both frameworks and CANN want beside them; versions of their time do not matter to any check.
COMMON = {
    "decorator": "5.1.1", "sympy": "1.13.3", "cffi": "1.17.1", "protobuf": "4.25.3", "attrs": "24.2.0",
    "psutil": "6.0.0", "PyYAML": "6.0.2", "requests": "2.32.3", "absl-py": "2.1.0", "setuptools": "69.5.1",
    "cloudpickle": "3.0.0", "ml-dtypes": "0.5.0", "tornado": "6.4.1", "packaging": "24.1", "pillow": "10.4.0",
    "typing_extensions": "4.12.2", "filelock": "3.16.1", "networkx": "3.3", "jinja2": "3.1.4",
    "fsspec": "2024.9.0",
    "pip": "24.2", "asttokens": "2.4.1", "astunparse": "1.6.3", "safetensors": "0.4.5", "dill": "0.3.9",
}  # fmt: skip


def site(era: Era) -> str:
    """Its site-packages."""
    return f"{PREFIX}/lib/python{era.minor}/site-packages"


def distribution(folder: str, name: str, version: str, *requires: str) -> dict[str, Content]:
    """The metadata of a wheel, as pip leaves it."""
    info = f"{folder}/{name.replace('-', '_')}-{version}.dist-info"
    lines = [
        f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}",
        *(f"Requires-Dist: {one}" for one in requires),
    ]
    return {f"{info}/METADATA": "\n".join(lines) + "\n", f"{info}/INSTALLER": "pip\n", f"{info}/RECORD": ""}


def program(era: Era, arch: str) -> dict[str, Content]:
    """The interpreter and the system's libraries, with the loader's cache."""
    lib = SYSTEM[arch]
    soname = f"libpython{era.minor}{'m' if era.minor == '3.7' else ''}.so.1.0"
    names = {
        "libc.so.6": GLIBC,
        "libm.so.6": GLIBC,
        "libstdc++.so.6": GLIBCXX,
        "libgomp.so.1": (),
        "libgcc_s.so.1": (),
    }
    files: dict[str, Content] = {
        f"{lib}/{name}": library(
            *(() if name == "libc.so.6" else ("libc.so.6",)), soname=name, machine=arch, defines=defines
        )
        for name, defines in names.items()
    }
    files[f"{lib}/libpthread.so.0"] = library("libc.so.6", soname="libpthread.so.0", machine=arch)
    files[LINUX[arch]] = library(soname=LINUX[arch].rpartition("/")[2], machine=arch)
    files["/etc/ld.so.cache"] = cache({name: f"{lib}/{name}" for name in (*names, "libpthread.so.0")}, arch)
    files[f"{PREFIX}/bin/python{era.minor}"] = executable(
        library(soname, "libc.so.6", interpreter=LINUX[arch], rpath=f"{PREFIX}/lib", machine=arch)
    )
    files["/usr/bin/g++"] = executable(library("libc.so.6", interpreter=LINUX[arch], machine=arch))
    files[f"{PREFIX}/bin/python3"] = link(f"python{era.minor}")
    files[f"{PREFIX}/lib/{soname}"] = library("libc.so.6", soname=soname, machine=arch)
    files.update(standard_library(era, arch))
    return files  # fmt: skip


def standard_library(era: Era, arch: str) -> dict[str, Content]:
    """What every release has of Python's own modules, of those that frameworks import."""
    lib = f"{PREFIX}/lib/python{era.minor}"
    files: dict[str, Content] = {f"{lib}/{name}.py": "# of Python\n" for name in ("os", *MODULES)}
    files.update({f"{lib}/{name}.py": "# of Python\n" for names in NEEDED_BY.values() for name in names})
    files.update({f"{lib}/{name}/__init__.py": "" for name in PACKAGES})
    compiled = library("libc.so.6", wants={"libc.so.6": ["GLIBC_2.17"]}, machine=arch)
    names = (f"{name}.{extension(era, arch)}" for name in (*EXTENSIONS, *OPTIONAL))
    files.update({f"{lib}/lib-dynload/{name}": compiled for name in names})
    return files


def packages(era: Era, arch: str) -> dict[str, Content]:
    """What is installed beside a framework."""
    at = site(era)
    files: dict[str, Content] = {}
    for name, version in {**COMMON, "numpy": era.numpy, "scipy": era.scipy}.items():
        requires = ("numpy<2.5,>=1.16.5",) if name == "scipy" else ()
        files.update(distribution(at, name, version, *requires))
    core = "_core" if era.numpy.startswith("2") else "core"
    ending = extension(era, arch)
    wants = {"libc.so.6": ["GLIBC_2.17"]}
    files[f"{at}/numpy/__init__.py"] = files[f"{at}/scipy/__init__.py"] = ""
    files[f"{at}/numpy/{core}/_multiarray_umath.{ending}"] = library("libc.so.6", wants=wants, machine=arch)
    files[f"{at}/scipy/linalg/_fblas.{ending}"] = library("libc.so.6", wants=wants, machine=arch)
    files[f"{at}/pkg_resources/__init__.py"] = files[f"{at}/setuptools/__init__.py"] = ""
    return files


def extension(era: Era, arch: str) -> str:
    """The ending of extension modules."""
    return f"cpython-{era.tag}-{arch}-linux-gnu.so"


def _framework(
    *needed: str, arch: str, rpath: str = "$ORIGIN/lib", soname: str = "", exports: tuple[str, ...] = ()
) -> bytes:
    wants = {"libc.so.6": ["GLIBC_2.17"], "libstdc++.so.6": ["GLIBCXX_3.4.21"]}
    return library(*needed, "libstdc++.so.6", "libc.so.6", soname=soname or None, rpath=rpath, wants=wants,
                   machine=arch, exports=exports)  # fmt: skip


def torch(era: Era, arch: str) -> dict[str, Content]:
    """torch, torch_npu and torchvision."""
    at, (mine, npu) = site(era), era.torch
    ending = extension(era, arch)
    new = not era.cann.startswith(("5", "6"))
    requires = ["typing-extensions", *(("filelock", "sympy", "networkx", "jinja2", "fsspec") if new else ())]
    files = distribution(at, "torch", mine, *requires)
    files.update(
        distribution(
            at, "torch-npu", npu, *((f"torch=={mine}",) if mine >= "2.5" or mine == "2.12.0" else ())
        )
    )
    files[f"{at}/torch_npu-{npu}.dist-info/entry_points.txt"] = (
        "[torch.backends]\ntorch_npu = torch_npu:_autoload\n"
    )
    files[f"{at}/torch/__init__.py"] = ""
    files[f"{at}/torch_npu/__init__.py"] = "def _autoload(): ...\n"
    files[f"{at}/torch/_C.{ending}"] = _framework("libtorch_python.so", arch=arch)
    files[f"{at}/torch/lib/libtorch_python.so"] = _framework(
        "libtorch.so", "libc10.so", arch=arch, rpath="$ORIGIN"
    )
    files[f"{at}/torch/lib/libtorch.so"] = _framework(
        "libc10.so", arch=arch, rpath="$ORIGIN", soname="libtorch.so"
    )
    strings = ("_ZN3c105ErrorC1ENSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE",)
    files[f"{at}/torch/lib/libc10.so"] = _framework(
        "libgomp.so.1", arch=arch, soname="libc10.so", exports=strings
    )
    files[f"{at}/torch_npu/_C.{ending}"] = _framework(
        "libtorch_npu.so", "libtorch_python.so", arch=arch, rpath="$ORIGIN/lib:$ORIGIN/../torch/lib"
    )
    files[f"{at}/torch_npu/lib/libtorch_npu.so"] = _framework(
        "libascendcl.so",
        "libhccl.so",
        "libge_runner.so",
        "libtorch.so",
        arch=arch,
        rpath="$ORIGIN:$ORIGIN/../../torch/lib",
    )
    return files  # fmt: skip


def mindspore(era: Era, arch: str) -> dict[str, Content]:
    """MindSpore for Ascend; up to 1.10 a distribution of its own name."""
    at, version = site(era), era.mindspore
    name = "mindspore-ascend" if version.startswith("1.") else "mindspore"
    limit = "" if version == "2.10.0" else "<2.0.0"
    requires = (
        "protobuf>=3.13.0",
        "asttokens>=2.0.4",
        "pillow>=6.2.0",
        "scipy>=1.5.4",
        "packaging>=20.0",
        "psutil>=5.6.1",
    )
    files = distribution(at, name, version, f"numpy>=1.17.0{',' if limit else ''}{limit}", *requires)
    own = ", ".join(f'"{number}"' for number in era.accepts)
    checks = "mindspore/run_check/_check_version.py" if version > "1.5" else "mindspore/_check_version.py"
    files[f"{at}/mindspore/__init__.py"] = ""
    files[f"{at}/{checks}"] = (
        "class AscendEnvChecker(EnvChecker):\n    def __init__(self, library_path):\n"
        f"        self.version = [{own}]\n"
    )
    lib = f"{at}/mindspore/lib"
    files[f"{at}/mindspore/_c_expression.{extension(era, arch)}"] = _framework(
        "libmindspore_backend.so", arch=arch
    )
    files[f"{lib}/libmindspore_backend.so"] = _framework(
        "libgomp.so.1", arch=arch, soname="libmindspore_backend.so"
    )
    files[f"{lib}/plugin/libmindspore_ascend.so.2"] = _framework(
        "libascendcl.so", "libhccl.so", "libge_runner.so", arch=arch, rpath="$ORIGIN:$ORIGIN/.."
    )
    return files  # fmt: skip


def vllm(era: Era, arch: str) -> dict[str, Content]:
    """vLLM and vllm-ascend beside torch_npu, as release 0.15.0rc1 wants them, with ATB of NNAL."""
    at, release = site(era), "0.15.0rc1"
    files = torch(era, arch)
    wanted = (f"torch=={era.torch[0]}", f"torch-npu=={era.torch[1]}", "triton-ascend==3.2.0", "numpy<2.0.0")
    files.update(distribution(at, "vllm-ascend", release, *wanted))
    files.update(distribution(at, "vllm", "0.15.0", "numpy"))
    files.update(distribution(at, "triton-ascend", "3.2.0"))
    files[f"{at}/vllm/__init__.py"] = files[f"{at}/vllm_ascend/__init__.py"] = files[
        f"{at}/triton/__init__.py"
    ] = ""
    symbol = "_ZN3atb13CreateContextEPPNS_7ContextE"
    files[f"{at}/torch_npu/lib/libop_plugin_atb.so"] = library(
        "libtorch.so", "libatb.so", imports=[symbol], rpath="$ORIGIN:$ORIGIN/../../torch/lib", machine=arch
    )
    for abi in (0, 1):
        files[f"{NNAL}/{era.cann}/atb/cxx_abi_{abi}/lib/libatb.so"] = library(
            "libc.so.6", soname="libatb.so", exports=[symbol], machine=arch
        )
    files[f"{NNAL}/{era.cann}/version.info"] = f"    Ascend-cann-atb : {era.cann}\n    Platform : {arch}\n"
    files[f"{NNAL}/latest"] = link(era.cann)
    files[f"{NNAL}/set_env.sh"] = "export ATB_HOME_PATH=\n"
    return files  # fmt: skip


def atb_variables(path: str) -> dict[str, str]:
    """What ATB's script adds to a shell with this LD_LIBRARY_PATH."""
    home = f"{NNAL}/latest/atb/cxx_abi_1"
    return {
        "ATB_HOME_PATH": home,
        "LD_LIBRARY_PATH": f"{home}/lib:{home}/examples:{home}/tests/atbopstest:{path}",
    }


def paddle(era: Era, arch: str) -> dict[str, Content]:
    """Paddle for CPUs and its plug-in for NPUs."""
    at = site(era)
    files = distribution(at, "paddlepaddle", "3.0.0", "numpy>=1.13")
    files.update(distribution(at, "paddle-custom-npu", "3.0.0"))
    files[f"{at}/paddle/__init__.py"] = files[f"{at}/paddle_custom_device/__init__.py"] = ""
    files[f"{at}/paddle/version/__init__.py"] = "with_mkl = 'OFF'\n"
    files[f"{at}/paddle/base/libpaddle.so"] = _framework("libgomp.so.1", arch=arch)
    files[f"{at}/paddle_custom_device/libpaddle-custom-npu.so"] = _framework(
        "libascendcl.so", "libhccl.so", arch=arch
    )
    return files


def executable(content: bytes) -> Content:
    from npudoctor.testing import Node

    return Node(content, permissions=0o755)
