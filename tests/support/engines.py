"""Engines of the built-in signatures. Their table is made once in a process: it takes a part of a second."""

from __future__ import annotations

import functools

from npudoctor.explain.engine import Engine, engine_for
from npudoctor.explain.signatures.signatures import built_in
from npudoctor.explain.signatures.table import table_of

_TABLE = table_of(built_in())


def fresh() -> Engine:
    """One that no other test has used: with hyperscan it suits itself to the logs that it has seen."""
    return engine_for(_TABLE)


@functools.cache
def plain() -> Engine:
    """The one without hyperscan, which learns nothing."""
    return engine_for(_TABLE, plain=True)
