"""The line by which a person changes what is installed in the interpreter under examination."""

from __future__ import annotations

from npudoctor.host.host import Host


def pip_argv(host: Host, *arguments: str) -> tuple[str, ...]:
    """pip of that very interpreter; for an image, run inside it."""
    argv = (host.interpreter.path, "-m", "pip", *arguments)
    return argv if host.options.root is None else ("chroot", host.options.root, *argv)


def needs_root(host: Host) -> bool:
    """Whether only root can run that line: to enter an image."""
    return host.options.root is not None
