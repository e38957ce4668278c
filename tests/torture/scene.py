"""A random machine: cache servers dead and alive of three users, others' segments, a hostile user's traps."""

from __future__ import annotations

import os
import random
import signal
import socket
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Optional

from tests.support import ipc
from tests.support.machine import Server

from . import kin
from .doctor import Patient
from .inventory import Identity, Truth, file, inventory
from .kin import Child

ROOT, USER, HOSTILE = 0, 65531, 65532
PLACE = Path(os.environ.get("NPUDOCTOR_TORTURE_PLACE", "/nonexistent"))  # a worker's own
TMP, SPILL, STATE, SUITE = (PLACE / name for name in ("tmp", "spill", "state", "suite"))
SLACK = 2.3  # seconds after which a process with a dead one's pid is seen to have begun later
OLD, COMMON, LOGIN, CACHE = ".", "mindspore", "mindspore/login", "mindspore/cache"


@dataclass
class Dead:
    """A server that was killed, and all that it left. `excused`: it need not go, as something that
    happened stands against its proof; `mortal`: npudoctor may remove it."""

    uid: int
    port: int
    folder: str
    child: Child
    shmid: int
    key: int
    socket: Path
    log: Path
    spill: Path
    left: dict[str, list[Identity]]
    mortal: bool
    excused: set[str] = field(default_factory=set)
    clients: list[Child] = field(default_factory=list)


@dataclass
class Living:
    """A server that serves."""

    server: Server
    uid: int
    port: int
    folder: str
    left: list[Identity]
    stopped: bool = False


@dataclass
class Scene:
    """Everything on the machine of one round, and what is known of it."""

    rng: random.Random
    machine: Patient
    numbers: Counter[str]
    uid: int = ROOT
    owners: tuple[int, ...] = ()
    keeper: str = "root"
    truth: Truth = field(default_factory=Truth)
    dead: list[Dead] = field(default_factory=list)
    living: list[Living] = field(default_factory=list)
    others: list[Child] = field(default_factory=list)
    alive: dict[int, str] = field(default_factory=dict)
    aged: bool = False
    disturbed: bool = False  # killed, or a name was taken while its socket had none
    ports: Iterator[int] = field(default_factory=lambda: iter(range(20000, 30000)))

    def look(self) -> None:
        """Whatever is there now is protected, unless it is known to be dead."""
        self.truth.learn(inventory((TMP, SPILL), HOSTILE))

    def live(self, child: Child) -> Child:
        """A process that must not be harmed."""
        self.others.append(child)
        self.alive[child.pid] = kin.began(child.pid)
        return child

    def may_remove(self, uid: int) -> bool:
        """Whether npudoctor, as it is run in this round, has the right to."""
        return uid == self.uid or uid in self.owners

    def count(self, what: str, number: int = 1) -> None:
        """For the table at the end."""
        self.numbers[what] += number


def build(scene: Scene) -> None:
    """Decide who is who, and put everything there."""
    rng = scene.rng
    scene.uid, scene.owners = rng.choice([(ROOT, ()), (ROOT, (USER,)), (ROOT, (USER,)), (USER, ())])
    scene.keeper = rng.choice(["root", "user", "common", "common", "hostile"])
    scene.aged = rng.random() < 0.1
    _common_folder(scene)
    for uid in (ROOT, USER, HOSTILE):
        place = SPILL / str(uid)
        place.mkdir(mode=0o700)
        os.chown(place, uid, uid)
    from .strangers import strangers

    for _ in range(rng.randint(1, 4)):
        die(scene, rng.choice([scene.uid, scene.uid, *(scene.owners or (scene.uid,)), ROOT, USER, HOSTILE]))
    for _ in range(rng.randint(0, 2)):
        serve(scene, rng.choice([ROOT, USER, HOSTILE]))
    strangers(scene)
    if scene.aged:
        time.sleep(SLACK)
    scene.look()


def _common_folder(scene: Scene) -> None:
    """/tmp/mindspore: root's or a user's own, the hostile user's, or open to all as 2.0.0a0 made it."""
    folder = TMP / "mindspore"
    folder.mkdir()
    owner = {"user": USER, "hostile": HOSTILE}.get(scene.keeper, ROOT)
    os.chown(folder, owner, owner)
    folder.chmod(0o777 if scene.keeper == "common" else 0o700)


def _places(scene: Scene, uid: int) -> list[str]:
    owner = {"root": ROOT, "user": USER, "hostile": HOSTILE}.get(scene.keeper)
    if owner == uid:
        return [OLD, COMMON, LOGIN, CACHE]
    return [OLD, COMMON, COMMON, COMMON] if scene.keeper == "common" else [OLD]


