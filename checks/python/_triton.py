"""What installs torch without bringing triton along, and where triton-ascend is to be had."""

from __future__ import annotations

from typing import Optional

from npudoctor import Fix, Host, _
from npudoctor.checks.python._pip import pip_install
from npudoctor.host.python.interpreter import Distribution

ASCEND = "triton-ascend"


def overwritten_by_torch(host: Host) -> bool:
    """Whether the triton that torch requires on x86-64 would put its files over those of triton-ascend."""
    machine = host.interpreter.layout().machine
    return machine in ("x86_64", None) and host.interpreter.version_of(ASCEND) is not None


def torch_install(host: Host, title: str, *requirements: str) -> Fix:
    """The line that installs torch, or what pulls it."""
    fix: Fix = pip_install(host, title, *requirements)
    if overwritten_by_torch(host):
        text = _("{title}, without what it requires: its triton would overwrite triton-ascend")
        fix = pip_install(host, text.format(title=title), "--no-deps", *requirements)
    return fix


def where_from(host: Host, title: str, found: Optional[Distribution], version: str = "") -> str:
    """The title of lines that install a release of triton-ascend: where it is found when PyPI lacks it."""
    if found is not None:
        if found.name.lower().replace("_", "-") != ASCEND:
            return title
        version = found.version
    known = [row["triton_ascend"] for row in host.knowledge.rows("vllm_ascend", "pypi")]
    if not version or version in known:
        return title
    text = _(
        "{title}; triton-ascend {version} comes from the index that vllm-ascend's installation page names "
        "(--extra-index-url), not from PyPI"
    )
    return text.format(title=title, version=version)
