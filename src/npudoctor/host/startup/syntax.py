"""Parses Python source into a syntax tree; nothing is compiled or run."""

from __future__ import annotations

import ast
from typing import Optional


def parse_source(text: str) -> Optional[ast.Module]:
    """The syntax tree; None for text that is not Python, is nested too deeply, or needs a newer Python."""
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
