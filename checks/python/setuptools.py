"""Is pkg_resources there for what still imports it?"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Optional, Union

from npudoctor import WARNING, Action, Facts, Finding, Fix, Host, Scope, Skip, _, check
from npudoctor.checks.python._pip import install_accepted
from npudoctor.core.frozen import dataclass
from npudoctor.facts.job.working_directory import module_file
from npudoctor.host.python.interpreter import Distribution

# The file of each distribution that imports pkg_resources in old releases.
READERS = {"tensorboard": "tensorboard/default.py", "torch": "torch/utils/cpp_extension.py"}
HEAD = 1 << 16  # imports stand at the top
# setuptools v82.0.0 removed pkg_resources (setuptools, history).
LAST_WITH = "<82"


@dataclass(frozen=True)
class PkgResourcesUser:
    """An installed distribution that imports pkg_resources, and where it says so."""

    distribution: Distribution
    path: str
    line: str


@check(
    "setuptools",
    scope=Scope.JOB,
    tags={"pytorch"},
    needs=("tensorboard", "torch"),
    codes={"setuptools.pkg-resources-gone": WARNING},
)
def setuptools(host: Host) -> Iterator[Union[Finding, Facts]]:
    """pkg_resources is installed if a package imports it.

    ## What it does

    Reads the imports of the installed tensorboard (`tensorboard/default.py`) and torch
    (`torch/utils/cpp_extension.py`). If they import pkg_resources, it must be in a folder of the examined
    interpreter, whatever provides it: setuptools up to 81, or a package of the distribution.

    - `pkg-resources-gone`: no folder of the interpreter contains pkg_resources, as with setuptools 82 and
      later.

    ## Why it matters

    setuptools 82 no longer contains pkg_resources, and virtual environments of Python 3.12 and later contain
    no setuptools at all. TensorBoard up to 2.20 then does not start, and an older PyTorch does not build
    operators: `No module named 'pkg_resources'`. The training itself may still run, so this is a warning.

    ## Fix safety

    Shown only: another package may want a newer setuptools. TensorBoard 2.21 needs no pkg_resources.

    ## References

    - setuptools, history: v82.0.0 removes pkg_resources.
    - tensorflow/tensorboard, issue 7003.
    """
    # By the file of READERS: the metadata may spell the name of the distribution differently.
    installed = {
        file: distribution
        for name, file in READERS.items()
        for distribution in host.interpreter.distributions(name)[:1]
    }
    if not installed:
        raise Skip(_("neither tensorboard nor torch is installed in {python}", python=host.interpreter.label))
    version = host.interpreter.version_of("setuptools")
    search_path = [folder for folder in host.interpreter.layout().search_path if folder.startswith("/")]
    is_present = any(module_file(host.files, folder, "pkg_resources") for folder in search_path)
    yield Facts({"setuptools": version, "pkg_resources": is_present})
    readers = []
    for file, copy in installed.items():
        path = f"{copy.folder.rsplit('/', 1)[0]}/{file}"
        entry = host.files.stat(path)
        text = host.files.text(path, HEAD) if entry is not None and entry.is_file else None
        line = find_import(text or "")
        if line:
            readers.append(PkgResourcesUser(copy, path, line))
    if not readers:
        raise Skip(_("nothing in {python} imports pkg_resources", python=host.interpreter.label))
    for reader in readers:
        if not is_present:
            text = _(
                "{name} {version} imports pkg_resources, which setuptools {setuptools} no longer contains"
            )
            if version is None:
                text = _("{name} {version} imports pkg_resources, but setuptools is not installed")
            words = {
                "name": reader.distribution.name,
                "version": reader.distribution.version,
                "setuptools": version,
            }
            # Not at the top of the file: `packaging.specifiers` takes 20 to 40 ms to import, and most runs
            # compare no version here.
            from packaging.specifiers import SpecifierSet

            title = _("install the last setuptools that contains pkg_resources")
            fix: Fix = install_accepted(
                host, "setuptools", title, [(reader.distribution, SpecifierSet(LAST_WITH))]
            )
            yield Finding(
                "setuptools.pkg-resources-gone",
                text.format(**words),
                evidence=(f"{reader.path}: {reader.line}",),
                action=Action.CONFIG,
                fix=fix,
            )


def find_import(source: str) -> Optional[str]:
    """Return the line that imports pkg_resources at the top level of a module; None if there is none."""
    match = re.search(r"^(?:import pkg_resources\b|from pkg_resources\b).*", source, re.MULTILINE)
    return match[0].strip() if match else None
