"""What the user said that checks may ask about."""

from __future__ import annotations

import math
from typing import Optional

from npudoctor.core.frozen import dataclass
from npudoctor.host.users.identity import Account


@dataclass(frozen=True)
class Options:
    """What the user said that checks may ask about. `expect`: auto, npu, gpu, none; `expect_count`: how many
    of these at least, 0 where no number was said.

    `timeout` is how long one check may take, in seconds: whatever a check waits for must end before.
    `tmp` is where cache servers keep their sockets and logs. `knowledge` is where a site keeps its rows.
    `env_of` is the process whose variables are examined, 0 for none; `foreign_variables`: they were set by
    somebody who must not make root run something by them. `peers`: the addresses of the job's other nodes.
    `wait`: how long, in seconds, a file that is still being written may take. `only_user` and `only_job`
    (of Slurm) limit leftovers to one owner or job. `until`: when the run must be over, on the steady clock.
    `like`: the snapshot of --like (facts.snapshot.document), None without it; `like_path`: its file.
    `vendor_tools`: whether the profile lets a check start npu-smi, hccn_tool or nvidia-smi.
    `own_python`: whether our own Python is examined where python3 of PATH has no framework and ours has one.
    `first_folder`: where the job's Python looks for modules first; None for the working directory, as far as
    anybody knows, "" for nowhere. `as_user`: whose job it is, where root asks; None where nobody said.
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
