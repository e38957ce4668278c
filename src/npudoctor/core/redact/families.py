"""Which kinds of forms are worth to be looked for in a text that may hold a secret."""

from __future__ import annotations

from typing import NamedTuple

from npudoctor.core.redact import prefilter

_HEADERS = ("cookie", "authorization", "bearer")
_COMMANDS = ("pass", "secret", "masterauth", "rootpw")


class Families(NamedTuple):
    """Which kinds of forms a text may hold."""

    names: bool  # a value that a name announces
    near: bool  # the same, without a sign between them
    shapes: bool
    programs: bool
    headers: bool
    phrases: bool
    encoded: bool


def families_of(text: str) -> Families:
    """The families of forms of which a word stands in the text."""
    lowered = text.lower()

    # A family whose words are absent costs nothing: its patterns are not even compiled.
    def holds(*groups: tuple[str, ...]) -> bool:
        return any(word in lowered for group in groups for word in group)

    return Families(
        names=prefilter.holds_name(lowered) or holds(prefilter.ALONE, prefilter.SPOKEN, prefilter.SHORT),
        near=holds(prefilter.NEAR, prefilter.SPOKEN),
        shapes=holds(tuple(prefilter.SHAPES)),
        programs=holds(tuple(prefilter.PROGRAMS), _COMMANDS) or prefilter.holds_brief(lowered),
        headers=holds(_HEADERS),
        phrases=holds(prefilter.PHRASES),
        encoded="%" in lowered,
    )
