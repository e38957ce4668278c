"""Forms of secrets that no assignment announces: options of programs, headers, tokens that their shape tells.

Every repetition is bounded and every start is anchored to a word, so that no text makes them slow
(tests/core/test_redact.py).
"""

from __future__ import annotations

import re
from typing import Optional

from npudoctor.core.lazy import pattern

# JSON inside of JSON has up to seven backslashes before a quote (1, 3, 7).
_QUOTE = r"\\{0,7}[\"']"
# Between an option and its value: blanks, "=", or what a list of arguments as JSON or Python has there.
_GAP = rf"(?:{_QUOTE}\s{{0,4}},\s{{0,4}}|[^\S\n]{{1,4}}|=)"
# Clients of registries and clouds, whose `login` takes -p.
_LOGIN = r"(?:docker|podman|nerdctl|buildah|skopeo|helm|oras|crane|isula|az|cloudctl|twine)"
_USER = rf"(?:-u|-U|-a|--user|--proxy-user|--[a-z-]{{0,10}}creds){_GAP}?{_QUOTE}?[^\s:%\"'/]{{1,99}}[:%]"
_WORDS = r"[^\S\n]{1,4}(?:--?[a-z]\S{0,40}[^\S\n]{1,4}){0,3}"

# Programs, and what stands in their arguments right before a secret, which may be quoted.
OPTIONS = tuple(
    (pattern(rf"\b(?:{program})(?![\w.])"), pattern(rf"(?:(?<=[\s,])|(?<=[\"']))(?:{option})"))
    for program, option in (
        (r"mysql\w{0,12}|mariadb[\w-]{0,12}|mycli|xtrabackup|7za?|rar|unrar", r"-p(?=[^\s=])"),
        ("sshpass", rf"-p{_GAP}?"),
        (rf"{_LOGIN}\b[^\n|;]{{0,60}}?\blogin|twine", rf"-p{_GAP}?"),
        ("openssl", rf"-k{_GAP}"),
        ("redis-cli|redis-benchmark", rf"(?:-a|--pass){_GAP}"),
        (r"mongo\w{0,10}|influx|clickhouse-client|cqlsh|isql", rf"(?:-p|-P|-password){_GAP}"),
        (r"ldap\w{2,10}", rf"-w{_GAP}"),
        (r"ipmitool|sqlcmd|bcp|zip|unzip", rf"-P{_GAP}"),
        (r"obsutil\w{0,12}|ossutil(?:64)?|coscli", rf"(?:-[ikt]|-ak|-sk|-secretkey){_GAP}"),
        ("wandb", rf"login{_WORDS}(?=[\w-]{{20}})"),
        ("swanlab", rf"login{_WORDS}(?=[\w-]{{16}})|login{_WORDS}-k[ =]{{1,4}}"),
        (r"useradd|usermod", rf"-p{_GAP}"),
        (r"snmp\w{1,8}", rf"-[AXc]{_GAP}"),
        ("rabbitmqctl", r"(?:add_user|change_password)\s{1,4}\S{1,60}\s{1,4}"),
        ("htpasswd", r"-\w{0,4}b\w{0,4}\s{1,4}\S{1,200}\s{1,4}\S{1,60}\s{1,4}"),
        (
            rf"(?:kubectl|oc|k3s|microk8s)\b[^\n|;]{{0,120}}?\bsecret(?:{_QUOTE})?",
            rf"--from-literal{_GAP}{_QUOTE}?[^\s=\"']{{1,253}}=",
        ),
        ("curl", rf"(?:-b|--cookie){_GAP}?(?=\S{{0,100}}=)"),
        (r"curl|http|https|xh|wget|skopeo|ctr|crictl|smbclient|lftp", _USER),
    )
)
# The same where no option is.
COMMANDS = tuple(
    map(
        pattern,
        (
            (
                r"\becho\s{1,4}(?:-n\s)?"
                r"(?=[^\n|]{1,200}\|[^\n|]{0,120}?(?:\bsudo\s[^\n|]{0,60}?-\w{0,4}S\b|-stdin\b|-with-token\b))"
            ),
            r"\becho\s{1,4}[^\n|]{0,200}?\w:(?=[^\n|]{1,200}\|\s{0,4}(?:sudo\s)?chpasswd\b)",
            r"\bpass(?:in|out)?(?:=|\s{1,4})pass:",
            rf"\blogin{_GAP}\S{{1,100}}\s{{1,8}}(?:account\s{{1,4}}\S{{1,100}}\s{{1,8}})?password\s{{1,8}}",
            r"(?m)^[ \t]{0,16}password[ \t]{1,8}(?=\S{0,60}[\d!@#$%^&*])(?=\S{1,200}[ \t\r]*$)",
            r"\b(?:requirepass|masterauth|rootpw\s{1,4}--(?:plaintext|iscrypted))\s{1,4}",
            r"\bmc\s{1,4}alias\s{1,4}set\s{1,4}(?:\S{1,200}\s{1,4}){3}",
            r"(?i)\bidentified\s(?:with\s\S{1,40}\s)?by\s{1,4}(?=[\"'])",
        ),
    )
)
# The arguments of one program: up to a pipe or semicolon, and bounded, so that all stays linear.
SEGMENT = pattern(r"[^\n|;]{0,400}")

