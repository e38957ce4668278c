"""Steps as data: the lines a person would type, and the way into the journal and back."""

from __future__ import annotations

import json
import subprocess

import pytest

from npudoctor.core.marks import FileMark, ProcessMark
from npudoctor.fixing.plan import target_of
from npudoctor.fixing.steps.steps import (
    Command,
    DeleteRule,
    Export,
    InsertRule,
    KnownStep,
    Remount,
    RemoveFiles,
    RemoveSharedMemory,
    RemoveSocket,
    RemoveUnused,
    RestoreSocket,
    SignalProcess,
    decode,
    encode,
    quote,
)

SEGMENT = RemoveSharedMemory(0, 0x6100E1C3, 13601, 100, 200, 1 << 30, 1000, 5, 6)
SOCKET = RemoveSocket("/tmp/a b/cache_server_p1", 5, 6, 7, 1000, 50052, (0, 3))
RESTORE = RestoreSocket("/tmp/.cache_server_p1.npudoctor.ab", "/tmp/cache_server_p1", 5, 6, 7, 1000)
FILES = RemoveFiles(
    "/data/x/", 5, 6, 1000, (FileMark("IMG00000.LB", 5, 7, 8, 9), FileMark("-rf", 5, 8, 8, 9))
)
END = SignalProcess((ProcessMark(12, 900, ("/a", "/b")), ProcessMark(11, 800, ())), 1000)
UNUSED = RemoveUnused("/dev/shm", 1000, (FileMark("torch_7_1_0", 5, 9, 8, 9),))
STEPS: list[KnownStep] = [
    Command(("ls", "-l")), Export("A", "b c"), SEGMENT, SOCKET, RESTORE, FILES, END, UNUSED,
    Command(("a",), ("b", "c"), ("d",), "e", (FileMark("/x", 1, 2, 3, 4),)),
    Remount("/dev/shm", 3 << 30, 4097),
    InsertRule(("inet", "t", "in"), ("accept",), "c"), DeleteRule(("inet", "t", "in"), ("accept",), "c"),
]  # fmt: skip


def test_the_lines() -> None:
    assert [line for step in STEPS for line in step.lines()] == [
        "ls -l",
        "export A='b c'",
        "ipcrm -m 0",
        "rm -- '/tmp/a b/cache_server_p1'",
        "mv -n -- /tmp/.cache_server_p1.npudoctor.ab /tmp/cache_server_p1",
        "rm -- /data/x/IMG00000.LB",
        "rm -- /data/x/-rf",
        "rmdir -- /data/x",
        "kill -TERM 12 11",
        "sleep 10; kill -KILL 12 11",
        "rm -- /dev/shm/torch_7_1_0",
        "a",
        "mount -o remount,size=3g /dev/shm",
        "nft insert rule inet t in accept comment c",
        STEPS[-1].lines()[0],
    ]


@pytest.mark.parametrize("step", STEPS, ids=lambda step: type(step).__name__)
def test_through_json_and_back(step: KnownStep) -> None:
    assert decode(json.loads(json.dumps(encode(step)))) == step


def test_names_that_are_no_text_survive_the_journal() -> None:
    step = Command(("rm", "a\udcff\n'"))
    assert decode(json.loads(json.dumps(encode(step)))) == step


def test_a_segment_without_a_log() -> None:
    step = RemoveSharedMemory(1, 2, 3, 4, 5, 6, 7)
    assert (step.log_device, step.log_inode) == (None, None)
    assert decode(encode(step)) == step


def test_what_is_no_step() -> None:
    class Strange:
        def lines(self) -> tuple[str, ...]:
            return ()

    with pytest.raises(TypeError):
        encode(Strange())
    with pytest.raises(KeyError):
        decode({"kind": "Reboot"})
    with pytest.raises(TypeError):
        decode({"kind": "RemoveSocket", "path": "/x"})


WORDS = [
    "plain",
    "a b",
    "it's",
    "$HOME `id` \\",
    "tab\tnew\nline",
    "\x1b[31m",
    "é 中文",
    "\udcff\udc80",
    "-rf",
    "",
]


@pytest.mark.parametrize("word", WORDS)
def test_a_shell_reads_the_word_back(word: str) -> None:
    command = ["bash", "-c", f"printf %s {quote(word)}"]
    said = subprocess.run(command, capture_output=True, check=True).stdout
    assert said == word.encode("utf-8", "surrogateescape")


@pytest.mark.parametrize("word", WORDS)
def test_nothing_that_a_terminal_obeys(word: str) -> None:
    assert quote(word).isprintable()


def test_what_a_step_acts_on() -> None:
    assert [target_of(step) for step in STEPS] == [
        ("ls -l",), ("export A='b c'",), 0, SOCKET.path, RESTORE.path, FILES.directory,
        ((12, 900), (11, 800)),
        (("/dev/shm", "torch_7_1_0", 9),),
        ("a",), "/dev/shm", STEPS[-2].lines(), STEPS[-1].lines(),
    ]  # fmt: skip
