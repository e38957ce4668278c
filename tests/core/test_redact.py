"""Secrets are hidden wherever they are told; words that only sound like it are not."""

from __future__ import annotations

import time

import pytest
from tests.support import secret_forms as forms
from tests.support.samples import samples

from npudoctor.core.redact.bundle import BundleRedactor
from npudoctor.core.redact.forms import HEADERS, OPTIONS, TOKENS, WEB
from npudoctor.core.redact.prefilter import may_hold_secret
from npudoctor.core.redact.redact import redact, redact_lines, redact_value
from npudoctor.core.redact.redactor import Redactor


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("password=hunter2 rest", "password=*** rest"),
        ("PASSWD: 'two words', rest", "PASSWD: '***', rest"),
        ('{"password": "two words", "a": 1}', '{"password": "***", "a": 1}'),
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
        "this user cannot write to the compile cache /etc/passwd: check /etc/passwd",
        "/run/secrets/my-token: Permission denied",
        "'/data/api_key': no such file",
        "PYTHONPATH=/opt/secret:/opt/token:/opt/b",
        "(/etc/db.passwd: not a regular file)",
        "Prefill batch, #new-token: 512, #cached-token: 0, token usage: 0.12, max_tokens=4096",
        "pad_token='<|endoftext|>', eos_token: </s>, eos_token_id=2, num_tokens: 1024, token=None",
        "Added key: store_based_barrier_key:1 to store for rank: 3",
        "docker login succeeded, key 0x6100c354, cache_key=kernel_add_fp16",
        "ssh-rsa key fingerprint, forward pass: 12 ms, tests pass=3 fail=0",
        "tcp://10.0.0.1:29500 master http://host:8080/a@b user@host",
        "mysql -h db -P 3306 -u root train",
        "secret_name: hccl, password_file=/run/x, PASSWORD=",
        "the passphrase is required, passphrase is not set, the passphrase is correct",
        "mnemonic add.f32 of an instruction that is not known to this compiler and was skipped here",
        "kubectl create configmap x --from-literal=mode=fast",
        "GET /x?a=100%3D5&tokenizer%3Dbert&size%3D10",
        "loss \\u0041 \\u4e2d\\u6587 key 3",
        "https://github.com/robots/bot12:34",
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
        "key=",
        "pass=pass:",
        'password=\\"',
        "password=(((((",
        "x@",
        "://a:b@",
        "\\",
        "mysql -p",
        "sshpass -p ",
        "curl --user ",
        "echo a ",
        "login a ",
        "cookie:",
        "authorization: ",
        "-----BEGIN PRIVATE KEY-----",
        "eyJaaaaaaaaaa.",
        "a" * 201 + "=",
        "a:b,",
        "env ",
        "密码是",
        "\udcff",
        "/a/token:",
        "/",
        "/token",
        "password%3D",
        "%25253D",
        "mnemonic abandon ",
        "passphrase is ",
        "\\u0070",
        "kubectl secret --from-literal=",
        "/bot1234567",
        "password,",
        "密码",
        "password | ",
        "password for a:b ",
        "password ........ ",
        "token.",
        "secret value=",
        'value="a" name="password" ',
        "<key>password</key><value>",
    ],
)
def test_no_text_makes_it_slow(unit: str) -> None:
    started = time.process_time()
    redact(unit * (100_000 // len(unit)) + "token://")
    assert time.process_time() - started < 3


@pytest.mark.parametrize(("text", "secret"), forms.FIRST + forms.SIBLINGS)
def test_no_form_survives(text: str, secret: str) -> None:
    """As a text, as lines one by one, in a list of a JSON document, and once more after the first time."""
    assert secret in text
    assert secret not in redact(text)
    assert secret not in str(redact_value({"facts": [{"seen": text}]}))
    assert redact(redact(text)) == redact(text)
    if "\n" not in text or "KEY-----" in text:
        assert secret not in "\n".join(redact_lines(text.split("\n")))


@pytest.mark.parametrize(("text", "secret"), forms.FIRST + forms.SIBLINGS)
def test_no_form_survives_within_a_line_of_a_log(text: str, secret: str) -> None:
    # Files of their own, and what only a line of YAML can tell: that blanks belong to the value.
    if text.startswith(("login", "db.example", "    token", "password: correct", forms.LINE)):
        return
    for prefix in ("2026-11-22 10:00:00 [INFO] rank 3: ", "+ ", "  12: "):
        assert secret not in redact(prefix + text)


def test_a_telling_key_hides_its_text() -> None:
    found = redact_value({"password": "hunter2", "n": 3, "a": {"api_key": "x1", "note": "well"}, "t": ["b"]})
    assert found == {"password": "***", "n": 3, "a": {"api_key": "***", "note": "well"}, "t": ["b"]}


@pytest.mark.parametrize("prefix", ["", "[rank3] 12:00:01 ", "worker_1 | "])
def test_a_key_over_several_lines_is_hidden_and_what_follows_is_not(prefix: str) -> None:
    lines = ["before", *(prefix + line for line in forms.FIRST[18][0].split("\n")), "loss 3.2"]
    shown = redact_lines(lines)
    assert shown[0] == "before" and shown[-1] == "loss 3.2"
    assert forms.LINE not in str(shown) and forms.BODY not in str(shown) and len(shown) == len(lines)


def test_a_key_without_an_end_does_not_hide_the_rest_of_a_log() -> None:
    redactor = Redactor()
    redactor.line("-----BEGIN " + "RSA PRIVATE KEY-----")
    shown = [redactor.line(f"step {number}") for number in range(1000)]
    assert shown[-1] == "step 999"
    assert redactor.counts["key"] == 1


def test_odd_bytes_stay() -> None:
    odd = b"\xff\xfepassword=\xc3(x \x00 end".decode("utf-8", "surrogateescape")
    shown = redact(odd)
    assert shown.encode("utf-8", "surrogateescape") == b"\xff\xfepassword=*** \x00 end"


def test_what_leaves_shows_only_variables_that_are_needed() -> None:
    leaving = BundleRedactor({"JOB_PASSWORD": "Tr0ub4dor", "HOME": "/root"})
    assert leaving.line("export HCCL_IF_IP=10.1.2.3") == "export HCCL_IF_IP=10.1.2.3"
    assert leaving.line("export CUSTOMER='Example and Sons'") == "export CUSTOMER=***"
    assert leaving.line('declare -x GITLAB_URL="http://git.example"') == "declare -x GITLAB_URL=***"
    assert leaving.line("EPOCHS=90") == "EPOCHS=90"
    assert leaving.line(f"INTERNAL_ID={forms.LONG}") == "INTERNAL_ID=***"
    assert leaving.line("connected with Tr0ub4dor, done") == "connected with ***, done"
    assert leaving.counts["variable"] == 4


OWN = ("CUSTOMER=acme-bank", "JIRA_USER=bob.smith", "OSS_ENDPOINT=oss.acme.example", "TEAM_NAME=risk two")
NEEDED = ("HCCL_IF_IP=10.0.0.1", "http_proxy=proxy.acme.example:3128", "_=/usr/bin/env", "RETRIES=3")


@pytest.mark.parametrize(
    "before", ["", "{}: ", "[rank{}] 12:00:0{} ", "(Worker pid={}, ip=10.0.0.1) ", '  "']
)
def test_a_dump_of_the_environment_leaves_only_what_is_needed(before: str) -> None:
    dump = [before.format(number, number) + line for number, line in enumerate((*OWN, *NEEDED), 1)]
    redactor = BundleRedactor({})
    shown = redactor.hide_dumps(["loss: 1.0", *dump, "RuntimeError: X=1"])
    for line, own in zip(shown[1:], OWN):
        assert line.endswith(f"{own.partition('=')[0]}=***")
    assert "10.0.0.1" in shown[5] and "acme" not in shown[6] and shown[8].endswith("RETRIES=3")
    assert (shown[0], shown[-1]) == ("loss: 1.0", "RuntimeError: X=1")
    assert redactor.counts["variable"] == 6


@pytest.mark.parametrize(
    "line",
    [
        "env " + " ".join(f"{name}='{value}'" for name, _, value in (one.partition("=") for one in OWN)),
        "environ({" + ", ".join("'{0}': '{2}'".format(*one.partition("=")) for one in OWN) + "})",
        '{"env": {' + ", ".join('"{0}": "{2}"'.format(*one.partition("=")) for one in OWN) + "}}",
        "[" + ", ".join("('{0}', '{2}')".format(*one.partition("=")) for one in OWN) + "]",
    ],
)
def test_a_dump_in_one_line_too(line: str) -> None:
    (shown,) = BundleRedactor({}).hide_dumps([line + " RANK='7' HCCL_IF_IP=10.0.0.1 python train.py"])
    assert not any(one.partition("=")[2] in shown for one in OWN) and "HCCL_IF_IP=10.0.0.1" in shown
    assert shown.endswith("python train.py")


def test_what_is_no_dump_stays() -> None:
    errors = [f"[ERROR] HCCL({number}) reason: ERRNO=EBUSY, the link is down" for number in range(9)]
    few = ["loss: 1.0", *OWN, "loss: 0.9"]
    mixed = ["loss: 1.0", "BATCH=a b", "step 1", "RATE=c d", "step 2", "SEED=e f", "step 3"]
    for lines in (errors, few, mixed):
        assert BundleRedactor({}).hide_dumps(lines) == lines


WORD = "S3cret-p4ssw0rd-of-ours=x"


@pytest.mark.parametrize("number", range(len(OPTIONS)))
def test_every_option_of_every_program_tells_and_is_hidden(number: int) -> None:
    """The cheap look at the words of a text must let all through that the patterns know."""
    program, option = OPTIONS[number]
    names = [name for name in samples(program.pattern) if program.search(name)]
    assert names
    for name in names:
        for before in samples(option.pattern):
            text = f"{name} {before}{WORD} rest"
            assert may_hold_secret(text) and WORD[:8] not in redact(text), text


def test_every_form_of_a_token_tells_and_is_hidden() -> None:
    tokens = [token for token in samples(TOKENS.pattern) if TOKENS.search(f"see {token} here")]
    assert len(tokens) > 80
    for token in tokens:
        assert redact(f"see {token} here") == "see *** here", token


def test_every_form_of_a_header_and_a_url_tells() -> None:
    for pattern in (*HEADERS, *WEB):
        texts = [text for text in samples(pattern.pattern) if pattern.search(text)]
        assert all(map(may_hold_secret, texts)), texts


@pytest.mark.parametrize(
    "text",
    [
        "unrar x -ptulip77 a.rar",
        "cqlsh -u bob -p tulip77",
        "isql -U sa -P tulip77",
        "twine upload -u bob -p tulip77 dist/x.whl",
        "usermod -p tulip77 bob",
        "xh -a bob:tulip77 example.org",
        "ctr images pull -u bob:tulip77 x",
        "skopeo copy -u bob:tulip77 x",
    ],
)
def test_programs_that_no_other_word_announces(text: str) -> None:
    assert redact(text) == text.replace("tulip77", "***")


def test_vendors_forms_are_taken_from_detect_secrets() -> None:
    pytest.importorskip("detect_secrets")
    token = "sq0csp-" + (forms.LONG * 2)[:43]
    assert redact(token) == token
    assert BundleRedactor({}).line(f"using {token}") == "using ***"


@pytest.mark.parametrize(
    "line",
    [
        "PASS: test_matmul",
        "credentials: not needed",
        "password: expired",
        "Authorization: disabled",
        "passwd: files",
    ],
)
def test_what_tells_about_a_secret_is_none(line: str) -> None:
    assert redact(line) == line
