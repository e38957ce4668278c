"""What the conftest.py of a folder says of all tests in it."""

from __future__ import annotations

from typing import Callable

import pytest


def marking(*names: str) -> Callable[[pytest.Item], None]:
    """The hook `pytest_itemcollected` of a folder whose tests all bear these marks: pytest calls the hook of
    a conftest.py for the items of its own folder only."""

    def mark(item: pytest.Item) -> None:
        for name in names:
            item.add_marker(name)

    return mark
