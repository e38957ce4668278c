"""Python source as a syntax tree, where this Python can read it; nothing is compiled or run."""

from __future__ import annotations

import ast
from typing import Optional


def parse_source(text: str) -> Optional[ast.Module]:
    """The tree; None for what is no Python, is too deeply nested, or needs a later Python than ours."""
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
