"""One round: a scene, a run that is surprised or killed, the truth; then the runs that finish."""

from __future__ import annotations

import os
import random
import shutil
import stat
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Optional

from tests.support import ipc

from . import kin
from .acts import ACTS
from .doctor import DIE, GO, Ended, Patient, operate
from .hostile import unleash
from .inventory import Inventory, Thing, inventory
from .scene import HOSTILE, ROOT, SPILL, TMP, USER, Dead, Scene, answers, build

WORST = (
    "planned",
    "after journal before",
    "before remove segment",
    "before park",
    "after park",
    "before unlink",
)
RATES = (0.0, 0.02, 0.05, 0.1)  # of acts at a point
NEVER = ("never", "")
SURELY = (  # what is worst where
    ("before remove segment", "attach"), ("after journal before", "attach"), ("before park", "exchange"),
    ("after journal before", "hold"), ("after remove segment", "squat"), ("after park", "restart"),
    NEVER, NEVER,
)  # fmt: skip
LONGEST = 0.12  # seconds: about what an undisturbed run takes


class Torment:
    """What happens in one run, and when."""

    def __init__(self, scene: Scene) -> None:
        rng = scene.rng
        self.scene = scene
        self.rate = rng.choice(RATES)
        self.surely = rng.choice(SURELY)
        if scene.keeper == "common" and rng.random() < 0.5:
            self.surely = ("before park", "exchange")
        luck = rng.random()
        self.kill_at: Optional[int] = rng.randint(0, 25) if luck < 0.35 else None
        self.kill_after: Optional[float] = rng.uniform(0, LONGEST) if luck > 0.8 else None
        self._points = 0

    def __call__(self, point: str) -> bytes:
        """At a point: what may happen there, more often where it is worst; whether npudoctor lives on."""
        rng = self.scene.rng
        moment, name = self.surely
        if point.startswith(moment) and self._act(name, point):
            self.surely = NEVER
        while rng.random() < self.rate * (3 if point.startswith(WORST) else 1):
            self._act(rng.choice(list(ACTS)), point)
        self._points += 1
        return DIE if self.kill_at is not None and self._points > self.kill_at else GO

    def _act(self, name: str, point: str) -> bool:
        done = ACTS[name](self.scene, point)
        if done:
            self.scene.count(f"act: {name}")
            self.scene.look()
        return done


def play(number: int, seed: str, numbers: Counter[str], state: Path) -> list[str]:
    """Play one round and clean up; what was wrong."""
    machine = Patient()
    machine.tmp = TMP
    scene: Optional[Scene] = None
    try:
        rng = random.Random(f"{seed}/{number}")  # noqa: S311  (it is to be repeatable)
        scene = Scene(rng, machine, numbers)
        build(scene)
        machine.state = state / str(scene.uid)
        wrongs = _disturbed(scene)
        wrongs += _finished(scene)
    finally:
        _clear(machine, scene)
    return wrongs


def _disturbed(scene: Scene) -> list[str]:
    torment = Torment(scene)
    restless = unleash(scene)
    try:
        ended = operate(scene.machine, scene.uid, scene.owners, torment, torment.kill_after)
    finally:
        for one in restless:
            one.kill()
    scene.count("runs killed at a point" if ended.killed and torment.kill_after is None else
                "runs killed at any time" if ended.killed else "runs that ended by themselves")  # fmt: skip
    return _judged(scene, ended, "disturbed run")