def _log_place(scene: Scene, uid: int) -> str:
    owner = {"root": ROOT, "user": USER, "hostile": HOSTILE}.get(scene.keeper)
    return "mindspore/cache/log" if owner == uid and scene.rng.random() < 0.7 else "."


def _words(scene: Scene, uid: int, port: int, folder: str) -> list[str]:
    words = [str(port), "--tmp", str(TMP), "--folder", folder, "--log-folder", _log_place(scene, uid)]
    if scene.rng.random() < 0.6:
        words += ["--spill", str(SPILL / str(uid)), "--containers", str(scene.rng.randint(0, 3))]
    return words


def die(scene: Scene, uid: int) -> None:
    """A server that makes all it makes, and is killed. Something of it may be missing, or held."""
    port, folder = next(scene.ports), scene.rng.choice(_places(scene, uid))
    words = _words(scene, uid, port, folder)
    silent = scene.rng.random() < 0.1
    child = kin.served([*words, "--log-level", "2" if silent else "1"], uid)
    said = child.said
    if "error" in said:
        _failed(scene, TMP / folder / f"cache_server_p{port}", said["error"])
        return child.kill()
    paths = [Path(said[name]) for name in ("socket", "log", "spill")]
    left: dict[str, list[Identity]] = {
        "socket": [file(said["socket"]).identity],
        "segment": [("segment", said["shmid"])],
        "spill": [],
    }
    if said["spill"]:
        left["spill"] = [file(str(path)).identity for path in (paths[2], *paths[2].iterdir())]
    one = Dead(
        uid, port, folder, child, said["shmid"], said["key"], paths[0], paths[1],
        paths[2] if said["spill"] else Path(), left, scene.may_remove(uid),
    )  # fmt: skip
    held = scene.rng.random() < 0.15
    if held:
        one.clients.append(scene.live(kin.client(one.shmid, uid)))
    child.kill(reap=scene.rng.random() < 0.8)
    scene.dead.append(one)
    scene.count("dead servers")
    _spoil(scene, one, silent)
    if not one.mortal:
        return scene.count("dead servers of others")
    for kind, things in left.items():
        if not (held and kind in ("segment", "socket")):
            scene.truth.mortal.update(things)
    if held:
        scene.count("clients attached before")
    return None


def _failed(scene: Scene, path: Path, why: str) -> None:
    """A segment that another socket's server left had the new socket's key, its inode being given again."""
    if "File exists" not in why:
        raise AssertionError(f"a server did not start: {why}")
    path.unlink()
    scene.count("starts that failed, as their key was taken")


def _spoil(scene: Scene, one: Dead, silent: bool) -> None:
    """Parts of the proof that are missing from the start."""
    luck = scene.rng.random()
    logless = silent
    if luck < 0.1:
        one.log.unlink()
        logless = True
    if logless:
        one.excused.add("spill")
    if 0.1 <= luck < 0.25 or (luck < 0.03):
        # Unlinked, its inode and key are often the next socket's; renamed, they are not.
        one.socket.unlink() if scene.rng.random() < 0.3 else scene.machine.lose(one.socket)
        if logless:
            one.excused.add("segment")  # nothing proves it: protected, though it is dead
            one.left["segment"] = []
    # Where all may write, only what is the caller's own is touched.
    if scene.keeper == "common" and one.folder == COMMON and one.uid != scene.uid:
        one.excused.update(("socket", "segment", "spill"))


def serve(scene: Scene, uid: int, port: Optional[int] = None, folder: Optional[str] = None) -> None:
    """A server of its own program that lives on, or is stopped."""
    port = next(scene.ports) if port is None else port
    folder = scene.rng.choice(_places(scene, uid)) if folder is None else folder
    first, *words = _words(scene, uid, port, folder)
    try:
        server = scene.machine.server(int(first), *words[2:], *(("--uid", uid) if uid else ()))
    except AssertionError:  # it has told why on stderr
        return _failed(scene, TMP / folder / f"cache_server_p{port}", "File exists")
    left: list[Identity] = [("segment", server.shmid), file(str(server.socket)).identity]
    if str(server.spill) != ".":
        left += [file(str(path)).identity for path in (server.spill, *server.spill.iterdir())]
    one = Living(server, uid, port, folder, left, scene.rng.random() < 0.2)
    if one.stopped:
        server.signal(signal.SIGSTOP)
    scene.living.append(one)
    scene.alive[server.pid] = kin.began(server.pid)
    return scene.count("living servers")


def answers(path: Path) -> bool:
    """Whether somebody listens at a socket."""
    with socket.socket(socket.AF_UNIX) as link:
        link.settimeout(5)
        return link.connect_ex(str(path)) == 0


def keys(scene: Scene) -> set[int]:
    """The keys that are taken."""
    return {row["key"] & 0xFFFFFFFF for row in ipc.rows().values()}
