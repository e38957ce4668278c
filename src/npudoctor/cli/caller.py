"""Who called this command line, and how it leaves him."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Mapping
from typing import NoReturn, Optional

from npudoctor.core.frozen import dataclass


@dataclass(frozen=True)
class Caller:
    """Who called: the variables as they were, and the language asked for by --lang."""

    variables: Mapping[str, str]
    language: Optional[str]


def exit_now(status: int) -> NoReturn:
    """End at once: a thread that was left behind would keep the process. All output was written before."""
    with contextlib.suppress(OSError, ValueError):
        if sys.stderr is not None:
            sys.stderr.flush()
    os._exit(status)
