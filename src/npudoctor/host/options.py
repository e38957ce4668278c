"""The options of a run that checks may read."""

from __future__ import annotations

import math
from typing import Optional

from npudoctor.core.frozen import dataclass
from npudoctor.host.users.identity import Account


@dataclass(frozen=True)
class Options:
    """The options of a run that checks may read.

    - `expect`: the accelerator that this node must have: auto, npu, gpu or none.
    - `expect_count`: the least number of them, 0 if no number was given.
    - `python`: the path or name of --python, None without it.
    - `root`: the folder of --root, which holds an image; None for the running machine.
    - `tmp`: where cache servers keep their sockets and logs.
    - `knowledge`: where a site keeps its rows.
    - `timeout`: how long one check may take, in seconds; whatever a check waits for must end before.
    - `env_of`: the process whose variables are examined, 0 for none.
    - `foreign_variables`: somebody set the variables by which root must not be made to run anything.
    - `peers`: the addresses of the job's other nodes.
    - `wait`: how long, in seconds, a file that is still being written may take.
    - `only_user`, `only_job`: limit leftovers to one owner, or to one job of Slurm.
    - `until`: when the run must be over, in seconds of the monotonic clock.
    - `like`, `like_path`: the snapshot of --like (facts.snapshot.document), and its file; None without it.
    - `vendor_tools`: whether the profile lets a check start npu-smi, hccn_tool or nvidia-smi.
    - `own_python`: examine our own Python if python3 of PATH has no framework and ours has one.
    - `first_folder`: where the job's Python looks for modules first; None for the working directory, "" for
      no folder.
    - `as_user`: the account of the job, if root named one; None otherwise.
    """

    expect: str = "auto"
    python: Optional[str] = None
    root: Optional[str] = None
    tmp: str = "/tmp"  # noqa: S108
    knowledge: str = ""
    timeout: float = 10.0
    env_of: int = 0
    foreign_variables: bool = False
    peers: tuple[str, ...] = ()
    wait: float = 0.0
    only_user: Optional[str] = None
    only_job: Optional[str] = None
    until: float = math.inf
    like: Optional[object] = None
    like_path: str = ""
    expect_count: int = 0
    vendor_tools: bool = True
    own_python: bool = True
    first_folder: Optional[str] = None
    as_user: Optional[Account] = None
