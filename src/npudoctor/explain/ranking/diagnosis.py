"""What is said of a failure. Apart from what finds it in logs: who asks about a code loads none of that."""

from __future__ import annotations

from typing import TYPE_CHECKING, Optional

from npudoctor.core.frozen import dataclass

if TYPE_CHECKING:
    from npudoctor.explain.ranking.candidates import Spot
    from npudoctor.explain.signatures.signatures import Signature

# Below this nothing is said to be the cause: it only tells that something failed.
LEAST = 10


@dataclass(frozen=True)
class Diagnosis:
    """A signature that was found, how certain it is the cause, and where it was first."""

    signature: Signature
    confidence: str  # certain, likely, possible
    first: Optional[Spot]
    count: int
    last: Optional[Spot] = None
