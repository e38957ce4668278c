"""What means that memory is short."""

from __future__ import annotations

import resource

import pytest

from npudoctor.core.errors import is_out_of_memory

UNMAPPED = ImportError("/usr/lib/unicodedata.so: failed to map segment from shared object")


@pytest.mark.parametrize(
    ("error", "limit", "expected"),
    [
        (MemoryError(), resource.RLIM_INFINITY, True),
        (UNMAPPED, 200_000 << 10, True),
        (UNMAPPED, resource.RLIM_INFINITY, False),  # noexec
        (ImportError("No module named 'unicodedata'"), 200_000 << 10, False),
        (OSError("failed to map segment"), 200_000 << 10, False),
    ],
)
def test_a_library_that_is_not_mapped_is_a_lack_of_memory_where_there_is_a_limit(
    error: BaseException, limit: int, expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (limit, limit))
    assert is_out_of_memory(error) is expected
