"""Renders the first lines of a report: machine, accelerators, driver, CANN, Python and its frameworks."""

from __future__ import annotations

from npudoctor.core.messages import _, ngettext
from npudoctor.core.model import Report, Target


def machine_text(report: Report, *, whole: bool = True) -> str:
    """The machine with its devices, driver and CANN; without `whole` only its name instead of the system."""
    host, target = report.host, report.target
    machine = [host.name, host.distribution, host.machine, _("container") if host.container else None]
    if not whole:
        machine = [host.name, _("container") if host.container else None]
    if target.root is not None:
        machine = [_("image {root}", root=target.root), host.distribution]
    driver = _("driver {version}", version=target.driver) if target.driver else None
    accelerators = {"npu": _("no NPU"), "gpu": _("no GPU")}.get(target.kind, _("no accelerator"))
    if target.kind in ("npu", "gpu") and target.devices:
        words = {
            "npu": ngettext("{count} NPU", "{count} NPUs", target.devices),
            "gpu": ngettext("{count} GPU", "{count} GPUs", target.devices),
        }
        accelerators = words[target.kind].format(count=target.devices)
        if target.model:
            accelerators = _("{devices} ({model})", devices=accelerators, model=target.model)
    devices = [
        accelerators if target.root is None else None,
        driver,
        f"CANN {target.cann}" if target.cann else None,
    ]
    parts = [_(", ").join(filter(None, words)) for words in (machine, devices)]
    return _("; ").join(filter(None, parts))


def python_text(target: Target) -> str:
    """The interpreter, why it was chosen, and its frameworks; "" when there is none."""
    if target.python is None:
        return ""
    version = target.python.version or _("version unknown")
    words = {"path": target.python.path, "version": version, "other": target.python_of_path}
    text = _("Python: {path} ({version}), because {other} has no framework: {frameworks}")
    if target.python_of_path is None:
        text = _("Python: {path} ({version}): {frameworks}")
    if target.frameworks is None:
        text = _("Python: {path} ({version})")
    framework_texts = [f"{name} {version}" for name, version in (target.frameworks or {}).items()]
    return text.format(frameworks=_(", ").join(framework_texts) or _("no framework"), **words)
