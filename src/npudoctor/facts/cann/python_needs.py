"""The Python packages that CANN needs in the job's interpreter: who asks for them, how much it matters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Optional

from npudoctor.core.frozen import dataclass
from npudoctor.core.messages import _
from npudoctor.core.model import Severity
from npudoctor.facts.cann.installations import Install, installs_of
from npudoctor.facts.cann.python_packages import find_metadata, own_site
from npudoctor.facts.job.expected_accelerator import frameworks_on_cann
from npudoctor.host import Host
from npudoctor.host.python.interpreter import normalize_name
from npudoctor.host.python.requirements import read_requirements

if TYPE_CHECKING:
    from packaging.specifiers import SpecifierSet


@dataclass(frozen=True)
class CannRequirement:
    """One package that CANN needs: which versions, how much it matters, and who says so."""

    name: str
    specifier: SpecifierSet
    weight: Severity
    source: str

    @property
    def line(self) -> str:
        """The requirement as pip writes it: scipy>=1.5."""
        return f"{self.name}{self.specifier}"


def requirements_of_cann(host: Host, active: Install) -> list[CannRequirement]:
    """All packages that this CANN needs, by the metadata of `te` and by our table."""
    from packaging.specifiers import SpecifierSet

    # Reversed: of several rows for one package the first wins.
    rows = {row["name"]: row for row in reversed(host.knowledge.rows("cann_packages", "packages"))}
    # te's metadata: as the CANN in use ships it, else as the interpreter has it.
    site = own_site(host.files, active, "te")
    own = find_metadata(host.files, site, "te") if site else None
    te = own or next(iter(host.interpreter.distributions("te")), None)
    required = read_requirements(te, host.interpreter.layout()) if te is not None else {}
    vital = {name for name, row in rows.items() if row["start"]}
    source = _("metadata of {name}", name=te.folder if te else "te")
    needs = [
        CannRequirement(name, required[name], Severity.ERROR if name in vital else Severity.WARNING, source)
        for name in sorted(required)
    ]
    for name in sorted(rows):
        row = rows[name]
        # Where te's metadata lists requirements, our table only adds what CANN needs to start.
        if name not in required and (row["start"] or not required):
            weight = Severity.WARNING if row["start"] and not required else Severity.INFO
            needs.append(CannRequirement(name, SpecifierSet(row["specifier"]), weight, row["source"]))
    return needs


def weight_for_cann(host: Host, name: str) -> Optional[Severity]:
    """How severe it is for the CANN in use that this package is missing; None where it does not need the
    package.
    """
    installs = installs_of(host) if frameworks_on_cann(host) else []
    needs = requirements_of_cann(host, installs[0]) if installs else []
    return next((need.weight for need in needs if normalize_name(need.name) == normalize_name(name)), None)
