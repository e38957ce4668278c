"""Imports the packages of the extras, alone: one that is missing is the same line everywhere."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

from npudoctor.core.messages import _

# The extra of pyproject.toml that brings each package, by the name that is imported.
EXTRAS = {
    "ClusterShell": "fleet",
    "yaml": "fleet",  # ClusterShell brings it
    "hyperscan": "fast",
    "detect_secrets": "secrets",
    "pynvml": "gpu",
}
# Distributions whose name differs from what is imported.
_NAMES = {"yaml": "PyYAML", "detect_secrets": "detect-secrets", "pynvml": "nvidia-ml-py"}


class MissingExtra(Exception):
    """An optional package is not installed, or cannot be imported; the text is one line with the remedy."""


def load(module: str) -> Any:
    """Import a module of an optional package; MissingExtra where that fails.

    A caller that can do without it catches that; for all others it ends the command as a usage error.
    """
    try:
        return import_module(module)
    # ModuleNotFoundError is one, too; a damaged or unfitting package raises ImportError itself.
    except ImportError as error:
        import shlex

        # The text of an ImportError may quote a path or a line of somebody's code.
        from npudoctor.core.redact.redact import redact

        package = module.partition(".")[0]
        extra, name = EXTRAS[package], _NAMES.get(package, package)
        # A package that is there but lacks a dependency of its own raises ModuleNotFoundError, too, with
        # another name.
        if isinstance(error, ModuleNotFoundError) and (error.name or "").partition(".")[0] == package:
            text = _("this needs {package}, which is not installed; install it: {command}")
            flag = ""
        else:
            text = _("{package} cannot be imported ({why}); install it again: {command}")
            flag = "--force-reinstall "
        command = f"{shlex.quote(sys.executable or 'python3')} -m pip install {flag}'npudoctor[{extra}]'"
        line = text.format(package=name, why=redact(str(error)), command=command)
        # The one file that is carried to nodes has what fleet needs.
        carried = _("; npudoctor.pyz includes it") if extra == "fleet" else ""
        raise MissingExtra(line + carried) from error
