"""The trial runs in the job's Python, whichever that is: test_other_pythons starts all that are here."""

from __future__ import annotations

from tests.support.marks import marking

pytest_itemcollected = marking("once")
