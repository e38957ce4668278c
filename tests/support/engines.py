"""Engines of the built-in signatures. Their table is made once in a process: it takes a part of a second."""

from __future__ import annotations

import functools
from typing import Any, cast

from npudoctor.explain.engine import Engine, engine_for
from npudoctor.explain.signatures.signatures import built_in
from npudoctor.explain.signatures.table import Table, table_of


@functools.cache
def table() -> Table:
    """That of the built-in signatures."""
    return table_of(built_in())


def fresh() -> Engine:
    """One that no other test has used: with hyperscan it suits itself to the logs that it has seen."""
    return engine_for(table())


class Late:
    """One as `fresh` makes it, at the first question: each worker of pytest-xdist imports all files of tests,
    and runs a third of them."""

    @functools.cached_property
    def _engine(self) -> Engine:
        return fresh()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # pytest asks whatever stands in a module for names of its own
            raise AttributeError(name)
        return getattr(self._engine, name)


def late() -> Engine:
    """See Late."""
    return cast(Engine, Late())


@functools.cache
def plain() -> Engine:
    """The one without hyperscan, which learns nothing."""
    return engine_for(table(), plain=True)
