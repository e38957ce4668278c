"""Whether a cache server ever was here: a look that costs next to nothing, for the many machines without."""

from __future__ import annotations

import os

from npudoctor.core.errors import CannotTell
from npudoctor.host.host import Host

# In the names of sockets, logs and folders of all versions.
WORDS = ("cache_server", "cache-server", "mindspore")
SPILL_NAME = 36  # how long the name of a spill folder is


def has_trace(host: Host) -> bool:
    """Return False only when there is no socket, no log, no spill folder and no segment with such a key."""
    try:
        tmp = host.files.real(host.options.tmp) or host.options.tmp  # only then are its mounts its own
    except CannotTell:
        return True
    # 0x61 is the project id 'a' of ftok() in the server's keys.
    if host.disk.may_block(tmp) or any(segment.key >> 24 == 0x61 for segment in host.sysvipc.segments()):
        return True
    try:
        names = os.listdir(tmp)
    # No temporary folder: nothing can be in it.
    except FileNotFoundError:
        return False
    # Not readable: the real look must say so.
    except OSError:
        return True
    return any(len(name) == SPILL_NAME or any(word in name for word in WORDS) for name in names)
