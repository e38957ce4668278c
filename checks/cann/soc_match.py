"""Are the installed kernels of CANN for the chip that is here?"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Union

from npudoctor import INFO, WARNING, Action, Facts, Finding, Host, Scope, Skip, Unknown, _, check
from npudoctor.core.cann_version import is_at_least
from npudoctor.core.lazy import pattern
from npudoctor.facts.cann.installations import Install, install_in_use
from npudoctor.host import CannotTell
from npudoctor.host.devices.cann_info import parse_settings, record_folders
from npudoctor.host.fs.files import Files

# In 8.1.RC1 a folder for each chip is there, such as ascend910b, next to config/ with the same names.
KERNELS = "opp/built-in/op_impl/ai_core/tbe/kernel"
# What the chips of PCI ids are called there; the ids of those in DOCUMENTED are documented, others inferred.
CHIPS = {
    "Ascend 310": "ascend310",
    "Ascend 310P": "ascend310p",
    "Ascend 910A": "ascend910",
    "Ascend 910B": "ascend910b",
    "Ascend 910_93": "ascend910_93",
}
DOCUMENTED = ("Ascend 910A", "Ascend 910B")
# The packages of 8.5 and later are called by the product in places.
PRODUCTS = {"ascenda2": "ascend910b", "ascenda3": "ascend910_93", "ascend910": "ascend910"}

# Folder names of chips; others, such as config, are none.
_CHIP = pattern(r"ascend\d\w*\Z")
# The install records of 8.5 and later, such as ascend_910b_ops_install.info.
_RECORD = pattern(r"ascend_\w*ops_install\.info\Z")
# package_name in such a record: Ascend-cann-910b-ops.
_PACKAGE = pattern(r"Ascend-cann-([\w-]+?)-ops\Z", re.IGNORECASE)


@check(
    "soc-match",
    scope=Scope.NODE,
    tags={"ascend"},
    needs=("npu",),
    codes={"soc-match.other-chip": WARNING, "soc-match.perhaps-other-chip": INFO},
)
def soc_match(host: Host) -> Iterator[Union[Finding, Facts]]:
    """CANN's installed kernels match this machine's chip.

    ## What it does

    Compares the NPUs on the PCI bus with the chips for which kernels are installed. The chips are read from
    folders such as `opp/built-in/op_impl/ai_core/tbe/kernel/ascend910b` and, from CANN 8.5 on, from the name
    of the ops package (`Ascend-cann-910b-ops`). Where no kernels are installed at all, `cann-install` says
    so.

    - `soc-match.other-chip`: an NPU of this machine has a chip for which no kernels are installed.
    - `soc-match.perhaps-other-chip`: the same, for a chip whose PCI id is not documented.

    ## Why it matters

    The kernels package and most container images are for one chip. With kernels for another chip, the first
    operator fails at run time, and the message names the operator, not the package.

    ## References

    - The installed tree of CANN 8.1.RC1; the packages of CANN's container images.
    - PCI ids: npu-smi of 910A, PaddlePaddle for 910B; the others are inferred.
    """
    models = host.npus.models
    if not models:
        if host.npus.is_usable:
            raise Unknown(_("could not determine the NPU model from the PCI bus"), advisory=True)
        raise Skip(_("no NPU is on the PCI bus"))
    install = install_in_use(host)
    if install is None:
        raise Skip(_("CANN is not installed on this machine"))
    chips = _kernel_chips(host.files, install)
    yield Facts({"models": list(models), "kernels": chips, "install": install.path})
    if not chips:
        raise Skip(_("could not determine which chip the kernels of {cann} are for", cann=install.label))
    unknown_models = [model for model in models if model not in CHIPS]
    for model in models:
        if model in CHIPS and CHIPS[model] not in chips:
            # [6:] drops "ascend": installers are called Ascend-cann-kernels-910b_8.1.RC1_linux-aarch64.run,
            # and from 8.5 on Ascend-cann-910b-ops_8.5.0_linux-aarch64.run.
            chip, version, arch = CHIPS[model][6:], install.version or "<version>", install.arch or "<arch>"
            package = f"Ascend-cann-kernels-{chip}_{version}_linux-{arch}.run"
            if is_at_least(install.version, "8.5"):
                package = f"Ascend-cann-{chip}-ops_{version}_linux-{arch}.run"
            yield Finding(
                "soc-match.other-chip" if model in DOCUMENTED else "soc-match.perhaps-other-chip",
                _(
                    "this machine has {model}, but the kernels of {cann} are for {chips}: install {package}",
                    model=model,
                    cann=install.label,
                    chips=", ".join(chips),
                    package=package,
                ),
                evidence=(f"{install.path}/{KERNELS}: {', '.join(chips)}",),
                action=Action.CONFIG,
            )
    if unknown_models:
        raise Unknown(
            _(
                "npudoctor does not know which kernels package {models} needs",
                models=", ".join(unknown_models),
            ),
            advisory=True,
        )


def _kernel_chips(files: Files, install: Install) -> list[str]:
    """Return the chips for which kernels are installed, by the names of their folders."""
    names = {name for folder in ("", "/config") for name in files.names(f"{install.path}/{KERNELS}{folder}")}
    chips = {name for name in names if _CHIP.match(name)}
    for place in record_folders(files, (install.path, install.real)):
        for name in files.names(place):
            if _RECORD.match(name):
                chips |= _read_package(files, f"{place}/{name}")
    return sorted(chips)


def _read_package(files: Files, path: str) -> set[str]:
    """Return the chip in the name of an ops package; empty if the record names none."""
    try:
        record = parse_settings(files.text(path, 1 << 16) or "")
    except CannotTell:
        # One unreadable record hides the chip of one package only; if no chip is found, the check is skipped.
        return set()
    match = _PACKAGE.match(record.get("package_name", ""))
    if match is None:
        return set()
    chip = "ascend" + match[1].lower().replace("-", "_")
    return {PRODUCTS.get(chip, chip)}
