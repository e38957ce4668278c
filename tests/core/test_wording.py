"""English as a technical writer would sign it: forms that a reader had to read twice do not come back."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

pytestmark = pytest.mark.once

TOOLS = Path(__file__).resolve().parents[2] / "tools"


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    sys.path.insert(0, str(TOOLS))  # it imports its neighbor
    try:
        spec = importlib.util.spec_from_file_location("wording_of_the_sources", TOOLS / "wording.py")
        assert spec and spec.loader
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module
    finally:
        sys.path.remove(str(TOOLS))


def test_nothing_must_be_read_twice(tool: ModuleType) -> None:
    texts = list(tool.sentences())
    places = {place for place, _text in texts}
    assert {"checks/host/memory.py", "README.md", "docs/safety.md"} <= places and len(texts) > 3000
    assert list(tool.complaints(texts)) == []


def test_each_form_is_found_in_its_example(tool: ModuleType) -> None:
    for form, example in tool.FORBIDDEN.items():
        assert any(line.startswith("a page: ") for line in tool.complaints([("a page", example)])), form


def test_a_new_message_is_read_before_it_is_in_a_catalogue(tool: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "checks").mkdir()
    (tmp_path / "checks" / "new.py").write_text('_("the port {port} is no number, and nobody knows why")\n')
    (line, other) = tool.complaints(list(tool.sentences(tmp_path)))
    assert line.startswith("checks/new.py: 'nobody knows' must be read twice") or "is no number" in line
    assert "say it plainly" in other
