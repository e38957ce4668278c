"""Healthy machines whose Python is set up as people have it: environments, distributions, a user's folder."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable

from npudoctor.testing import Content, folder, link

from ..elves import library  # noqa: TID252
from .machines import HOME, Layout, Machine, healthy
from .python_env import GLIBCXX, LINUX, PREFIX, distribution, executable
from .system import USER

VENV, CONDA, SOURCES = f"{HOME}/venv", "/opt/conda/envs/train", f"{HOME}/src/mine"
# What belongs to the framework, and not to what it needs.
OURS = ("torch", "mindspore", "vllm", "triton")


def _lib(machine: Machine, prefix: str) -> str:
    return f"{prefix}/lib/python{machine.era.minor}"


def _layout(machine: Machine, prefix: str, base: str, *sites: str) -> Layout:
    lib = _lib(machine, base)
    zipped = f"{base}/lib/python{machine.era.minor.replace('.', '')}.zip"
    user = f"{HOME}/.local/lib/python{machine.era.minor}/site-packages"
    return Layout(prefix, base, user, (zipped, lib, f"{lib}/lib-dynload", *sites))


def _move(machine: Machine, old: str, new: str, names: tuple[str, ...] = ("",)) -> None:
    """Packages of one folder into another; `names`: how those begin that are moved."""
    for path in list(machine.files):
        below = path[len(old) + 1 :] if path.startswith(f"{old}/") else None
        if below is not None and below.startswith(names):
            machine.files[f"{new}/{below}"] = machine.files.pop(path)


def _program(machine: Machine, prefix: str, variable: str) -> None:
    machine.variables["PATH"] = f"{prefix}/bin:{machine.variables['PATH']}"
    machine.variables[variable] = prefix


def _in_venv(machine: Machine, system: bool) -> str:
    machine.files[f"{VENV}/pyvenv.cfg"] = (
        f"home = {PREFIX}/bin\ninclude-system-site-packages = {str(system).lower()}\n"
        f"version = {machine.era.python}\nexecutable = {PREFIX}/bin/python{machine.era.minor}\n"
    )
    machine.files[f"{VENV}/bin/python3"] = link(f"{PREFIX}/bin/python3")
    _program(machine, VENV, "VIRTUAL_ENV")
    return f"{_lib(machine, VENV)}/site-packages"


def _venv(machine: Machine) -> None:
    site = _in_venv(machine, system=False)
    _move(machine, machine.site, site)
    machine.layout = _layout(machine, VENV, PREFIX, site)


def _system_site(machine: Machine) -> None:
    """The framework in the environment, what it needs below it."""
    site = _in_venv(machine, system=True)
    _move(machine, machine.site, site, OURS)
    machine.layout = _layout(machine, VENV, PREFIX, site, machine.site)


def _conda(machine: Machine) -> None:
    """With the libraries that conda brings along."""
    _move(machine, PREFIX, CONDA)
    lib, era = f"{CONDA}/lib", machine.era
    program = library(
        f"libpython{era.minor}.so.1.0", "libc.so.6", interpreter=LINUX[machine.arch],
        rpath="$ORIGIN/../lib", machine=machine.arch,
    )  # fmt: skip
    machine.files[f"{CONDA}/bin/python{era.minor}"] = executable(program)
    for name, defines in {"libstdc++.so.6": (*GLIBCXX, "GLIBCXX_3.4.32"), "libgomp.so.1": ()}.items():
        machine.files[f"{lib}/{name}"] = library(
            "libc.so.6", soname=name, machine=machine.arch, defines=defines
        )
    machine.files[f"{CONDA}/conda-meta/history"] = ""
    machine.variables.update(CONDA_DEFAULT_ENV="train", CONDA_SHLVL="1")
    machine.variables["PATH"] = machine.variables["PATH"].replace(f"{PREFIX}/bin:", "")
    _program(machine, CONDA, "CONDA_PREFIX")
    machine.layout = _layout(machine, CONDA, CONDA, f"{_lib(machine, CONDA)}/site-packages")


def _editable(machine: Machine) -> None:
    """A project of the user's own, installed for development, of the new kind and of the old one."""
    machine.files[f"{machine.site}/__editable__.mine-0.1.pth"] = f"{SOURCES}\n"
    machine.files[f"{machine.site}/easy-install.pth"] = f"{SOURCES}\n"
    machine.files[f"{machine.site}/mine.egg-link"] = f"{SOURCES}\n."
    machine.files.update(distribution(machine.site, "mine", "0.1", "numpy"))
    machine.files[f"{SOURCES}/mine.egg-info/PKG-INFO"] = "Metadata-Version: 2.1\nName: mine\nVersion: 0.1\n"
    machine.files[f"{SOURCES}/mine/__init__.py"] = ""
    machine.files[f"{HOME}/src"] = machine.files[SOURCES] = folder(0o755, USER)
    machine.layout = _layout(machine, PREFIX, PREFIX, machine.site, SOURCES)


