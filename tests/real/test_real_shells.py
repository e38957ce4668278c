"""`eval "$(npudoctor env)"` in real shells, on machines of every era: then the checks find nothing."""

from __future__ import annotations

import pytest

# Slow: a stage for each era. It takes our libraries to the system's Python, for which only recent ones are
# built.
pytestmark = [pytest.mark.needs_root, pytest.mark.slow]

CHECK = "npudoctor check cann python --format json --expect npu --scope job"
SHOW = (
    r"""python3 -I -c 'import json, os, sys; print(json.dumps([dict(os.environ), json.load(sys.stdin)]))'"""
)
# Twice: the second time in what the first one left.
EVAL = {
    "bash": ["bash", "-c", f'eval "$(npudoctor env)" && again=$(npudoctor env) && {CHECK} | {SHOW}'],
    "zsh": ["zsh", "-c", f'eval "$(npudoctor env)" && again=$(npudoctor env) && {CHECK} | {SHOW}'],
    "fish": ["fish", "-c", f"npudoctor env | source; and {CHECK} | {SHOW}"],
    "tcsh": ["tcsh", "-c", f'eval "`npudoctor env`" && {CHECK} | {SHOW}'],
}
