"""Whether HCCL's whitelist is on, and lets anybody in."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from npudoctor import Finding, Host, _
from npudoctor.checks.network import _hccl_env_findings as say
from npudoctor.checks.network._ranks import several
from npudoctor.host import CannotTell

SWITCH, LIST = "HCCL_WHITELIST_DISABLE", "HCCL_WHITELIST_FILE"


def whitelist(host: Host, valid: Mapping[str, str]) -> Iterator[Finding]:
    """A whitelist that is on needs a file; with none, nobody may connect."""
    path = host.variables.get(LIST, "")
    switch = valid.get(SWITCH)
    if switch == "0":
        why = _unusable(host, path)
        if why:
            text = _("HCCL_WHITELIST_DISABLE is 0, so only who is on the whitelist may connect, and {why}")
            yield say.whitelist(text.format(why=why), (f"{SWITCH}=0", f"{LIST}={path}"))
    elif SWITCH not in host.variables and not path and several(host.variables) and _on_by_default(host):
        text = _("HCCL_WHITELIST_DISABLE is not set, and up to CANN 5.1 the whitelist is on by default")
        yield say.whitelist(text, ())


def _unusable(host: Host, path: str) -> str:
    """Why a whitelist's file is none; "" where it is one, or nobody can tell from here."""
    if not path:
        return _("HCCL_WHITELIST_FILE is not set")
    if not path.startswith("/"):
        return ""
    import json

    try:
        text = host.files.text(path)
    except CannotTell:
        return ""
    if text is None:
        return _("{path} does not exist").format(path=path)
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return _("{path} is not JSON").format(path=path)
    return ""


def _on_by_default(host: Host) -> bool:
    """Whether the CANN in use is so old that an unset switch means on."""
    from npudoctor.core.cann_version import at_least
    from npudoctor.facts.cann.installations import installs_of

    try:
        if not host.npu_wanted():
            return False
        installs = installs_of(host)
    except CannotTell:
        return False
    return bool(installs) and at_least(installs[0].version, "5.2") is False
