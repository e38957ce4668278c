"""Whether a process belongs to somebody's session that outlives its terminal: tmux, screen, a notebook."""

from __future__ import annotations

from typing import Optional

from npudoctor.host.host import Host

KERNEL = 2  # kthreadd: the kernel's own threads are its children
# Servers whose kernels outlive the browser on purpose.
_NOTEBOOKS = ("jupyter", "ipykernel", "code-server", "rserver", "rsession", "vscode-server")
# Programs made to keep a session when the terminal is closed.
_KEEPERS = ("tmux", "screen", "zellij", "dtach", "abduco", "mosh-server")
_WORDS = 6  # of a command line, in which a notebook is named


def session_of(host: Host, pid: int) -> Optional[str]:
    """What keeps a process alive on purpose, in a word; None when nothing does that can be seen."""
    # Units of systemd --user run on when the user logs out, with lingering.
    if any("/user@" in path for path in host.processes.cgroups(pid) or ()):
        return "systemd --user"
    for ancestor in host.processes.ancestors(pid):
        name = host.processes.by_pid()[ancestor].name.lower()
        if name.startswith(_KEEPERS):
            # tmux names its processes "tmux: server", "tmux: client".
            return name.partition(":")[0]
        words = [word.lower() for word in (host.processes.arguments(ancestor) or ())[:_WORDS]]
        notebook = next((name for name in _NOTEBOOKS if any(name in word for word in words)), None)
        if notebook:
            return notebook
    return None


def service_of(host: Host, pid: int) -> Optional[str]:
    """The system service that manages a process; None when it is in none."""
    for path in host.processes.cgroups(pid) or ():
        # systemd's own services; those of a user are below user.slice.
        if path.startswith("/system.slice/") and path.endswith(".service"):
            return path.rpartition("/")[2]
    return None


def is_kernel_thread(host: Host, pid: int) -> bool:
    """Return whether it is a thread of the kernel."""
    process = host.processes.by_pid().get(pid)
    return pid == KERNEL or (process is not None and process.parent == KERNEL)
