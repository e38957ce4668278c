"""What is said of a cause: the sentence, what it is about, and whose code met it."""

from __future__ import annotations

from typing import Optional

from npudoctor import Fix, Host, _
from npudoctor.core.frozen import dataclass
from npudoctor.facts.job.tracebacks import Frame, Raised
from npudoctor.facts.python.owners import is_standard_library, owner_of
from npudoctor.host.python.interpreter import Distribution


@dataclass(frozen=True)
class Cause:
    """The cause of a failure, as one sentence. `about`: the words by which another finding would name it, the
    most telling first. `understood`: False if the exception's text is only repeated. `vague`: what `npudoctor
    explain` knows of such failures may add to it. `owner`: the label of the package that it belongs to, None
    if unknown."""

    sentence: str
    raised: Raised
    about: tuple[str, ...] = ()
    fix: Optional[Fix] = None
    understood: bool = True
    vague: bool = False
    owner: Optional[str] = None


def distinct_words(*words: str) -> tuple[str, ...]:
    """Return the words that are not empty, each once, in their order."""
    return tuple(dict.fromkeys(word for word in words if word))


def deepest_frame(frames: tuple[Frame, ...]) -> Optional[Frame]:
    """Return the innermost frame outside of npudoctor and the standard library; None if there is none."""
    return next((frame for frame in reversed(frames) if not is_standard_library(frame.file)), None)


def place_of(raised: Raised) -> str:
    """Return FILE:LINE where the error occurred, "" if unknown. For a syntax error it is the file itself."""
    if raised.path and raised.line:
        return f"{raised.path}:{raised.line}"
    frame = deepest_frame(raised.frames)
    return f"{frame.file}:{frame.line}" if frame else ""


def spot_of(host: Host, raised: Raised) -> str:
    """Return the place, with its distribution if one installed the file; "" if unknown."""
    place, (user, owner) = place_of(raised), user_of(host, raised)
    return _("{path} of {package}", path=place, package=user) if place and owner else place


def user_of(host: Host, raised: Raised) -> tuple[str, Optional[Distribution]]:
    """Return the label of the code in which the error occurred, and its distribution if it belongs to one."""
    frame = deepest_frame(raised.frames)
    if frame is None:
        return _("the job"), None
    owner = owner_of(host, frame.file)
    return (owner.label, owner.distribution) if owner else (frame.file, None)
