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
