"""What happens at a point of a run, while npudoctor stands still: each act tells the truth what it did."""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import time

from tests.support import ipc

from . import kin
from .inventory import file
from .scene import COMMON, HOSTILE, SPILL, TMP, USER, Dead, Scene, keys, serve

EXCHANGE = 2
LATER = 30.0  # seconds


def attach(scene: Scene, point: str) -> bool:
    """A client attaches to a dead server's segment: from now on it must stay, unless this is the one gap
    between the last look and the removal, in which the client keeps what it mapped."""
    rows = ipc.rows()
    there = [one for one in scene.dead if one.shmid in rows and not rows[one.shmid]["perms"] & 0o1000]
    named = [one for one in there if point.endswith(f" {one.shmid}")]
    if not there:
        return False
    one = scene.rng.choice(named or there)
    late = point == f"before remove segment {one.shmid}"
    client = kin.client(one.shmid, one.uid)
    if "error" in client.said:
        client.kill()
        return False
    one.clients.append(scene.live(client))
    if late:
        scene.count("clients in the last gap")
    else:
        scene.truth.mortal.difference_update(one.left["segment"])
    return True


def restart(scene: Scene, point: str) -> bool:
    """A server starts on a dead one's port and cleans as the real one does: an unused segment, the socket."""
    free = [one for one in scene.dead if one.mortal and "restart" not in one.excused]
    if not free:
        return False
    one = scene.rng.choice(free)
    before = None
    if os.path.lexists(one.socket):
        if scene.truth.moving or file(str(one.socket)).identity not in one.left["socket"]:
            return False  # somebody put another one there, or is about to
        seen = os.lstat(one.socket)
        before = (seen.st_dev, seen.st_ino)
        row = next((row for row in ipc.rows().values() if row["key"] & 0xFFFFFFFF == one.key), None)
        if row is not None and (row["nattch"] or row["shmid"] != one.shmid):
            return False  # "Cache server is already up and running"
        ipc.remove(one.shmid)
        scene.truth.swept.update((*one.left["socket"], *one.left["segment"]))
        one.socket.unlink()
    one.excused.update(("socket", "segment", "spill", "restart"))
    scene.disturbed = True
    _folder_for(one)
    serve(scene, one.uid, one.port, one.folder)
    again = os.lstat(one.socket) if os.path.lexists(one.socket) else None
    scene.count("inodes given again", again is not None and (again.st_dev, again.st_ino) == before)
    return True


def _folder_for(one: Dead) -> None:
    """What somebody's rm took: the way to the socket."""
    path = TMP
    for part in (part for part in one.folder.split("/") if part != "."):
        path = path / part
        if not path.exists():
            path.mkdir(mode=0o700)
            os.chown(path, one.uid, one.uid)


def sweep(scene: Scene, point: str) -> bool:
    """Somebody's rm -rf /tmp/*."""
    scene.truth.swept.update(
        thing.identity for thing in scene.truth.known.values() if thing.where.startswith(f"{TMP}/")
    )
    for path in TMP.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)
    for one in scene.dead:
        one.excused.update(("socket", "segment", "spill"))
    for living in scene.living:
        living.stopped = True  # nobody can ask it any more
    return True


def exchange(scene: Scene, point: str) -> bool:
    """Where all may write, the hostile user puts one socket in the place of another.

    Not between our last look and the unlink: who may write the folder could unlink it himself.
    """
    if scene.keeper != "common" or point.startswith("before unlink socket"):
        return False
    folder = TMP / COMMON
    names = sorted(path.name for path in folder.glob("cache_server_p*")) if folder.exists() else []
    if len(names) < 2:
        return False
    one, other = scene.rng.sample(names, 2)
    meant = point.rpartition(" ")[2]
    if meant in names and meant != other:
        one = meant  # the one that is about to be renamed
    scene.truth.moving = True
    for dead in scene.dead:
        if dead.folder == COMMON:
            dead.excused.update(("socket", "segment", "spill"))
    with kin.as_user(HOSTILE):
        paths = [os.fsencode(folder / name) for name in (one, other)]
        return bool(ctypes.CDLL(None).renameat2(-100, paths[0], -100, paths[1], EXCHANGE) == 0)


