"""Which names announce a secret, and how much their value must look like one before it is hidden."""

from __future__ import annotations

import enum
import functools
import math
import re
from collections import Counter
from typing import Optional

from npudoctor.core.lazy import pattern


class Weight(enum.Enum):
    """What a name says of its value."""

    NONE = 0
    RANDOM = 1  # "key", "auth": hidden when the value looks random
    TYPED = 2  # "PASS", "pwd": hidden when a person could have chosen the value as a password
    TOKEN = 3  # hidden unless it is a number or a marker of a vocabulary, which language models call tokens
    SECRET = 4  # hidden whatever it is


# Splits DB_PASSWORD, dbPassword and DBPassword alike.
_WORDS = pattern(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[^\W\d_a-zA-Z]+|\d+")
_SECRET = pattern(r"passwo?r?d|passphrase|passcode|secret|credential")
# "key" alone may be a key of a table; with one of these words before it, it opens something.
_KEY = pattern(
    r"(?:api|access|private|secret|account|signing|encryption|sharedaccess|subscription|preshared)keys?"
    r"(?:id|data|value|secret|base64|b64|pem|prod|dev|test)?\d*$"
    r"|clientkeydata$|presharedkey$|psk$|bindpw$|rootpw$|connectionstring$|sharedaccess(?:signature|token)$|(?:ak|access)sk$|identitytoken$"
)
# Chinese names end in the word that tells.
_SPOKEN = pattern(r"(?:密码|口令|密钥|令牌|私钥|凭证|凭据|秘钥)$")
# A name that ends so tells about the secret, and is not it.
_ABOUT = frozenset(
    "file files path paths dir directory folder name names count type len length size policy expired expires"
    " expiry expiration ttl url uri required enabled disabled prompt method provider manager store mount"
    " version age min max hint field strength checker helper reset attempts mode format ref class error"
    " missing invalid source env var index limit usage per num mask".split()
)
# Words behind "token" that do not change what it is.
_AFTER_TOKEN = frozenset(
    "value key data str string text header secret base64 b64 prod dev test old new".split()
)
# What language models count, or name in a vocabulary.
_VOCABULARY = frozenset(
    "pad bos eos unk sep cls mask special image video audio stop max min num n start end next last first"
    " prompt completion generated per input output added seq total mean avg forced decoder begin additional"
    " context".split()
)
# Words before "pass" that make it a password: db_pass, smtp_pass.
_OWNERS = frozenset(
    "db user smtp mail email redis root admin mysql pg postgres database ftp http https proxy login ssh"
    " rabbit rabbitmq mongo ldap my key keystore store rsync ssl bind vnc bmc ipmi os node host registry"
    " harbor".split()
)
# Names of which the value decides: "session" may be a number or a cookie.
_RANDOM = frozenset(
    "key keys auth sig signature sign sk ak sid session sessionid cookie salt hmac pat cred creds jwt bearer"
    " otp webhook dsn license jsessionid phpsessid sessdata".split()
)
# What programs write where there is no secret, and what was hidden already.
_HARMLESS = pattern(
    r"(?i)(?:none|null|nil|true|false|undefined|unset|n/a|yes|no|not|on|off|files"
    r"|(?:not )?(?:missing|expired|disabled|enabled|required|needed|set|found|given|provided|supported|empty)"
    r"|\**|x{3,}|[.*-]+|<[^<>]*>|\[\w*\]|\{\}|\(\)"
    r"|(?:none|null|true|false)[,;)\]}]+)$"
)
_NUMBER = pattern(r"[-+]?[\d.][\d.,_/%:]*(?:e[-+]?\d+)?[a-z%/]{0,8}$", re.IGNORECASE)

# As in "tests-unit_fast.v2": words with a few digits, which entropy alone would take for a key.
_JOINED_WORDS = pattern(r"[a-z]+\d{0,4}(?:[_.:-](?:[a-z]+\d{0,4}|\d{1,4}))+$", re.IGNORECASE)


@functools.lru_cache(maxsize=4096)
def weight(name: str) -> Weight:
    """What a name says about its value, whichever way its words are joined: DB_PASSWORD, dbPassword,
    db-password.
    """
    words = [word.lower() for word in _WORDS.findall(name)]
    if not words:
        return Weight.NONE
    joined = "".join(words)
    about = words[-1] in _ABOUT
    if _KEY.search(joined) or _SPOKEN.search(joined):
        return Weight.SECRET
    if _SECRET.search(joined):
        return Weight.RANDOM if about else Weight.SECRET
    return _weigh_token_name(words, name) or _weigh_last_word(words, joined, name)


def _weigh_token_name(words: list[str], name: str) -> Optional[Weight]:
    """The weight of a name that ends in "token" or "tokens", with or without a word such as "value" behind;
    None for any other.
    """
    stem = list(words)
    while len(stem) > 1 and (stem[-1] in _AFTER_TOKEN or stem[-1].isdigit()):
        stem.pop()
    if stem[-1].endswith("token"):
        vocabulary = len(stem) > 1 and stem[-2] in _VOCABULARY
        return Weight.RANDOM if vocabulary else Weight.TOKEN
    if stem[-1] == "tokens" and len(stem) > 1 and stem[-2] in ("auth", "access", "api", "secret", "refresh"):
        return Weight.TOKEN
    return None


def _weigh_last_word(words: list[str], joined: str, name: str) -> Weight:
    """The weight of a name by its last word."""
    last = words[-1]
    if last in ("pass", "pwd"):
        # DB_PASS is a password; TEST_PASS or first_pass may be a count.
        owned = len(words) > 1 and (words[-2] in _OWNERS or last == "pwd")
        return Weight.TYPED if not owned or last == "pwd" else Weight.SECRET
    if joined.endswith(("sshpass", "dbpass", "userpass", "userpwd")):
        return Weight.SECRET
    if (
        last in ("pw", "psk", "auth", "sk", "cookie", "session", "webhook")
        and name.isupper()
        and len(words) > 1
    ):
        return Weight.TYPED
    return Weight.RANDOM if last in _RANDOM else Weight.NONE


def looks_secret(value: str, name_weight: Weight) -> bool:
    """Return whether a value is to be hidden under a name of this weight."""
    if name_weight is Weight.NONE or not value or _HARMLESS.match(value):
        return False
    if name_weight is Weight.SECRET:
        return True
    if name_weight is Weight.TOKEN:
        return not _NUMBER.match(value)
    if name_weight is Weight.TYPED:
        if len(value) < 4 or value[0] in "/~.$" or _NUMBER.match(value):
            return False
        return any(not char.isalpha() for char in value) or len(value) >= 8
    return _looks_random(value)


def _looks_random(value: str) -> bool:
    """Return whether a text is long, of letters and digits, no path and no words: the entropy is that of a
    key, not of a sentence.
    """
    text = value.rstrip("=")
    # A key of less than ten characters is told by its name; above 4096 it is data.
    if not 10 <= len(text) <= 4096 or any(char in "./ ()[]{}<>" for char in text[:2]) or " " in text:
        return False
    # For ASCII by the C of str.count: this is asked of each long value of a log.
    digits = sum(map(text.count, "0123456789")) if text.isascii() else sum(map(str.isdigit, text))
    # Random base64 has a digit in about six characters; identifiers of programs have hardly any.
    if digits < max(2, len(text) // 12) or not any(map(str.isalpha, text)):
        return False
    if text.lower().startswith("0x") or _JOINED_WORDS.match(text) or ("/" in text and "." in text):
        return False
    # Random hex has nearly 4 bits a character, base64 nearly 6; in few characters each letter occurs once
    # anyway.
    need = 3.0 if len(text) >= 16 else 3.2
    return entropy(text) >= need


def entropy(text: str) -> float:
    """Bits per character, after Shannon."""
    size = len(text)
    return -sum(count / size * math.log2(count / size) for count in Counter(text).values())
