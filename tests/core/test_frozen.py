"""Frozen values behave as those of the standard decorator do, wherever something looks at them."""

from __future__ import annotations

import copy
import dataclasses
import pickle
import sys
from dataclasses import field
from types import ModuleType
from typing import Any

import pytest

from npudoctor.core.frozen import dataclass


@dataclass(frozen=True)
class Ours:
    """A value."""

    a: int
    b: str = "x"
    c: tuple[int, ...] = field(default=(), repr=False)
    d: list[int] = field(default_factory=list)


@dataclass(frozen=True)
class Derived(Ours):
    """A value with one field more."""

    e: int = 5


@dataclasses.dataclass(frozen=True)
class Standard:
    """The same, made by the standard decorator."""

    a: int
    b: str = "x"
    c: tuple[int, ...] = field(default=(), repr=False)
    d: list[int] = field(default_factory=list)


MADE: tuple[tuple[tuple[Any, ...], dict[str, Any]], ...] = (
    ((1,), {}),
    ((1, "y", (2,)), {"d": [3]}),
    ((), {"a": 7}),
)


@pytest.mark.parametrize(("given", "named"), MADE)
def test_as_the_standard_one(given: tuple[Any, ...], named: dict[str, Any]) -> None:
    ours, standard = Ours(*given, **named), Standard(*given, **named)
    assert repr(ours).replace("Ours", "Standard") == repr(standard)
    assert dataclasses.asdict(ours) == dataclasses.asdict(standard)
    assert [one.name for one in dataclasses.fields(ours)] == [
        one.name for one in dataclasses.fields(standard)
    ]
    assert dataclasses.replace(ours, a=9) == Ours(9, ours.b, ours.c, ours.d) != ours
    assert copy.deepcopy(ours) == ours == pickle.loads(pickle.dumps(ours))  # noqa: S301
    assert ours.d is not Ours(1).d


def test_derived() -> None:
    made = Derived(1, e=7)
    assert (made.a, made.b, made.e) == (1, "x", 7) and isinstance(made, Ours)
    assert [one.name for one in dataclasses.fields(made)] == ["a", "b", "c", "d", "e"]
    assert made != Ours(1)


def test_nothing_can_be_changed_or_forgotten() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        Ours(1).a = 2  # type: ignore[misc]
    with pytest.raises(dataclasses.FrozenInstanceError):
        del Ours(1).a
    for given, named in (((), {}), ((1, "x", (), [], 5), {}), ((1,), {"z": 1})):
        with pytest.raises(TypeError, match="takes the fields a, b, c, d"):
            Ours(*given, **named)  # type: ignore[arg-type]


def test_while_another_thread_loads_the_standard_module(monkeypatch: pytest.MonkeyPatch) -> None:
    """A module that is being loaded is in sys.modules and has none of its names yet."""
    monkeypatch.setitem(sys.modules, "dataclasses", ModuleType("dataclasses"))

    @dataclass(frozen=True)
    class Made:
        number: int = 7

    assert Made().number == 7
