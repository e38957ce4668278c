"""Whether somebody who lives may still open a left-over file of shared memory by its name.

That its maker is gone, and that nobody has it open or mapped, is not all: a tensor that PyTorch sends by
name lies in a queue until another process of the job opens it, be that an hour later. Whoever knows the
name was there when the file last changed, or was told by one who was. So while a process of its owner lives
that could be of such a job and is as old as the file, or is the orphan of one, it may be wanted.
"""

from __future__ import annotations

from npudoctor.core.marks import FileMark
from npudoctor.core.messages import _
from npudoctor.facts.leftovers.shm_files import SharedFile
from npudoctor.host import Host
from npudoctor.host.fs.files import PathStatus
from npudoctor.proof.creator import CLOCK_SLACK
from npudoctor.proof.temporary_folder import FolderMakers

# File systems on which a lease proves it, see fixing.actions.unused.
LEASED = ("tmpfs", "ext2", "ext3", "ext4", "xfs", "btrfs")


class PossibleUsers:
    """Judges the files of one look."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._owners = FolderMakers(host)

    def why_not(self, file: SharedFile) -> str:
        """Why a file may still be wanted; "" when it cannot be."""
        if file.folder is not None:
            return _("it is in its library's own folder")
        # Then the processes of its owner are not all that could want it.
        if file.entry.mode & 0o077:
            return _("other users may open it")
        changed = file.entry.ctime_ns / 1e9
        if (
            changed + CLOCK_SLACK < self._host.system.boot_time()
        ):  # what lies in memory was made since the boot
            return _(
                "the clock was changed after this file last changed: could not determine which processes "
                "were running then"
            )
        pid = self._owners.find_older_process(file.entry.uid, changed)
        if pid is None:
            return ""
        text = _("its owner's process {pid} was running when the file changed and may still use it by name")
        if self._owners.is_heir(pid):
            text = _("its owner's process {pid} lost its parent and may have learned the file's name from it")
        return text.format(pid=pid)


def mark_of(path: str, entry: PathStatus) -> FileMark:
    """The mark by which a file in its folder is recognised later, for a removal under a lease."""
    return FileMark(path.rpartition("/")[2], entry.dev, entry.ino, entry.size, entry.mtime_ns)
