"""The options with which a container is started to have an accelerator, for all checks that need one."""

from __future__ import annotations

from collections.abc import Iterable

from npudoctor import Fix, Risk, _


def to_add(paths: Iterable[str]) -> Fix:
    """What to ask for: device nodes are given, the rest is mounted. Nobody can do it from inside."""
    return asked_for(
        f"--device {path}" if path.startswith("/dev/") else f"-v {path}:{path}:ro" for path in paths
    )


def asked_for(options: Iterable[str]) -> Fix:
    """The same with the options themselves."""
    title = _("ask whoever starts the container to add {options}")
    return Fix(title.format(options=" ".join(dict.fromkeys(options))), risk=Risk.MANUAL, needs_root=False)