# Authorization schemes, of which only what follows is secret.
_SCHEME = (
    r"(?:(?:basic|bearer|digest|token|negotiate|apikey|obs|oss\d?|[a-z0-9-]{0,20}-hmac-[\w-]{1,20}"
    r"|aws[\w-]{0,20}|sdk-[\w-]{1,20}|acs\d?[\w-]{0,20})\s{1,4})?"
)
# The secret is group 1.
HEADERS = tuple(
    pattern(form, re.IGNORECASE)
    for form in (
        # In quotes of its own, in quotes with its name, in none.
        *(
            rf"{before}\b{name}(?:{_QUOTE})?\s{{0,4}}[:=]\s{{0,4}}{opening}{scheme}({value}{{1,8192}})"
            for name, scheme in (
                (r"(?:set-)?cookies?", r"(?=[^\r\n]{0,200}=)"),
                (r"(?:proxy-)?authorization", _SCHEME),
            )
            for before, opening, value in (
                ("", rf"b?{_QUOTE}", r"[^\r\n\"'\\]"),
                (r"(?<=[\"'])", rf"(?!b?{_QUOTE})", r"[^\r\n\"'\\]"),
                (r"(?<![\"'])", rf"(?!b?{_QUOTE})", r"[^\r\n]"),
            )
        ),
        r"\bbearer\s{1,4}(?!token|auth|scheme|type|is\b)([^\s,;\"'\\]{1,8192})",
    )
)

