"""identity: each of its sentences."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from npudoctor.checks.python.identity import identity as check
from npudoctor.host.process.identity import Identity
from npudoctor.testing import Asked, Content, ask, fake_host, folder

MACHINE: dict[str, Content] = {
    "/etc/passwd": "ann:x:1000:1000::/home/ann:/bin/bash\n",
    "/home/ann": folder(0o700, 1000),
    "/home/all": folder(0o777, 1001),
}
CASES: tuple[tuple[int, dict[str, str]], ...] = (
    (4711, {}),
    (4711, {"USER": "ann", "HOME": "/home/ann"}),
    (1000, {}),
    (1000, {"HOME": "/gone"}),
    (1000, {"HOME": "/home/all"}),
)


def scene(tmp: Path) -> Iterator[Asked]:
    """Without a name, without a home, with a home that is not there or not one's own."""
    for uid, variables in CASES:
        host = fake_host(MACHINE, variables=variables)
        host.identity = Identity(uid, "ann" if uid == 1000 else str(uid), "/")
        yield ask(check, host)
