"""Which Python a job's command starts: behind launchers, in scripts, with Python's own options."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from npudoctor.launch.job_python import find_job_python


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with two environments and a script, in which the job is started."""
    for name in ("sys", "env", ".venv", "conda/envs/train"):
        for program in ("python", "python3"):
            file = tmp_path / name / "bin" / program
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text("")
            file.chmod(0o755)
    (tmp_path / "env/bin/activate").write_text("")
    for name in ("conda/bin/conda", "sys/bin/uv"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
        (tmp_path / name).chmod(0o755)
    (tmp_path / "jobs").mkdir()
    (tmp_path / "jobs/train.py").write_text("")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def variables(place: Path, **more: str) -> dict[str, str]:
    return {"PATH": f"{place}/sys/bin:{place}/conda/bin:/usr/bin:/bin", "HOME": str(place), **more}


@pytest.mark.parametrize(
    "command",
    [
        "env/bin/python train.py",
        "env A=1 -u B env/bin/python train.py",
        "env PATH=env/bin:/usr/bin:/bin python train.py",
        "nice -n 5 env/bin/python train.py",
        "timeout -k 2 60 env/bin/python train.py",
        "nohup env/bin/python3 -m x",
        "mpirun -np 8 -x A env/bin/python train.py",
        "srun --ntasks 8 nice env A=1 env/bin/python train.py",
        "bash -c env/bin/python",
        "./run.sh",
        "bash run.sh",
        "sh -eu run.sh",
        "timeout 5 ./run.sh",
        "./activating.sh",
        "./exporting.sh",
        "./console",
    ],
)
def test_the_python_behind_what_starts_it(place: Path, command: str) -> None:
    python = f"{place}/env/bin/python"
    scripts = {
        "run.sh": f'#!/bin/sh\nset -e\nexec {python} jobs/train.py "$@"\n',
        "activating.sh": f"#!/bin/bash\nsource {place}/env/bin/activate && python3 train.py\n",
        "exporting.sh": f"#!/bin/bash\nexport PATH={place}/env/bin:$PATH\npython train.py | tee log\n",
        "console": f"#!{python}\nprint()\n",
    }
    for name, text in scripts.items():
        (place / name).write_text(text)
        (place / name).chmod(0o755)
    found = find_job_python(command.split(), variables(place)).path
    assert found is not None and os.path.abspath(found) in (python, f"{python}3")


def test_environments_that_are_named(place: Path) -> None:
    known = variables(place)
    assert find_job_python("conda run -n train python train.py".split(), known).path == (
        f"{place}/conda/envs/train/bin/python"
    )
    assert find_job_python(f"conda run -p {place}/env python x.py".split(), known).path == (
        f"{place}/env/bin/python"
    )
    assert find_job_python("uv run python train.py".split(), known).path == f"{place}/.venv/bin/python"
    assert find_job_python("uv run train.py".split(), known).path == f"{place}/.venv/bin/python3"


@pytest.mark.parametrize("command", ["true", "nosuch", "echo python", "./data"])
def test_what_starts_none_tells_none(place: Path, command: str) -> None:
    (place / "data").write_text("#!/bin/true\n")
    (place / "data").chmod(0o755)
    assert find_job_python(command.split(), variables(place)).path is None


@pytest.mark.parametrize(
    ("command", "first", "alone", "no_user_site"),
    [
        ("python jobs/train.py", "{place}/jobs", False, False),
        ("python -u -W ignore -X dev jobs/train.py -I", "{place}/jobs", False, False),
        ("python -m jobs", None, False, False),
        ("python -uc pass -I", None, False, False),
        ("python -I jobs/train.py", "", True, True),
        ("python -Es jobs/train.py", "{place}/jobs", True, True),
        ("python -P jobs/train.py", "", False, False),
        ("python -Wignore -m jobs", None, False, False),
    ],
)
def test_where_python_looks_first(
    place: Path, command: str, first: object, alone: bool, no_user_site: bool
) -> None:
    seen = find_job_python(command.split(), variables(place))
    wanted = first.format(place=os.path.realpath(place)) if isinstance(first, str) else None
    assert (seen.first_folder, seen.ignores_variables, seen.no_user_site) == (wanted, alone, no_user_site)


def test_what_that_python_sees_of_the_variables(place: Path) -> None:
    known = variables(place, PYTHONPATH=":/x", PYTHONHASHSEED="0")
    alone = find_job_python(["python", "-I", "x.py"], known).adapt(known)
    assert {name for name in alone if name.startswith("PYTHON")} == {"PYTHONNOUSERSITE"}
    (place / "run.sh").write_text("export PYTHONPATH=/y:$PYTHONPATH\ncd /else\npython train.py\n")
    inside = find_job_python(["bash", "run.sh"], known)
    assert (inside.first_folder, inside.changed_directory) == ("", True)
    assert inside.adapt(known)["PYTHONPATH"] == "/y:/x"
    assert find_job_python(["python", "x.py"], known).adapt(known) == known


def test_a_script_that_starts_itself_ends(place: Path) -> None:
    (place / "run.sh").write_text("bash run.sh\n")
    assert find_job_python(["bash", "run.sh"], variables(place)).path is None
