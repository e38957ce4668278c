"""What a site added to a table and could not be used, as the checks that ask this table say it."""

from __future__ import annotations

from collections.abc import Iterator

from npudoctor.core.messages import _
from npudoctor.core.model import Action, Finding
from npudoctor.host.host import Host

# In this order they are asked for the site's rows: what breaks one file is said once.
USERS = (
    *("torch-npu", "mindspore-cann", "vllm-ascend", "paddle-npu", "interpreter", "scipy-version"),
    *("cann-python-deps", "cann-driver", "package-requirements"),
)


def broken_rows(host: Host, check: str, *tables: str) -> Iterator[Finding]:
    """Yield a warning for rows that a site added to one of these tables and that cannot be used."""
    broken = [*dict.fromkeys(entry for table in tables for entry in host.knowledge.broken(table))]
    if broken:
        yield Finding(
            f"{check}.site-table",
            _(
                "this site's compatibility rows cannot be used: {path}: {why}",
                path=broken[0].path,
                why=broken[0].reason,
            ),
            evidence=tuple(f"{entry.path}: {entry.reason}" for entry in broken),
            action=Action.CONFIG,
            # A broken file spoils the rows of several checks: the first of them speaks.
            echo_of=tuple(f"{other}.site-table" for other in USERS[: USERS.index(check)]),
        )
