"""`npudoctor` alone says what to do next on this machine, on standard error, and stays a usage error."""

from __future__ import annotations

from collections.abc import Sequence

from npudoctor.cli.advice import list_check_commands
from npudoctor.testing import device, fake_host

from .command import Done, Npudoctor


def advice(run: Npudoctor) -> list[str]:
    return read(run())


def read(done: Done) -> list[str]:
    assert (done.status, done.out) == (64, "")
    lines = done.err.splitlines()
    return [line.strip() for line in lines[lines.index("Next steps on this machine:") + 1 :]]


def commands(nodes: Sequence[str]) -> list[str]:
    return [
        command
        for command, _why in list_check_commands(fake_host({f"/dev/{name}": device() for name in nodes}))
    ]


def test_the_machines_own_devices_decide() -> None:
    """On a machine with them it is checked; one without is what only its owner can judge."""
    assert commands(["davinci0", "davinci1", "davinci_manager"]) == ["npudoctor check"]
    assert commands([]) == ["npudoctor check --expect none", "npudoctor check --expect npu"]
    npus = [f"davinci{number}" for number in range(8)]
    ((_command, why),) = list_check_commands(fake_host({f"/dev/{name}": device() for name in npus}))
    assert why == "can this machine train on its 8 NPUs?"


def test_help_comes_first_and_advice_last(npudoctor: Npudoctor) -> None:
    done = npudoctor()
    assert read(done) and all(line.startswith("npudoctor check") for line in read(done))
    assert done.err.startswith("Usage: npudoctor [OPTIONS] COMMAND")
    assert max(map(len, done.err.splitlines())) <= 80


def test_a_slurm_job_of_many_nodes_is_checked_as_one(npudoctor: Npudoctor) -> None:
    command = "npudoctor fleet check --engine slurm"
    many, one = npudoctor.each([(), ()], [{"SLURM_JOB_NUM_NODES": "4"}, {"SLURM_JOB_NUM_NODES": "1"}])
    assert any(command in line for line in read(many)) and not any(command in line for line in read(one))


def test_logs_in_this_directory_are_explained(npudoctor: Npudoctor) -> None:
    assert not any("explain" in line for line in advice(npudoctor))
    (npudoctor.folder / "train.log").write_text("EI0006\n")
    assert any(line.startswith("npudoctor explain ") for line in advice(npudoctor))


def test_it_speaks_chinese(npudoctor: Npudoctor) -> None:
    said = npudoctor("--lang", "zh").err
    assert "npudoctor check" in said and "本机" in said