def _debian(machine: Machine) -> None:
    """The system's Python: packages of the distribution, and those that pip put below /usr/local."""
    local, shared = f"{_lib(machine, '/usr/local')}/dist-packages", "/usr/lib/python3/dist-packages"
    _move(machine, machine.site, local, OURS)
    _move(machine, machine.site, shared)
    _move(machine, f"{PREFIX}/lib", "/usr/lib")
    _move(machine, f"{PREFIX}/bin", "/usr/bin")
    machine.files[f"{_lib(machine, '/usr')}/EXTERNALLY-MANAGED"] = "[externally-managed]\n"
    machine.variables["PATH"] = machine.variables["PATH"].replace(f"{PREFIX}/bin:", "")
    machine.layout = _layout(machine, "/usr", "/usr", local, shared)


def _user_site(machine: Machine) -> None:
    """The framework by `pip install --user`."""
    machine.layout = _layout(machine, PREFIX, PREFIX, machine.site)
    _move(machine, machine.site, machine.layout.user, OURS)


SHAPES: dict[str, Callable[[Machine], None]] = {
    "venv": _venv,
    "venv, system's packages": _system_site,
    "conda": _conda,
    "editable": _editable,
    "Debian's Python": _debian,
    "user's packages": _user_site,
}


def pythons() -> list[Machine]:
    """Machines of one era that differ in their Python."""
    made = [vllm_as_published(arch) for arch in ("x86_64", "aarch64")]
    for arch in ("x86_64", "aarch64"):
        for word, change in SHAPES.items():
            for framework in ("torch", "mindspore"):
                machine = healthy("8.3.RC1", arch, framework)
                change(machine)
                machine.word = word
                made.append(machine)
    return made


def vllm_as_published(arch: str) -> Machine:
    """With what the wheels on PyPI require: vLLM another torch than vllm-ascend, and torch, on x86-64, a
    triton, over which triton-ascend was installed."""
    machine = healthy("8.5.0", arch, "vllm")
    machine.word = "as published"
    pins = ("torch==2.9.0", "torch-npu==2.9.0", "torchvision==0.24.0", "torchaudio==2.9.0")
    machine.uninstall("vllm-ascend")
    machine.install("vllm-ascend", "0.15.0rc1", *pins, "triton-ascend==3.2.0", "numpy<2.0.0", "pandas-stubs")
    machine.install("pandas-stubs", "2.3.2")
    machine.install("vllm", "0.15.0", "torch==2.9.1", "torchaudio==2.9.1", "torchvision==0.24.1", "numpy")
    machine.install("torchvision", "0.24.0", "numpy", "torch==2.9.0")
    machine.install("torchaudio", "2.9.0", "torch==2.9.0")
    on = "platform_system == 'Linux' and platform_machine == 'x86_64'"
    machine.uninstall("torch")
    machine.install("torch", "2.9.0", f"triton==3.5.0; {on}", "typing-extensions", "sympy")
    machine.install("torch-npu", "2.9.0", "torch==2.9.0+cpu" if arch == "x86_64" else "torch==2.9.0")
    if arch == "x86_64":
        machine.install("triton", "3.5.0")
        own, other = "# of triton-ascend\n", "# of triton\n"
        machine.files[f"{machine.site}/triton/runtime.py"] = own
        for name, content in {"triton-3.5.0": other, "triton_ascend-3.2.0": own}.items():
            machine.files[f"{machine.site}/{name}.dist-info/RECORD"] = _recorded(content)
    return machine


def _recorded(content: str) -> Content:
    digest = base64.urlsafe_b64encode(hashlib.sha256(content.encode()).digest()).decode().rstrip("=")
    return f"triton/runtime.py,sha256={digest},{len(content)}\n"
