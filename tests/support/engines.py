"""Engines of the built-in signatures. Their table is made once in a process: it takes a part of a second."""

from __future__ import annotations

import functools
from typing import Any, cast

from npudoctor.explain.engine import Engine, make_engine_for_table
from npudoctor.explain.signatures.signatures import built_in
from npudoctor.explain.signatures.table import SignatureTable, make_table


@functools.cache
def table() -> SignatureTable:
    """That of the built-in signatures."""
    return make_table(built_in())


def fresh() -> Engine:
    """One that no other test has used: with hyperscan it suits itself to the logs that it has seen."""
    return make_engine_for_table(table())


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
    return make_engine_for_table(table(), plain=True)
