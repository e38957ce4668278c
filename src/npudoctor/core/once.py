"""A value that is computed once, by the first thread that asks; a CannotTell is kept as well."""

from __future__ import annotations

import threading
from typing import Callable, Generic, Optional, TypeVar

from npudoctor.core.errors import CannotTell

T = TypeVar("T")


class Once(Generic[T]):
    """A value that is computed once. Other threads wait while the first one asks, so that a question that
    hangs does so only once.
    """

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self._value: list[T] = []
        self._why: Optional[CannotTell] = None
        # Reentrant: a value that asks for itself on the way fails by recursion, and does not wait for ever.
        self._lock = threading.RLock()

    def __call__(self) -> T:
        if self._value:
            return self._value[0]
        with self._lock:
            # Another thread may have asked in the meantime.
            if self._why is not None:
                raise self._why
            if not self._value:
                try:
                    self._value.append(self._make())
                except CannotTell as why:
                    self._why = why
                    raise
            return self._value[0]