def _judged(scene: Scene, ended: Ended, run: str) -> list[str]:
    """What a run did that it may not have done."""
    now = inventory((TMP, SPILL), HOSTILE)
    wrongs = scene.truth.wrongs(now, ended.killed)
    mortal = scene.truth.mortal
    folders = {identity[2:] for identity in (*mortal, *now) if identity[0] == "folder"}  # or not removed
    for kind, device, inode, mtime in ended.unlinked:
        if (kind, device, inode, mtime) not in mortal and not (
            kind == "folder" and (device, inode) in folders
        ):
            wrongs.append(f"it unlinked what was not dead: {kind} {device} {inode}")
    wrongs += [f"process {pid} is gone" for pid, began in scene.alive.items() if kin.began(pid) != began]
    if not scene.truth.moving:
        for one in scene.living:
            parked = list(one.server.socket.parent.glob(f".{one.server.socket.name}.npudoctor.*"))
            if not one.stopped and not (ended.killed and parked) and not answers(one.server.socket):
                wrongs.append(f"the server of {one.server.socket} answers no more")
    for dead in scene.dead:
        wrongs += [f"client {client.pid} of segment {dead.shmid} lost its rows"
                   for client in dead.clients if client.pipe >= 0 and client.ask() != kin.MAGIC]  # fmt: skip
    scene.disturbed |= ended.killed
    if not scene.disturbed:
        wrongs += [f"left without its name: {it.where}" for it in now.values() if ".npudoctor." in it.where]
    if ended.crashed:
        wrongs.append("npudoctor crashed")
    scene.count("refused", sum(done["status"] == "refused" for done in ended.report.get("actions", ())))
    return [f"{run}: {wrong}" for wrong in wrongs]


def _finished(scene: Scene) -> list[str]:
    """Clients end, and one more run finishes; what is left then is explained, and a last one does nothing."""
    wrongs: list[str] = []
    if any(one.clients for one in scene.dead) and scene.rng.random() < 0.5:
        wrongs += _judged(scene, operate(scene.machine, scene.uid, scene.owners), "run beside clients")
    for one in scene.dead:
        for client in one.clients:
            scene.alive.pop(client.pid, None)
            client.kill()
        if one.clients and one.mortal:
            scene.truth.mortal.update((*one.left["segment"], *one.left["socket"]))
    ended = operate(scene.machine, scene.uid, scene.owners)
    wrongs += _judged(scene, ended, "finishing run")
    now = inventory((TMP, SPILL), HOSTILE)
    wrongs += _left(scene, now, ended)
    if not wrongs and scene.rng.random() < 0.3:
        again = operate(scene.machine, scene.uid, scene.owners)
        wrongs += _judged(scene, again, "last run")
        if again.report.get("changed") or inventory((TMP, SPILL), HOSTILE) != now:
            wrongs.append(f"last run: it changed something: {again.report}")
    return wrongs


def _left(scene: Scene, now: Inventory, ended: Ended) -> list[str]:
    """What should have gone, and how much did go by our hand."""
    wrongs = []
    # A socket that was given a dead one's inode has its key too, and speaks for its segment.
    sockets = {thing.identity: ipc.ftok(thing.where) for thing in now.values() if stat.S_ISSOCK(_kind(thing))}
    for one in scene.dead:
        if any(key == one.key for it, key in sockets.items() if it not in one.left["socket"]):
            one.excused.update(("socket", "segment", "spill"))
        for kind, things in one.left.items():
            gone = [thing for thing in things if thing not in now]
            ours = one.mortal and not scene.truth.swept.intersection(things)
            scene.count(f"{kind}s removed", ours and bool(things) and len(gone) == len(things))
            if one.mortal and kind not in one.excused and len(gone) < len(things):
                wrongs.append(f"left: {kind} of {one}, {_said(one, ended)}")
            elif one.mortal and len(gone) < len(things):
                scene.count(f"{kind}s of the dead that rightly stay")
    return wrongs


def _kind(thing: Thing) -> int:
    return int(str(thing.state[0])) if thing.identity[0] == "file" else 0


def _said(one: Dead, ended: Ended) -> str:
    """What npudoctor said of a dead server's things."""
    names = (f"shmid {one.shmid} ", one.socket.name, one.spill.name or "-")
    actions = [done for done in ended.report.get("actions", ()) if any(name in str(done) for name in names)]
    return f"of which was said: {actions}"


def _clear(machine: Patient, scene: Optional[Scene]) -> None:
    if scene is not None:
        for child in [*scene.others, *(one.child for one in scene.dead)]:
            if child.pipe >= 0:
                with suppress(ProcessLookupError, ChildProcessError):
                    child.kill()
    machine.close()
    for shmid in ipc.rows():
        ipc.remove(shmid)
    for path in [*TMP.iterdir(), *SPILL.iterdir()]:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def states(block: Path) -> Path:
    """A place for journals: one for each user that npudoctor runs as."""
    for uid in (ROOT, USER):
        place = block / str(uid)
        place.mkdir(parents=True, mode=0o700)
        os.chown(place, uid, uid)
    block.chmod(0o755)
    return block
