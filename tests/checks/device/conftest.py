"""What is true of all tests here."""

from __future__ import annotations

from tests.support.marks import marking

pytest_itemcollected = marking("once")
