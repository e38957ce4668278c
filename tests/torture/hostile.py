"""Processes that never rest while npudoctor runs: a hostile user's, and clients that come and go."""

from __future__ import annotations

import ctypes
import os
import random
import socket
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, Callable

from tests.support import ipc

from . import kin
from .acts import EXCHANGE
from .inventory import CHURN_SIZE
from .kin import Child
from .scene import COMMON, HOSTILE, ROOT, SPILL, TMP, Scene

TICK = 0.0005
Turn = Callable[[random.Random], None]


def unleash(scene: Scene) -> list[Child]:
    """Start what belongs to this round; they are killed before anything is counted."""
    chosen: list[tuple[Turn, int]] = []
    if scene.rng.random() < 0.6:
        chosen.append((churn, HOSTILE))
    if scene.rng.random() < 0.4:
        chosen.append((come_and_go, ROOT))
    if scene.keeper == "common" and scene.rng.random() < 0.5:
        scene.truth.moving = True
        for one in scene.dead:
            if one.folder == COMMON:
                one.excused.update(("socket", "segment", "spill"))
        chosen.append((exchange, HOSTILE))
    if scene.keeper == "hostile" and scene.rng.random() < 0.5:
        scene.truth.moving, scene.truth.blind = True, f"{TMP}/mindspore/"
        chosen.append((relink, HOSTILE))
    scene.count("processes that never rest", len(chosen))
    return [_restless(turn, uid, scene.rng.random()) for turn, uid in chosen]


def _restless(turn: Turn, uid: int, seed: float) -> Child:
    def forever(_pipe: int) -> None:
        rng = random.Random(seed)  # noqa: S311  (it is to be repeatable)
        while True:
            with suppress(OSError):
                turn(rng)
            time.sleep(TICK)

    def work() -> dict[str, Any]:
        return {}

    return kin.child(work, uid, forever)


def churn(rng: random.Random) -> None:
    """Links, sockets, files and segments that look like a cache server's, here and gone."""
    path = TMP / f"cache_server_p6{rng.randrange(4):04}"
    path.unlink(missing_ok=True)
    kind = rng.randrange(4)
    if kind == 0:
        path.symlink_to(rng.choice([*TMP.glob("cache_server_p2*"), Path("/etc/passwd")]))
    elif kind == 1:
        with socket.socket(socket.AF_UNIX) as link:
            link.bind(str(path))
            if rng.random() < 0.5:
                link.listen()
                time.sleep(TICK)
    elif kind == 2:
        log = TMP / "mindspore.churn.root.log.INFO.20261121-101010.77"
        log.unlink(missing_ok=True)
        log.write_text("[INFO] MD(77,1,dataset-cache-server):2026-11-21-10:10:10.1.1\n" * 9)
    else:
        ipc.remove(ipc.make(0x61 << 24 | rng.randrange(1 << 24), CHURN_SIZE))


def come_and_go(rng: random.Random) -> None:
    """A client of any segment, for a moment."""
    shmids = [shmid for shmid, row in ipc.rows().items() if row["key"] >> 24 == 0x61]
    if shmids:
        address = ipc.attach(rng.choice(shmids))
        time.sleep(TICK)
        ipc.detach(address)


def exchange(rng: random.Random) -> None:
    """One socket in the place of another, where all may write."""
    names = sorted((TMP / COMMON).glob("cache_server_p2*"))
    if len(names) > 1:
        one, other = (os.fsencode(path) for path in rng.sample(names, 2))
        ctypes.CDLL(None).renameat2(-100, one, -100, other, EXCHANGE)


def relink(rng: random.Random) -> None:
    """A link in the place of the hostile user's own folder, and the folder again."""
    folder, aside = TMP / "mindspore", TMP / "mindspore-churn"
    if folder.is_symlink():
        folder.unlink()
        aside.rename(folder)
    else:
        folder.rename(aside)
        folder.symlink_to(rng.choice([str(TMP), str(SPILL / "0"), "/"]))
