"""A telling name hides its value whatever stands between them, and whichever line the value is on."""

from __future__ import annotations

import pytest
from tests.support.secret_forms import WORD

from npudoctor.core.redact.bundle import BundleRedactor
from npudoctor.core.redact.nearby import looks_chosen
from npudoctor.core.redact.redact import redact, redact_lines

KEYS = (
    "db_password",
    "DB_PASSWORD",
    "dbPassword",
    "access_token",
    "client-secret",
    "api_key",
    "管理员密码",
    "令牌",
)
ONE_LINE = (
    "{key} -> {value}",
    "{key} => {value}",
    "{key} := {value}",
    "{key}\t{value}",
    "| {key} | {value} |",
    "│ {key} │ {value} │",
    "{key} .......... {value}",
    "{key} (admin): {value}",
    "{key} for user bob: {value}",
    "{key} was set to {value}",
    "{key} is now {value}",
    "[{key}] {value}",
    "* {key} - {value}",
    '"{key}";"{value}"',
    "('{key}', '{value}')",
    '{key}("{value}")',
    "{key}: str = '{value}'",
    '<add key="{key}" value="{value}"/>',
    '<user value="{value}" name="{key}"/>',
    "<entry><key>{key}</key><value>{value}</value></entry>",
    "<{key} type='text'>{value}</{key}>",
    "&quot;{key}&quot;:&quot;{value}&quot;",
)
SEVERAL_LINES = (
    "{key}: |-\n  {value}\nnext: 1",
    "  {key}: >\n    {value}",
    "{key}:\n  - {value}",
    '{key} = """\n{value}\n"""',
    '"{key}": [\n  "{value}"\n]',
    "- name: {key}\n  value: {value}",
    "| user | {key} |\n|------|------|\n| bob | {value} |",
    "user,{key}\nbob,{value}",
    "{key}=\\\n{value}",
)


@pytest.mark.parametrize("form", ONE_LINE + SEVERAL_LINES)
def test_no_sign_between_name_and_value_lets_it_survive(form: str) -> None:
    for key in KEYS:
        text = form.format(key=key, value=WORD)
        lines = text.split("\n")
        bundle = BundleRedactor({})
        assert WORD not in redact(text), text
        assert WORD not in "\n".join(redact_lines(lines)), text
        assert WORD not in "\n".join(map(bundle.line, lines)), text


@pytest.mark.parametrize("form", ONE_LINE)
def test_the_same_within_a_line_of_a_log(form: str) -> None:
    for key in KEYS[:4]:
        text = f"2026-01-02 03:04:05,678 INFO [rank3] {form.format(key=key, value=WORD)}"
        assert WORD not in redact(text), text


@pytest.mark.parametrize(
    "line",
    [
        "root密码已修改为：{value}",
        "请使用口令{value}登录",
        "用户 root 的密码为 {value}",
        "A temporary password is generated for root@localhost: {value}",
        "initial admin password generated: {value}",
        "the token you got for the cluster is {value}",
        "https://host/reset/token/{value}0/info",
        "mc alias set store http://host:9000 key123456 {value}",
        "openssl enc -k {value} -in x",
        "rootpw --plaintext {value}",
        "tskey-auth-{value}{value}",
        "sha256~{value}{value}",
    ],
)
def test_sentences_paths_and_programs(line: str) -> None:
    assert WORD not in redact(line.format(value=WORD))


@pytest.mark.parametrize(
    "text",
    [
        "password for bob is missing",
        "token | count",
        "token 12345 at position 7",
        "the secret is stored in vault-01",
        "password -> see the manual",
        "tokens per second | 1234.5",
        "loading tokenizer from Qwen2.5-7B-Instruct",
        "keys:\n  - layer1.weight\n  - layer2.bias",
        "password:\nnext: 1",
        "name | tokens\nrank0 | 4096",
        "- name: LAYER\n  value: 12",
        "the token is in /etc/node-7/token",
        "密码为空",
        "auth -> sha256",
    ],
)
def test_what_only_stands_near_stays(text: str) -> None:
    assert redact(text) == text
    assert "\n".join(redact_lines(text.split("\n"))) == text


def test_a_block_ends_where_its_indentation_ends() -> None:
    lines = ("password: |", f"  {WORD}", f"  x{WORD}", "steps: 1200", "loss went down")
    assert redact_lines(lines)[1:] == ("  ***", "  ***", "steps: 1200", "loss went down")


@pytest.mark.parametrize("value", ["hunter2x!", "Zx9kQv7TpLm2", "a1b2c3d4e5"])
def test_chosen_values(value: str) -> None:
    assert looks_chosen(value, 6)


@pytest.mark.parametrize(
    "value", ["node12", "layer1.weight", "/etc/x1", "12345678", "v1.2.3", "0x1f", "f(x1)=", "words"]
)
def test_words_numbers_paths_and_code_are_not_chosen(value: str) -> None:
    assert not looks_chosen(value, 5)
