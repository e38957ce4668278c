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
    """`about`: the words by which another finding would speak of it, the most telling first. `understood`:
    false where the exception is only repeated. `vague`: what is known of such failures
    may add to it."""

    sentence: str
    raised: Raised
    about: tuple[str, ...] = ()
    fix: Optional[Fix] = None
    understood: bool = True
    vague: bool = False
    owner: Optional[str] = None


def distinct_words(*words: str) -> tuple[str, ...]:
    """The words that there are, each once."""
    return tuple(dict.fromkeys(word for word in words if word))


def deepest_frame(frames: tuple[Frame, ...]) -> Optional[Frame]:
    """The last frame that is neither ours nor of Python itself."""
    return next((frame for frame in reversed(frames) if not is_standard_library(frame.file)), None)


def place_of(raised: Raised) -> str:
    """File and line of whose code met it; "" where no file is told. Of a file that is no Python: its own."""
    if raised.path and raised.line:
        return f"{raised.path}:{raised.line}"
    frame = deepest_frame(raised.frames)
    return f"{frame.file}:{frame.line}" if frame else ""


def spot_of(host: Host, raised: Raised) -> str:
    """The place, and whose it is where a distribution brings it; "" where no file is told."""
    place, (user, owner) = place_of(raised), user_of(host, raised)
    return _("{path} of {package}", path=place, package=user) if place and owner else place


def user_of(host: Host, raised: Raised) -> tuple[str, Optional[Distribution]]:
    """Whose code met it, as it is said: a distribution, else the file."""
    frame = deepest_frame(raised.frames)
    if frame is None:
        return _("the job"), None
    owner = owner_of(host, frame.file)
    return (owner.label, owner.distribution) if owner else (frame.file, None)
