"""An import that fails names the variables that have the loader load more."""

from __future__ import annotations

import pytest

from npudoctor import __main__ as subject


@pytest.mark.parametrize(
    ("error", "variables", "line"),
    [
        (ImportError("no"), {"LD_PRELOAD": "/x.so"}, "ImportError: no (set: LD_PRELOAD)"),
        (
            ImportError("no"),
            {"LD_PRELOAD": "/x.so", "LD_LIBRARY_PATH": "/x"},
            "ImportError: no (set: LD_PRELOAD, LD_LIBRARY_PATH)",
        ),
        (ImportError("no"), {"LD_PRELOAD": ""}, "ImportError: no"),
        (MemoryError("little"), {"LD_PRELOAD": "/x.so"}, "MemoryError: little"),
    ],
)
def test_the_last_line(
    error: Exception,
    variables: dict[str, str],
    line: str,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    for name in ("LD_PRELOAD", "LD_LIBRARY_PATH"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert subject._report_no_room(error) == 70
    assert capfd.readouterr().err == f"npudoctor: {line}\n"
