"""Whether HCCL's whitelist is on, and lets anybody in."""

from __future__ import annotations

from collections.abc import Mapping

from npudoctor.core.messages import _
from npudoctor.facts.job.rank_count import has_several_ranks
from npudoctor.host import CannotTell
from npudoctor.host.host import Host

SWITCH, LIST = "HCCL_WHITELIST_DISABLE", "HCCL_WHITELIST_FILE"


def whitelist_trouble(host: Host, valid: Mapping[str, str]) -> tuple[str, tuple[str, ...]]:
    """Why HCCL's whitelist lets nobody connect, and the variables that cause it; ("", ()) when somebody may.

    A whitelist that is on needs a file.
    """
    variables = host.variables
    path = variables.get(LIST, "")
    switch = valid.get(SWITCH)
    # HCCL reads the list only where the switch is 0; its default is 1.
    why = _why_unusable(host, path) if switch == "0" else ""
    if why:
        text = _("HCCL_WHITELIST_DISABLE is 0, so only addresses on the whitelist may connect, and {why}")
        return text.format(why=why), (f"{SWITCH}=0", f"{LIST}={path}")
    unset = switch is None and not path and SWITCH not in variables
    if unset and has_several_ranks(variables) and _is_on_by_default(host):
        text = _("HCCL_WHITELIST_DISABLE is not set, and up to CANN 5.1 the whitelist is on by default")
        return text, ()
    return "", ()


def _why_unusable(host: Host, path: str) -> str:
    """Why a file is no whitelist; "" where it is one, or where it cannot be determined from here."""
    if not path:
        return _("HCCL_WHITELIST_FILE is not set")
    # Relative to the working directory of each process, which may differ.
    if not path.startswith("/"):
        return ""
    from npudoctor.core.parsing import json_of

    try:
        text = host.files.text(path)
    except CannotTell:
        return ""
    if text is None:
        return _("{path} does not exist", path=path)
    try:
        json_of(text)
    except ValueError:
        return _("{path} is not JSON", path=path)
    return ""


def _is_on_by_default(host: Host) -> bool:
    """Return whether the CANN in use is so old that an unset switch means on."""
    from npudoctor.core.cann_version import is_at_least
    from npudoctor.facts.cann.installations import installs_of

    try:
        if not host.wants_npus():
            return False
        installs = installs_of(host)
    except CannotTell:
        return False
    return bool(installs) and is_at_least(installs[0].version, "5.2") is False
