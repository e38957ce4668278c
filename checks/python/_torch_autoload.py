"""Whether `import torch` fails because it loads torch_npu, which does not find CANN."""

from __future__ import annotations

from typing import Optional

from npudoctor import Action, Export, Finding, Fix, Host, Risk, _
from npudoctor.checks.python._stack import at, cann_in_use
from npudoctor.facts.job import process as job
from npudoctor.facts.job.expected_accelerator import gpu_here, npu_expected
from npudoctor.host.python.interpreter import Distribution
from npudoctor.host.python.requirements import version_number

SWITCH = "TORCH_DEVICE_BACKEND_AUTOLOAD"
SINCE = (2, 5)
# Where an NPU is expected these say the same, and what to do about it.
CAUSES = (
    *("cann-install.missing", "cann-env.not-sourced", "cann-env.missing-entry", "cann-env.no-such-path"),
    *("library-path.not-found", "library-path.driver-not-found", "library-path.broken"),
)


def autoload_fails(host: Host, adapter: Distribution, torch: Optional[Distribution]) -> Optional[Finding]:
    """What torch_npu needs and the loader does not find, where torch loads it by itself; else None."""
    if torch is None or not _trains_here(host) or not _loads_it(host, adapter, torch):
        return None
    missing = _not_found(host)
    if not missing:
        return None
    text = _("import torch fails: torch {torch} loads torch_npu {torch_npu} by itself, which needs {library}")
    return Finding(
        "torch-npu.cann-missing",
        text.format(torch=torch.version, torch_npu=adapter.version, library=missing[0]),
        evidence=(at(adapter), _("not found: {names}").format(names=", ".join(missing))),
        action=Action.CONFIG,
        fix=_fix(host),
        echo_of=CAUSES if npu_expected(host) else (),
    )


def _trains_here(host: Host) -> bool:
    """Whether jobs are to run here, as far as was said or is seen: a login node only starts them."""
    return host.options.expect != "auto" or npu_expected(host) or gpu_here(host)


def _loads_it(host: Host, adapter: Distribution, torch: Distribution) -> bool:
    """torch 2.5 and later, unless the switch says otherwise, calls all that names itself a back end. Of an
    image nobody knows the variables with which it will be started."""
    if host.options.root is not None or host.variables.get(SWITCH, "1") != "1":
        return False
    if version_number(torch).release[:2] < SINCE:
        return False
    return "[torch.backends]" in (host.files.text(f"{adapter.folder}/entry_points.txt") or "")


def _not_found(host: Host) -> list[str]:
    """The libraries that the import of torch_npu asks for, after torch, and that are nowhere to be found."""
    for framework in job.frameworks(host, "torch_npu"):
        loader = job.loader(host)
        for module in framework.modules[:-1]:
            loader.open(module)
        before = len(loader.missing)
        loader.open(framework.modules[-1])
        return list(dict.fromkeys(one.name for one in loader.missing[before:]))
    return []


def _fix(host: Host) -> Fix:
    title = _(
        "install CANN and source its set_env.sh; where no NPU is used, uninstall torch_npu, or type this"
    )
    if cann_in_use(host) is not None:
        title = _("source the set_env.sh of CANN; where no NPU is used, uninstall torch_npu, or type this")
    undo = Export(SWITCH, "1").lines()
    return Fix(title, steps=(Export(SWITCH, "0"),), undo=undo, risk=Risk.MANUAL, needs_root=False)
