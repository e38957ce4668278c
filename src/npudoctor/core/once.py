"""A fact that is found out by the first who asks, and kept: also that it cannot be told."""

from __future__ import annotations

import threading
from typing import Callable, Generic, Optional, TypeVar

from npudoctor.core.errors import CannotTell

T = TypeVar("T")


class Once(Generic[T]):
    """Others wait while the first asks; what hung for him must not hang for each of them again."""

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self._value: list[T] = []
        self._why: Optional[CannotTell] = None
        self._lock = threading.RLock()

    def __call__(self) -> T:
        if self._value:
            return self._value[0]
        with self._lock:
            if self._why is not None:
                raise self._why
            if not self._value:
                try:
                    self._value.append(self._make())
                except CannotTell as why:
                    self._why = why
                    raise
            return self._value[0]
