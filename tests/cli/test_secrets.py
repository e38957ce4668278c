"""Secrets planted in the environment, in arguments, in a drop-in's answers and in logs reach nobody."""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest
from tests.support import secret_forms as forms

from .command import Npudoctor

pytestmark = pytest.mark.once

PLANTED = {
    "HTTPS_PROXY": f"http://bob:{forms.WORD}@proxy:3128",
    "DB_PASSWORD": forms.WORD,
    "WANDB_API_KEY": forms.HEX,
    "HUAWEICLOUD_SDK_SK": forms.LONG,
    "PGPASSWORD": forms.WORD,
    "MASTER_ADDR": f"bob:{forms.WORD}@host",
    "HCCL_IF_IP": f"password={forms.WORD}",
    "HCCL_CONNECT_TIMEOUT": f"token={forms.WORD}",
    "RANK_TABLE_FILE": f"https://bob:{forms.WORD}@host/ranks.json",
}
SECRETS = (forms.WORD, forms.HEX, forms.LONG)
TALKATIVE = f"""
    yield Facts({{"password": {forms.WORD!r}, "seen": ["--token", {"--token " + forms.WORD!r}],
                 "env": {{"ACCESS_KEY": {forms.HEX!r}, "note": "sshpass -p {forms.WORD} ssh h"}}}})
    yield Finding("talks.bad", "docker login -u bob -p {forms.WORD} failed",
                  evidence={tuple(forms.FIRST[18][0].splitlines())!r},
                  fix=Fix("curl -u bob:{forms.WORD} x", (Command(("mysql", "-p{forms.WORD}")),),
                          risk=Risk.MANUAL))
"""


def test_no_secret_is_in_a_whole_report(npudoctor: Npudoctor) -> None:
    npudoctor.drop_in("talks", TALKATIVE, top="from npudoctor import *")
    npudoctor.variables.update(PLANTED)
    tried = ((), ("--format", "json"), ("-v",), ("--format", "json", "--profile", "full"))
    for done in npudoctor.each([("check", *options) for options in tried]):
        assert "talks" in done.out
        for secret in (*SECRETS, forms.LINE, forms.BODY):
            assert secret not in done.out + done.err


def test_what_is_refused_does_not_repeat_secrets(npudoctor: Npudoctor) -> None:
    lines = (
        ("check", f"--password={forms.WORD}"),
        ("check", "--config", f"https://bob:{forms.WORD}@host/c"),
        ("explain", f"token={forms.WORD}"),
        ("check", "--python", f"/no/password={forms.WORD}"),
        ("check", "--ignore", f"password={forms.WORD}"),
    )
    job = npudoctor("run", "--", "/no/program", f"--token={forms.WORD}")
    for done in (*npudoctor.each(lines), job):
        assert done.status != 0 and done.err
        assert forms.WORD not in done.out + done.err


def test_no_secret_leaves_in_a_bundle(npudoctor: Npudoctor, tmp_path: Path) -> None:
    planted = [text for text, _secret in forms.FIRST if "\n" not in text]
    planted += [*forms.FIRST[18][0].splitlines(), f"export CUSTOMER_NAME='{forms.WORD}'", "loss: 3.2"]
    planted += [f"OUR_{name}={forms.WORD} {name}" for name in ("CUSTOMER", "TEAM", "SITE", "CHIEF", "STORE")]
    failure = "ImportError: libhccl.so: cannot open shared object file: No such file or directory"
    (tmp_path / "job.log").write_text("\n".join([*planted, failure]) + "\n", encoding="utf-8")
    npudoctor.variables.update(PLANTED)
    out = tmp_path / "out.tar.gz"
    assert npudoctor("explain", str(tmp_path / "job.log"), "--collect", str(out)).status == 0
    with tarfile.open(out) as bundle:
        texts = {one.name: bundle.extractfile(one).read().decode() for one in bundle}  # type: ignore[union-attr]
    for name, text in texts.items():
        for secret in (*SECRETS, forms.LINE, forms.BODY, forms.UUID, forms.BASE64):
            assert secret not in text, name
    assert len(texts) == 5, list(texts)
    (log,) = [text for name, text in texts.items() if "/logs/" in name]
    assert "loss: 3.2" in log and failure in log
    (about,) = [text for name, text in texts.items() if name.endswith("README.txt")]
    for kind in ("private keys", "passwords in command lines", "environment variables", "tokens"):
        assert kind in about
