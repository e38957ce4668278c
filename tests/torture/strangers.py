"""Things of others: segments that look like a cache server's and are none, and a hostile user's traps."""

from __future__ import annotations

import os
import time

from tests.support import ipc

from . import kin
from .scene import HOSTILE, ROOT, SPILL, TMP, USER, Scene, keys

GIB = ipc.GIB


def strangers(scene: Scene) -> None:
    """Some of each."""
    for _ in range(scene.rng.randint(1, 4)):
        scene.rng.choice([lookalike, small, of_a_file, of_a_socket])(scene)
    scene.rng.choice([bait, forged_log, dead_socket, links])(scene)


def _segment(scene: Scene, key: int, size: int, mode: int, uid: int, alive: bool) -> int:
    """A segment that is nobody's business of ours; -1 when its key is taken."""
    if key in keys(scene):
        return -1
    maker = kin.segment(key, size, mode, uid)
    if "error" in maker.said:
        raise AssertionError(maker.said)
    if alive:
        scene.live(maker)
    else:
        maker.kill()
    scene.count("foreign segments")
    return int(maker.said["shmid"])


def lookalike(scene: Scene) -> None:
    """The right size, mode and first byte of the key, a dead maker, nobody attached: no proof at all."""
    key = 0x61 << 24 | scene.rng.randrange(1 << 24)
    _segment(scene, key, GIB * scene.rng.choice([1, 4]), 0o600, scene.rng.choice([ROOT, USER]), False)


def small(scene: Scene) -> None:
    """A data base's."""
    _segment(scene, 5432001 + scene.rng.randrange(99), 56, 0o600, USER, scene.rng.random() < 0.5)


def of_a_file(scene: Scene) -> None:
    """Its key is ftok() of a file of the system, or of a living server's socket."""
    paths = ["/etc/passwd", "/etc/group", *(str(one.server.socket) for one in scene.living)]
    _segment(scene, ipc.ftok(scene.rng.choice(paths)), GIB, 0o600, ROOT, False)


def of_a_socket(scene: Scene) -> None:
    """Its key is a dead server's socket's, and something else gives it away: its maker lives, it is another
    user's, its size or mode is wrong. The server's own segment has gone before."""
    victims = [one for one in scene.dead if one.socket.exists() and not one.clients]
    if not victims:
        return
    one = scene.rng.choice(victims)
    ipc.remove(one.shmid)
    scene.truth.mortal.add(("segment", one.shmid))
    others = HOSTILE if one.uid != HOSTILE else USER
    size, mode, uid, alive = scene.rng.choice(
        [(GIB, 0o600, one.uid, True), (GIB, 0o600, others, False), (GIB + 4096, 0o600, one.uid, False),
         (GIB, 0o640, one.uid, False)]
    )  # fmt: skip
    _segment(scene, one.key, size, mode, uid, alive)
    scene.count("foreign segments with a dead socket's key")
    one.excused.update(("socket", "spill"))


def bait(scene: Scene) -> None:
    """A link of the hostile user's in /tmp that leads to somebody's socket."""
    targets = [one.socket for one in scene.dead] + [one.server.socket for one in scene.living]
    with kin.as_user(HOSTILE):
        (TMP / f"cache_server_p{next(scene.ports)}").symlink_to(scene.rng.choice(targets))


def forged_log(scene: Scene) -> None:
    """A log that the hostile user wrote names the key of a segment that is not its own, and its maker."""
    key = 0x61 << 24 | scene.rng.randrange(1 << 24)
    shmid = _segment(scene, key, GIB, 0o600, scene.rng.choice([ROOT, USER]), False)
    if shmid < 0:
        return
    maker = ipc.rows()[shmid]["cpid"]
    signed = key - (1 << 32) if key >> 31 else key
    head = f"[INFO] MD({maker},7f60820b8800,dataset-cache-server):{time.strftime('%Y-%m-%d-%H:%M:%S')}"
    text = f"{head}.486.312 [c/cache/0.cc:37] Init] Creation of shared memory successful. Shared memory key "
    with kin.as_user(HOSTILE):
        path = TMP / f"mindspore.{os.uname().nodename}.root.log.INFO.20261121-101010.{maker}"
        path.write_text(f"Running on machine: {os.uname().nodename}\n{text}{signed}\n", encoding="ascii")
    scene.count("forged logs")


def dead_socket(scene: Scene) -> None:
    """A socket of the hostile user's at which nobody listens."""
    import socket

    with kin.as_user(HOSTILE), socket.socket(socket.AF_UNIX) as link:
        link.bind(str(TMP / f"cache_server_p{next(scene.ports)}"))


def links(scene: Scene) -> None:
    """Where servers of some version put theirs the hostile user has a link to a folder of somebody else."""
    with kin.as_user(HOSTILE):
        if scene.keeper == "hostile":
            (TMP / "mindspore" / "login2").symlink_to(SPILL)
        elif scene.keeper == "common":
            (TMP / "mindspore" / "login2").symlink_to(TMP)
