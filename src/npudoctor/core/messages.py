"""Every sentence that a person reads passes through here; English is the source, Chinese the catalogue."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Optional

if TYPE_CHECKING:
    from gettext import NullTranslations

LANGUAGES = {"en": "en", "zh": "zh_CN"}

_catalogue: Optional[NullTranslations] = None
_manuals: Optional[NullTranslations] = None
_language = "en"


def activate(language: str) -> None:
    """Speak this language ("en" or "zh") from now on; the choice holds for the whole process."""
    global _catalogue, _manuals, _language
    # The manuals of the language before are dropped; the new ones are opened when one is shown.
    _language, _manuals = language, None
    _catalogue = None if language == "en" else _opened("npudoctor", language)


def _opened(domain: str, language: str) -> NullTranslations:
    import gettext

    # fallback: where the catalogue is missing everything is English, instead of an error.
    return gettext.translation(domain, catalogues(), [LANGUAGES[language]], fallback=True)


def catalogues() -> str:
    """The folder in which the catalogues of all languages lie."""
    import os

    return os.path.join(os.path.dirname(os.path.dirname(__file__)), "locale")


def language() -> str:
    """The language spoken now: "en" or "zh"."""
    return _language


def language_of(variables: Mapping[str, str]) -> str:
    """The language that a caller's variables ask for, read as gettext does: the first that is set decides."""
    for name in ("NPUDOCTOR_LANG", "LC_ALL", "LC_MESSAGES", "LANG"):
        value = variables.get(name, "")
        if value:
            return "zh" if value.lower().startswith("zh") else "en"
    return "en"


def _(message: str, /, **values: object) -> str:
    """The sentence in the language spoken now, its placeholders filled with these values as str.format does.
    Without values it is as it was written, braces too."""
    # gettext("") is the header of the catalogue.
    text = _catalogue.gettext(message) if _catalogue and message else message
    return text.format(**values) if values else text


def manual(block: str) -> str:
    """A block of a check's manual in the language spoken now. These have a catalogue of their own, as long
    as all else that is said, which nothing but a manual opens."""
    global _manuals
    if _language == "en":
        return block
    if _manuals is None:
        _manuals = _opened("manuals", _language)
    return _manuals.gettext(block)


def strerror(number: Optional[int]) -> str:
    """The system's text for an errno ("Permission denied"), in the language spoken now."""
    import os

    why = os.strerror(number or 0)
    return _(why)


def ngettext(singular: str, plural: str, count: int, /, **values: object) -> str:
    """The sentence for this count, in the language spoken now, its placeholders filled as `_` does."""
    text = singular if count == 1 else plural
    if _catalogue:
        text = _catalogue.ngettext(singular, plural, count)
    return text.format(**values) if values else text
