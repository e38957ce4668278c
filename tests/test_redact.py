"""Secrets are hidden wherever they are told; words that only sound like it are not."""

from __future__ import annotations

import time

import pytest

from npudoctor.redact import redact


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("password=hunter2 rest", "password=*** rest"),
        ("PASSWD: 'two words', rest", "PASSWD: ***, rest"),
        ('{"password": "two words", "a": 1}', '{"password": ***, "a": 1}'),
        ("password:   hunter2", "password:   ***"),
        ("DB_PASSWORD=x;MY_SECRET=y", "DB_PASSWORD=***;MY_SECRET=***"),
        ("--token abc --user me", "--token *** --user me"),
        ("--auth-token=abc", "--auth-token=***"),
        ("api_key=1 apikey=2 access-key: 3", "api_key=*** apikey=*** access-key: ***"),
        ("AWS_SECRET_ACCESS_KEY=AKIA", "AWS_SECRET_ACCESS_KEY=***"),
        ("private_key=abc secret-key=abc", "private_key=*** secret-key=***"),
        ("Authorization: Bearer abc.def", "Authorization: Bearer ***"),
        ("https://me:pw@host/x", "https://me:***@host/x"),
        ("redis://:pw@host", "redis://:***@host"),
        ("git+https://ghp_x@host/y", "git+https://***@host/y"),
        ("credentials=abc", "credentials=***"),
        ("AWS_ACCESS_KEY_ID=AKIAIOSFODNN7EXAMPLE", "AWS_ACCESS_KEY_ID=***"),
        ("OBS_AK=HPUA1234567890, sk: 'abcd1234567890'", "OBS_AK=***, sk: '***'"),
        ("Authorization: Basic dXNlcjpwYXNz", "Authorization: Basic ***"),
        ("MYSQL_PWD=abc1 rest", "MYSQL_PWD=*** rest"),
        ("curl -s -u bob:pw http://x", "curl -s -u bob:*** http://x"),
        ("wandb: api key 0123456789abcdef0123456789abcdef01234567", "wandb: api key ***"),
        ("found hf_abcdefghijklmnopqrstuvwxyz here", "found *** here"),
        ("cookie eyJhbGciOiJI.eyJzdWIiOiJ1.c2lnbmF0", "cookie ***"),
        ("/etc/passwd: password=hunter2 rest", "/etc/passwd: password=*** rest"),
        ("/opt/token:/opt/token=abc", "/opt/token:/opt/token=***"),
        ("/login?password: abc", "/login?password: ***"),
        ("https://host/token:abc", "https://host/token:***"),
        ("/x y/token: /x", "/x y/token: ***"),
    ],
)
def test_secrets_are_hidden(text: str, shown: str) -> None:
    assert redact(text) == shown
    assert redact(shown) == shown


@pytest.mark.parametrize(
    "text",
    [
        "",
        "the token is missing",
        "key 0x6100c354, nattch 0",
        "task=3 mask: 12345678901 sk=4096 ak: broadcast_to",
        "OLDPWD=/root/x SLURM_PWD=/root/x",
        "risk-free disk-usage-of-this-long-name: 12345678",
        "tokenizer=bert passwords",
        "http://host:8080/a@b",
        "ssh://git@host/x",
        "ASCEND_HOME_PATH=/usr/local/Ascend",
        "monkey=1 keyboard: 2",
        "this user may not write to the compile cache /etc/passwd: see /etc/passwd",
        "/run/secrets/my-token: Permission denied",
        "'/data/api_key': no such file",
        "PYTHONPATH=/opt/secret:/opt/token:/opt/b",
        "(/etc/db.passwd: not a regular file)",
    ],
)
def test_the_rest_stays(text: str) -> None:
    assert redact(text) == text


@pytest.mark.parametrize(
    "unit",
    [
        "password=",
        "--a-",
        "-",
        "a.",
        "token ",
        "https://",
        "x://a:",
        "bearer ",
        'secret="',
        "a+",
        "/a/token:",
        "/",
        "/token",
    ],
)
def test_no_text_makes_it_slow(unit: str) -> None:
    started = time.monotonic()
    redact(unit * (100_000 // len(unit)) + "token://")
    assert time.monotonic() - started < 3