# In URLs: signatures of presigned requests, webhooks of chats, tokens of bots, userinfo without a scheme.
WEB = tuple(
    pattern(form, re.IGNORECASE)
    for form in (
        (
            r"[?&;](?:sig|signature|x-amz-(?:signature|credential|security-token)|x-obs-security-token|sas|sign"
            r"|(?:oss|aws)?accesskeyid|x-goog-(?:signature|credential))=([^\s&\"'<>\\]{1,8192})"
        ),
        r"hooks\.slack\.com/(?:services|workflows|triggers)/([\w/-]{10,200})",
        (
            r"(?:discord(?:app)?\.com/api|open\.feishu\.cn/open-apis/bot|open\.larksuite\.com/open-apis/bot)"
            r"[\w/]{0,20}/(?:webhooks|hook)/([\w/-]{10,200})"
        ),
        r"(?:\.webhook|outlook)\.office(?:365)?\.com/webhook(?:b2)?/([\w@/-]{10,300})",
        r"/bot(\d{6,14}:[\w-]{25,80})",
        r"%3a%2f%2f[^%\s]{0,64}%3a([^\s&]{1,200}?)%40",
        r"\b[\w.-]{1,60}:([^\s:@\"']{1,200})@(?:tcp|unix)\(",
        (
            r"(?<![\w/@.:-])[a-z][\w.-]{0,40}:(?=[^\s:@/]{0,60}\d)(?=[^\s:@/]{0,60}[a-z])([^\s:@/\"']{6,200})"
            r"@(?!sha)(?=[a-z\d][\w.-])"
        ),
        r"(?m)^[\w.*-]{1,100}:(?:\*|543\d|6432):[\w*-]{1,60}:[\w*-]{1,60}:([^\s:]{1,200})$",
        (
            rf"proxy\w{{0,10}}(?:{_QUOTE})?\s{{0,4}}[=:]\s{{0,4}}(?:{_QUOTE})?"
            r"[^\s:@/\"']{1,64}:([^\s@/\"']{1,200})@"
        ),
        r"\"auth\\{0,7}\"\s{0,4}:\s{0,4}\\{0,7}\"([a-z0-9+/]{8,4096}={0,2})\\{0,7}\"",
    )
)

