"""What several files of tests share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from npudoctor.core import messages


@pytest.fixture(params=["en", "zh"])
def language(request: pytest.FixtureRequest) -> Iterator[str]:
    """The language that is spoken, for one test."""
    before = messages.language()
    messages.activate(request.param)
    yield request.param
    messages.activate(before)
