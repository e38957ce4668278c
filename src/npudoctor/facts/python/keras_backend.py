"""The back end with which Keras starts, where it cannot be imported: Keras, and TensorFlow with it, fails."""

from __future__ import annotations

from typing import NamedTuple, Optional

from npudoctor.core.parsing import json_of
from npudoctor.facts.job.working_directory import job_user
from npudoctor.facts.python.installed_modules import modules_of
from npudoctor.host.host import Host
from npudoctor.host.python.installed_files import site_of

BACKEND, HOME = "KERAS_BACKEND", "KERAS_HOME"
# By name, the module of each that Keras 3 knows; numpy is installed with it.
_MODULES = {name: name for name in ("tensorflow", "jax", "torch", "openvino", "numpy")}
_FILE, _REFUSAL = "keras/src/backend/__init__.py", "Unable to import backend"


class UnusableBackend(NamedTuple):
    """A name that Keras was told. `source`: the variable or the file. `missing`: the module that is not
    installed; "" where Keras knows no such back end. `usable`: what is installed."""

    name: str
    source: str
    missing: str
    usable: tuple[str, ...]


def find_unusable_backend(host: Host) -> Optional[UnusableBackend]:
    """Return the back end that Keras is told to use and cannot; None where it can, or is told none."""
    keras = host.interpreter.installed("keras")
    if keras is None or host.options.root is not None:
        return None
    # Keras 2 reads the same file, and does not refuse what it names.
    text = host.files.text(f"{site_of(keras)}/{_FILE}") or ""
    if _REFUSAL not in text:
        return None
    name, source = _read_choice(host)
    modules = modules_of(host)
    if not name or (name in _MODULES and not modules.is_missing(_MODULES[name])):
        return None
    if name not in _MODULES and f'"{name}"' in text:  # of a newer Keras
        return None
    usable = tuple(
        backend for backend in _MODULES if backend != "numpy" and not modules.is_missing(_MODULES[backend])
    )
    return UnusableBackend(name, source, _MODULES.get(name, ""), usable)


def _read_choice(host: Host) -> tuple[str, str]:
    """The name, and whether the variable or which file says it."""
    value = host.variables.get(BACKEND, "")
    if value:
        return value, BACKEND
    home = host.variables.get("HOME") or job_user(host).home
    folder = host.variables.get(HOME) or f"{home}/.keras"
    if not folder.startswith("/"):
        return "", ""
    path = f"{folder}/keras.json"
    try:
        settings = json_of(host.files.text(path) or "{}")
    except ValueError:  # Keras passes over it
        return "", ""
    name = settings.get("backend", "") if isinstance(settings, dict) else ""
    return (name, path) if isinstance(name, str) else ("", "")
