"""Device nodes that a user may not open: who may, and what to type about it."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from typing import Optional

from npudoctor import Action, Command, Finding, Fix, Host, Risk, _
from npudoctor.checks.device._container_options import ask_for_options
from npudoctor.facts.leftovers.port_holders import abbreviate
from npudoctor.host.fs.files import PathStatus
from npudoctor.host.users.accounts import group_of


def find_denied(host: Host, closed: dict[str, PathStatus]) -> dict[str, PathStatus]:
    """Return the nodes that access(2) denies too: it evaluates access control lists, which the mode hides."""
    denied_nodes = {}
    for path, entry in closed.items():
        try:
            is_allowed = host.disk.may_access(path, os.R_OK | os.W_OK)
        except OSError:
            # A node about which the kernel gives no answer cannot be opened.
            is_allowed = False
        if not is_allowed:
            denied_nodes[path] = entry
    return denied_nodes


def report_no_access(host: Host, nodes: dict[str, PathStatus], code: str) -> Iterator[Finding]:
    """Yield one finding for each group that would give access, and one for all nodes that no group may
    open."""
    groups: dict[Optional[int], list[str]] = {}
    for path, entry in nodes.items():
        # The group's bits; 0o6 is read and write, which a job needs to open the node.
        has_group_access = entry.mode >> 3 & 0o6 == 0o6 and entry.gid not in host.identity.groups
        # By number: the same name may have another number in a container.
        groups.setdefault(entry.gid if has_group_access else None, []).append(path)
    for gid, paths in groups.items():
        entries = [(path, nodes[path]) for path in paths]
        evidence = tuple(
            f"{stat.filemode(entry.mode)} uid={entry.uid} gid={entry.gid} {path}" for path, entry in entries
        )
        if gid is None:
            yield _report_mode_denied(host, paths, evidence, code)
        else:
            yield _report_group_denied(host, gid, paths, evidence, code)


def _report_group_denied(
    host: Host, gid: int, paths: list[str], evidence: tuple[str, ...], code: str
) -> Finding:
    user = host.identity.user
    name, members = group_of(host.files, gid)
    group = name or str(gid)
    fix: Optional[Fix] = Fix(
        _("add {user} to the group {group}; takes effect at the next login", user=user, group=group),
        steps=(Command(("usermod", "-aG", group, user)),),
        undo=Command(("gpasswd", "-d", user, group)).lines(),
        risk=Risk.MANUAL,
    )
    text = _("{user} cannot open {paths}: they belong to the group {group} ({gid}), and {user} is not in it")
    # A process gets its groups at login (initgroups(3)): a new membership counts from the next one.
    if user in members:
        text = _("{user} cannot open {paths}: {user} was added to the group {group} after this login")
        fix = Fix(
            _("log in again, or continue in a shell of that group"),
            steps=(Command(("newgrp", group)),),
            risk=Risk.MANUAL,
            needs_root=False,
        )
    elif host.system.is_container():
        text = _("{user} cannot open {paths}: start the container with --group-add {gid}, their group")
        fix = ask_for_options([("--group-add", str(gid))])
    return Finding(
        code,
        text.format(user=user, paths=abbreviate(paths), group=group, gid=gid),
        evidence=evidence,
        action=Action.CONFIG,
        fix=fix,
    )


def _report_mode_denied(host: Host, paths: list[str], evidence: tuple[str, ...], code: str) -> Finding:
    return Finding(
        code,
        _(
            "{user} cannot open {paths}: neither their owner's nor their group's mode allows it",
            user=host.identity.user,
            paths=abbreviate(paths),
        ),
        evidence=evidence,
        action=Action.CONFIG,
    )