_PEM_BODY = r"[A-Za-z0-9+/]"
TOKENS = pattern(
    r"(?<![A-Za-z0-9_])("
    + "|".join(
        (
            r"(?:A3T[A-Z0-9]|AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{12,20}\b",
            r"LTAI[A-Za-z0-9]{12,30}\b",
            r"AKID[A-Za-z0-9]{16,40}\b",
            r"AKLT[\w-]{16,60}",
            r"AIza[\w-]{30,60}",
            r"ya29\.[\w-]{20,2048}",
            r"GOCSPX-[\w-]{20,60}",
            r"1//0[\w-]{30,200}",
            r"xox[abceoprs](?:\.xox[bp])?-[\w.-]{10,400}",
            r"xapp-\d-[\w-]{10,200}",
            r"npm_[A-Za-z0-9]{20,60}",
            r"pypi-[\w-]{16,400}",
            r"wandb_v1_\w{20,200}",
            r"(?:hf|api_org)_[A-Za-z0-9]{20,80}",
            r"ms-[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}",
            r"sk-[\w-]{20,400}",
            r"(?:[sr]k|whsec)_(?:live_|test_)?[A-Za-z0-9]{20,200}",
            r"gh[pousr]_[A-Za-z0-9]{20,255}",
            r"github_pat_\w{20,255}",
            r"gl(?:pat|dt|rt|ft|oas|ptt|cbt|imt|soat|agent|rtr)-[\w.-]{6,1024}",
            r"GR1348941[\w-]{16,60}",
            r"gsk_[A-Za-z0-9]{30,80}",
            r"xai-[A-Za-z0-9]{30,120}",
            r"r8_[A-Za-z0-9]{30,60}",
            r"(?:nvapi|pplx)-[\w-]{30,120}",
            r"dapi[0-9a-f]{32}(?:-\d)?\b",
            r"dckr_(?:pat|oat)_[\w-]{20,60}",
            r"hv[sbr]\.[\w-]{20,400}",
            r"SG\.[\w-]{16,40}\.[\w-]{16,80}",
            r"shp(?:at|ca|pa|ss)_[0-9a-fA-F]{32}",
            r"do[opr]_v1_[0-9a-f]{64}",
            r"gl(?:sa|c)_[\w=+/]{20,200}",
            r"lin_api_[A-Za-z0-9]{30,60}",
            r"ntn_[A-Za-z0-9]{30,60}",
            r"AGE-SECRET-KEY-1[A-Z0-9]{50,60}",
            r"sha256~[\w-]{20,60}",
            r"tskey-[a-z]{2,10}-[\w-]{16,100}",
            r"AT(?:ATT3|CTT3|BB)[\w=-]{20,300}",
            r"EAAC[A-Za-z0-9]{20,300}",
            r"figd_[\w-]{20,60}",
            r"sntry[su]_[\w=+/-]{20,400}",
            r"lsv2_[ps][tk]_[0-9a-f_]{20,80}",
            r"(?:tvly|pul|fw|jina|sbp|dp\.(?:pt|st)\.?|PMAK|NRAK|rubygems)[-_.]?(?=\w{0,60}\d)[A-Za-z0-9-]{24,100}",
            r"(?<=\.)atlasv1\.[\w-]{20,100}",
            r"eyJ[\w-]{8,8192}\.[\w-]{8,8192}\.[\w-]{0,8192}",
            r"[0-9]{8,10}:AA[\w-]{32,36}\b",
            r"\w{3}8Q~[\w.~-]{30,40}",
            r"b3BlbnNzaC1rZXktdjE[A-Za-z0-9+/=]{0,8192}",
            rf"MII[A-Z]{_PEM_BODY}{{56,8192}}={{0,2}}",
            r"LS0tLS1CRUdJTi[A-Za-z0-9+/=]{20,16384}",
        )
    )
    + r"|(?<=[^\w$])\$(?:1|2[abxy]?|5|6|7|y|apr1|argon2(?:id?|d))\$[\w./$=,+-]{20,300}"
    + r")"
)
# RSA, EC, OPENSSH, ENCRYPTED PRIVATE KEY; PGP PRIVATE KEY BLOCK.
_MARK = r"[^\n-]{0,40}PRIVATE KEY[^\n-]{0,10}"
KEY_BEGIN = pattern(rf"-----\s?BEGIN{_MARK}-----")
KEY_END = pattern(rf"-----\s?END{_MARK}-----")
# A line of a key whose first line is not here.
# PEM has 64 characters a line, OpenSSH 70, MIME 76.
KEY_LINE = pattern(r"(?:^|(?<=\s))([A-Za-z0-9+/]{64}|[A-Za-z0-9+/]{70}|[A-Za-z0-9+/]{76})\s{0,4}$")
URL = pattern(r"(?i)\b([a-z][a-z0-9+.-]{0,20})://((?:(?!://)[^\s\"'<>`|\\]){1,1024})")
_HOST = pattern(r"(?:[\w.-]+|\[[0-9a-fA-F:.]+\])(?=[:/?#,)\]}]|\Z)")
_SURE = pattern(
    r"(?:localhost|[\w-]+(?:\.[\w-]+)+|\[[0-9a-fA-F:.]+\]|[\w-]+(?=:\d))(?::\d{1,5})?(?=[/?#]|\Z)"
)
# What follows "host:" is a port if it is digits up to the end.
_PORT = pattern(r"\d{1,5}(?=[^\d@]|\Z)")


def password_span(scheme: str, rest: str) -> Optional[tuple[int, int]]:
    """Where the password is in what follows "://", as (first, last+1); None where there is none.

    Passwords contain "@" and "/" too: the last "@" before a host counts, unless an earlier one stands before
    what surely is a host.
    """
    at = _find_at_sign(rest)
    user, colon, password = rest[: max(at, 0)].partition(":")
    if at < 0 or "/" in user or "?" in user or user.startswith("["):
        return None
    if colon:
        # host:8080/path?mail=a@b has no user.
        return None if _PORT.match(password) else (len(user) + 1, at)
    # A user without a password: with https it is a token (https://ghp_...@github.com); with ssh or ftp a mere
    # login.
    return (0, at) if scheme.lower().endswith(("http", "https")) else None


def _find_at_sign(rest: str) -> int:
    slash = re.search(r"[/?#]", rest)
    first = rest.rfind("@", 0, slash.start()) if slash else -1
    if first > 0 and _SURE.match(rest, first + 1):
        return first
    at = rest.rfind("@")
    while at > 0 and not _HOST.match(rest, at + 1):
        at = rest.rfind("@", 0, at)
    return at