def relink(scene: Scene, point: str) -> bool:
    """The hostile user puts a link to somebody's folder in the place of its own, or takes it away again."""
    folder, aside = TMP / "mindspore", TMP / "mindspore-churn"
    if scene.keeper != "hostile" or not os.path.lexists(folder):
        return False
    scene.truth.moving, scene.truth.blind = True, f"{folder}/"
    with kin.as_user(HOSTILE):
        try:
            if folder.is_symlink():
                folder.unlink()
                aside.rename(folder)
            else:
                folder.rename(aside)
                folder.symlink_to(scene.rng.choice([str(TMP), str(SPILL / "0"), "/"]))
        except OSError:  # one of those that never rest was faster
            return False
    return True


def rebirth(scene: Scene, point: str) -> bool:
    """A new process gets a dead server's pid."""
    pids = [one for one in scene.dead if one.child.pipe < 0 and not kin.began(one.child.pid)]
    if not pids:
        return False
    one = scene.rng.choice(pids)
    new = kin.reborn(one.child.pid)
    if new is None:
        return False
    scene.live(new)
    scene.count("pids given again")
    if not scene.aged:  # it cannot be told from the server itself
        one.excused.update(("socket", "segment", "spill"))
    return True


def squat(scene: Scene, point: str) -> bool:
    """A segment of somebody else's gets the key of one that is gone."""
    taken = keys(scene)
    free = [one for one in scene.dead if one.key not in taken]
    if not free:
        return False
    one = scene.rng.choice(free)
    maker = kin.segment(one.key, ipc.GIB, 0o600, HOSTILE if one.uid != HOSTILE else USER)
    if "error" in maker.said:
        return False
    if scene.rng.random() < 0.5:
        scene.live(maker)
    else:
        maker.kill()
    one.excused.update(("socket", "spill"))
    return True


def hold(scene: Scene, point: str) -> bool:
    """Somebody opens spilled data: it must stay, unless its files are being removed at this moment."""
    full = [one for one in scene.dead if one.left["spill"] and any(one.spill.glob("IMG*"))]
    if not full:
        return False
    one = scene.rng.choice(full)
    scene.live(kin.holder(next(one.spill.glob("IMG*")), one.uid))
    if not point.startswith(("before unlink file", "after unlink file", "before remove folder")):
        for path in (one.spill, *one.spill.iterdir()):
            scene.truth.mortal.discard(file(str(path)).identity)
    one.excused.add("spill")
    return True


def add(scene: Scene, point: str) -> bool:
    """A file that was not there before, in a folder of spilled data."""
    full = [one for one in scene.dead if one.left["spill"] and one.spill.exists()]
    if not full:
        return False
    one = scene.rng.choice(full)
    new = one.spill / scene.rng.choice(["notes.txt", "IMG00077.LB"])
    if new.exists():
        return False
    with kin.as_user(one.uid):
        new.write_text("mine")
    # Not in the second of the death, which the kernel tells without a fraction.
    os.utime(new, (time.time() + LATER, time.time() + LATER))
    scene.truth.mortal.discard(file(str(one.spill)).identity)
    one.excused.add("spill")
    return True


def death(scene: Scene, point: str) -> bool:
    """A living server is killed: from now on it is dead, and may go if it is ours to remove."""
    if not scene.living:
        return False
    one = scene.living.pop(scene.rng.randrange(len(scene.living)))
    del scene.alive[one.server.pid]
    one.server.signal(signal.SIGKILL)
    if scene.may_remove(one.uid):
        scene.truth.mortal.update(one.left)
    return True


ACTS = {
    act.__name__: act
    for act in (attach, attach, restart, sweep, exchange, relink, rebirth, squat, hold, add, death)
}
