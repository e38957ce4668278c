"""What must be on the machine for a check to apply, answered by a few shared questions without loading it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Callable, Optional

from npudoctor.core.errors import CannotTell, NotRunning
from npudoctor.core.messages import _
from npudoctor.facts.cann.installations import ASCEND, ENDINGS, installs_of
from npudoctor.facts.job.expected_accelerator import gpu_here, npu_expected, npu_here
from npudoctor.host.host import Host

# The folders that bring a framework's extension modules: they count without metadata too.
FRAMEWORKS = ("torch", "torch_npu", "mindspore", "paddle", "paddle_custom_device")
# What an environment has in which nobody has installed anything yet.
_OF_AN_EMPTY_ONE = {
    *("pip", "setuptools", "wheel", "pkg_resources", "_distutils_hack", "distutils-precedence.pth"),
    *("_virtualenv.py", "_virtualenv.pth", "__pycache__", "README.txt", "README"),
}
# Of wheels, of old installations, of `setup.py develop`, of eggs.
_METADATA = (".dist-info", ".egg-info", ".egg-link", ".egg")


def _needs_cann(host: Host) -> bool:
    """Return whether CANN is expected, named by a variable, or installed. This and the next three are values
    of THINGS.
    """
    if npu_expected(host):
        return True
    if host.options.root is None and any(host.variables.get(name) for name in ENDINGS):
        return True
    return bool(installs_of(host))


def _has_driver(host: Host) -> bool:
    """Return whether there are traces of a driver."""
    # The installer's record, the default folder, the driver's management node: any of them.
    places = ("/etc/ascend_install.info", ASCEND, "/dev/davinci_manager")
    return any(host.files.lstat(path) for path in places)


def _has_framework(host: Host) -> bool:
    """Return whether a framework is installed for this interpreter, or something was left of one: by a
    stopped pip, which renames what it replaces to ~NAME, or a link to sources; or the site names its own.
    """
    if any(table == "frameworks" for table, _section in host.knowledge.site_rows()):
        return True
    folders = [folder for folder in host.interpreter.layout().search_path if folder.startswith("/")]
    names = (name for folder in folders for name in host.files.names(folder))
    if any(name in FRAMEWORKS or name.startswith("~") or name.endswith(".egg-link") for name in names):
        return True
    host.interpreter.require_certain_absence(FRAMEWORKS[0])
    return False


def _has_packages(host: Host) -> bool:
    """Return whether anything at all was installed for this interpreter, or was left behind by pip."""
    for folder in host.interpreter.layout().search_path:
        names = host.files.names(folder) if folder.startswith("/") else ()
        of_packages = folder.endswith("-packages")
        for name in names:
            distribution = name.endswith(_METADATA)
            plain = name.partition("-")[0] if distribution else name
            if (of_packages or distribution) and plain not in _OF_AN_EMPTY_ONE:
                return True
    host.interpreter.require_certain_absence(FRAMEWORKS[0])
    return False


# What a need may name besides a variable ("$NAME", "$PREFIX*") and an installed distribution.
THINGS: dict[str, Callable[[Host], bool]] = {
    "cann": _needs_cann,
    "driver": _has_driver,
    "npu": npu_here,
    "gpu": gpu_here,
    "framework": _has_framework,
    "packages": _has_packages,
}
MANY = 5  # more packages are not listed in a reason: any framework would do
_OF_THE_INTERPRETER = ("framework", "packages")


def needs_interpreter(needs: Sequence[str]) -> bool:
    """Return whether the interpreter must be asked, which starts a process."""
    return any(need in _OF_THE_INTERPRETER or not (need in THINGS or need.startswith("$")) for need in needs)


def why_not_applicable(needs: Sequence[str], host: Host) -> Optional[str]:
    """Why a check cannot apply: none of its needs is here. None when one is, or when that is unknown.

    When it cannot be determined the check runs: its own message says best what it could not see.
    """
    if not needs:
        return None
    try:
        # The variables cost nothing, and what the interpreter must be asked for comes last.
        for need in sorted(needs, key=lambda need: (not need.startswith("$")) + needs_interpreter((need,))):
            if need.startswith("$"):
                name = need[1:]
                if name.endswith("*"):
                    here = any(variable.startswith(name[:-1]) for variable in host.variables)
                else:
                    here = name in host.variables
            elif need in THINGS:
                # Several checks need the same thing.
                here = host.once(f"need {need}", partial(THINGS[need], host))
            else:
                here = bool(host.interpreter.distributions(need))
            if here:
                return None
    # Unknown: the check runs, see above.
    except (CannotTell, NotRunning):
        return None
    texts = {
        "cann": _("CANN is not installed on this machine"),
        "driver": _("no Ascend driver is installed on this machine"),
        "npu": _("this node has no NPU, and none is expected"),
        "gpu": _("this node has no GPU, and none is expected"),
    }
    reasons = [texts[need] for need in needs if need in texts]
    packages = [need for need in needs if not (need in THINGS or need.startswith("$"))]
    if {"framework", "packages"} & {*needs} or len(packages) > MANY:
        reasons.append(_("no framework is installed in {python}", python=host.interpreter.label))
    elif packages:
        reasons.append(
            _("not installed in {python}: {names}", python=host.interpreter.label, names=", ".join(packages))
        )
    if any(need.startswith("$") for need in needs):
        reasons.append(_("none of the variables of this check is set"))
    return _("; ").join(reasons)
