"""Faults of the rows that a site adds to our tables, and pairs that such rows forbid."""

from __future__ import annotations

from tests.scenarios.fault import Where, anywhere, both, fault, kind
from tests.scenarios.machines import Machine

ROW = '[[{section}]]\n{release} = "{version}"\ncann = "{cann}"\nsource = "ours"\nas_of = "2026-12"\n'
PLUGIN = 'plugin = "paddle-custom-npu"\n'
TORCH, MINDSPORE, VLLM, PADDLE = kind("torch", "vllm"), kind("mindspore"), kind("vllm"), kind("paddle")


def _told(machine: Machine) -> bool:
    """MindSpore from 2.0 on; before, its distribution for NPUs has another name."""
    return machine.framework == "mindspore" and not machine.era.mindspore.startswith("1.")


def _broken(table: str, section: str, code: str, where: Where = anywhere) -> None:
    """A row that lacks everything."""

    def breaks(machine: Machine) -> None:
        machine.rows = f"[[{table}.{section}]]\n"

    fault(f"a row of {table} without a word", code, where)(breaks)


_broken("torch_npu", "cann", "torch-npu.site-table", TORCH)
_broken("mindspore", "cann", "mindspore-cann.site-table", MINDSPORE)
_broken("vllm_ascend", "releases", "vllm-ascend.site-table", VLLM)
_broken("paddle_npu", "cann", "paddle-npu.site-table", PADDLE)
_broken("cann_python", "python", "interpreter.site-table")
_broken("cann_packages", "numpy", "cann-python-deps.site-table")
_broken("cann_driver", "driver", "cann-driver.site-table")


@fault("a file of the site is no TOML", "torch-npu.site-table", TORCH)
def _(machine: Machine) -> None:
    machine.rows = "[[torch_npu.cann"


@fault("a SciPy of the site that is no range", "scipy-version.site-table", MINDSPORE)
def _(machine: Machine) -> None:
    machine.uninstall("mindspore")
    machine.uninstall("mindspore-ascend")
    machine.install("mindspore-gpu", "1.10.0", "numpy>=1.17.0", "scipy>=1.5.2")
    machine.rows = (
        '[[mindspore.scipy]]\nversions = "~ 1"\nscipy = ">=2"\nsource = "ours"\nas_of = "2026-12"\n'
    )


@fault("a package of the site whose range cannot be read", "cann-python-deps.site-table")
def _(machine: Machine) -> None:
    machine.rows = (
        '[[cann_packages.packages]]\nname = "attrs"\nspecifier = "newer than 20"\nstart = true\n'
        'source = "ours"\nas_of = "2026-12"\n'
    )


def _forbidden(code: str, section: str, name: str, where: Where) -> None:
    """A row of the site that forbids what is installed."""

    def breaks(machine: Machine) -> None:
        start = f"{machine.site}/{name}-"
        folder = next(path for path in machine.files if path.startswith(start))
        version = folder[len(start) :].partition(".dist-info")[0]
        release = "release" if name.startswith("paddle") else name
        words = {"section": section, "release": release, "version": version, "cann": machine.era.cann}
        machine.rows = f"{ROW.format(**words)}{PLUGIN if release == 'release' else ''}compatible = false\n"

    fault(f"a row of the site forbids this {name}", code, where)(breaks)


_forbidden("torch-npu.cann-incompatible", "torch_npu.cann", "torch_npu", kind("torch"))
_forbidden("mindspore-cann.cann-incompatible", "mindspore.cann", "mindspore", _told)
_forbidden("vllm-ascend.cann-incompatible", "vllm_ascend.releases", "vllm_ascend", VLLM)
_forbidden("paddle-npu.cann-incompatible", "paddle_npu.cann", "paddle_custom_npu", PADDLE)


@fault("a plug-in of Paddle that the site knows for another CANN", "paddle-npu.cann-not-listed", both(PADDLE))
def _(machine: Machine) -> None:
    machine.rows = ROW.format(section="paddle_npu.cann", release="release", version="3.0.0", cann="8.5.0")
    machine.rows += PLUGIN
