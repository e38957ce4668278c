"""Whether a text may hold a secret at all: only what holds one of the words below is worth the patterns.
A healthy run never loads these."""

from __future__ import annotations

from functools import lru_cache

# Also what the patterns recognise as hidden already; a change must reach names._HARMLESS.
HIDDEN = "***"

# What a lower-case text must hold to be worth the patterns. One for each family of forms: a test asks for an
# example of every alternative in forms.py.
_NAMES = (
    "pass",
    "pwd",
    "secret",
    "token",
    "key",
    "cred",
    "auth",
    "cookie",
    "sig",
    "session",
    "jwt",
    "webhook",
)
# A name alone announces nothing: one of these stands between it and its value, or before it.
_MARKS = (
    *("=", ":", '"', "'", "：", "＝", "<", " -", "set", "env ", "arg ", " is ", " was "),
    *("%3d", "%3a", "%253"),
)
# With these even a blank announces, if what follows is no word: "token Zx9k".
NEAR = (
    "pass",
    "pwd",
    "secret",
    "token",
    "cred",
    "cookie",
    "webhook",
    "ccess key",
    "rivate key",
    "auth",
    "_sk",
    "bindpw",
    "rootpw",
    "psk",
    "_pw",
    "pi key",
    "on key",
    "_key",
    "-key",
)
PHRASES = ("phrase", "mnemonic", "seed words", "recovery words", "backup words")
ALONE = ("password", "bearer", "api key", "requirepass", "masterauth", *PHRASES)
SPOKEN = ("密码", "口令", "密钥", "令牌", "私钥", "凭证", "凭据", "秘钥", "暗号")
# The beginnings of tokens in forms.py, in lower case.
SHAPES = (
    ":// :*: sas= %3a%2f%2f @ --user proxy :543 :6432: :aa begin @tcp( webhook hooks /hook/ eyj aiza ya29."
    " gocspx- 1//0 akia asia abia acca ltai akid aklt hf_ api_org_ ghp_ gho_ ghs_ ghu_ ghr_ github_pat_"
    " glpat- gldt- glrt- glft- gloas- glptt- glcbt- glimt- glsoat- glagent- glrtr- gr1348941 sk- sk_ rk_ xox"
    " xapp- npm_ pypi- ms- gsk_ xai- r8_ nvapi- pplx- dapi dckr_ hvs. hvb. hvr. sg. shpat_ shpca_ shppa_"
    " shpss_ dop_v1_ doo_v1_ dor_v1_ a3t ls0tls1crudjti"
    " glsa_ glc_ sha256~ tskey- atatt3 atctt3 atbb eaac figd_ sntrys_ sntryu_ lsv2_"
    " tvly pul- pul_ fw_ fw- jina sbp_ sbp- dp.pt dp.st pmak nrak rubygems atlasv1."
    " office lin_api_ ntn_ whsec_ wandb_v1_ age- aaaa $7$ $6$ $5$ $1$ $2 $y$ $apr1$ argon2 b3blbnnzac1"
    " mii 8q~ /bot"
).split()
PROGRAMS = (
    "mysql mariadb curl wget redis mongo ldap smbclient ipmitool openssl zip sqlcmd obsutil ossutil"
    " wandb swanlab login sudo chpasswd ftp rabbitmq 7z creds influx clickhouse coscli snmp identified"
    " bcp mycli xtrabackup cqlsh isql twine useradd usermod alias crictl skopeo"
).split()
# Programs whose names are in many words: only with an option.
_BRIEF = ("rar", "ctr", "xh", "http")
# "http" alone is in every log; with an option behind it, it may be HTTPie.
_OPTION = (" -", '"-', "'-")
SHORT = tuple(
    f"{name}{mark}" for name in ("ak", "sk", "pat", "sid") for mark in ("=", ":", '"', "'", " =", " :")
)
_SHORT_TEXT = 200  # characters
_TRIGGERS = (*NEAR, *ALONE, *SPOKEN, *SHAPES, *PROGRAMS, *SHORT)


def may_hold_secret(text: str) -> bool:
    """Return whether a text may hold a secret: cheap; it may say yes for nothing, never no for a secret."""
    # Short texts are asked about again and again: most checks are skipped for the same reasons.
    return _holds_trigger(text) if len(text) <= _SHORT_TEXT else _holds_trigger.__wrapped__(text)


@lru_cache(maxsize=256)
def _holds_trigger(text: str) -> bool:
    lowered = text.lower()
    # JSON may write every letter as an escape.
    if "\\u00" in lowered:
        from npudoctor.core.redact.escapes import unescape

        lowered = f"{lowered}\n{unescape(lowered)[0]}"
    return holds_name(lowered) or any(word in lowered for word in _TRIGGERS) or holds_brief(lowered)


def holds_name(lowered: str) -> bool:
    """Return whether a telling name stands in a lower-case text, and a sign that may announce its value."""
    return any(name in lowered for name in _NAMES) and (
        lowered[:1] == "-" or any(mark in lowered for mark in _MARKS)
    )


def holds_brief(lowered: str) -> bool:
    """Return whether a program with a short name stands in a lower-case text, and an option."""
    return any(name in lowered for name in _BRIEF) and any(mark in lowered for mark in _OPTION)
