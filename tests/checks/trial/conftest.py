"""What the checks of this group judge is the same on every Python that runs npudoctor."""

from __future__ import annotations

from tests.support.marks import marking

pytest_itemcollected = marking("once")
