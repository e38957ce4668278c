"""run under the real torchrun: eight ranks that train together cause one check."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

TRAIN = """
import os, sys, torch, torch.distributed as dist
dist.init_process_group("gloo")
torch.manual_seed(0)
x = torch.randn(64, 1)
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(1, 1))
optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(50):
    optimiser.zero_grad()
    loss = ((model(x) - (3 * x - 1)) ** 2).mean()
    loss.backward()
    optimiser.step()
if dist.get_rank() == 0:
    print("loss %.4f of %d" % (loss.item(), dist.get_world_size()), flush=True)
dist.barrier()
dist.destroy_process_group()
os._exit(int(sys.argv[1]) if int(os.environ["RANK"]) == 5 else 0)  # gloo's threads may abort a plain exit
"""
CHECK = '''
from npudoctor import *
@check("counts", scope=Scope.JOB, codes={{"counts.bad": ERROR}})
def counts(host):
    """Counts."""
    with open("{folder}/asked", "a") as file:
        file.write("asked\\n")
    return
    yield
'''


@pytest.mark.parametrize("status", [0, 7])
def test_eight_ranks_cause_one_check(tmp_path: Path, status: int) -> None:
    torchrun = shutil.which("torchrun", path=os.path.dirname(sys.executable))
    if torchrun is None:
        pytest.skip("no torch beside this Python (pip install torch); a stand-in is in test_run_ranks.py")
    (tmp_path / "train.py").write_text(TRAIN)
    (tmp_path / "checks.d").mkdir(mode=0o755)
    (tmp_path / "checks.d/counts.py").write_text(CHECK.format(folder=tmp_path))
    (tmp_path / "checks.d/counts.py").chmod(0o644)
    done = subprocess.run(
        [torchrun, "--nproc-per-node", "8", "--master-port", "29617", "--no-python",
         sys.executable, "-m", "npudoctor", "run", sys.executable, "train.py", str(status)],
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path), "OMP_NUM_THREADS": "1",
             "NPUDOCTOR_CHECKS_DIR": str(tmp_path / "checks.d"), "NPUDOCTOR_EXPECT": "none"},
        cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.stdout == "loss 0.0000 of 8\n", done.stderr
    assert (tmp_path / "asked").read_text() == "asked\n"
    assert (done.returncode == 0) == (status == 0)
    assert (f"exitcode  : {status}" in done.stderr) == (status != 0)
