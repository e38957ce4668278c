"""The only door to the machine: read-only, one file a subject."""

from npudoctor.core.errors import CannotTell, NotRunning
from npudoctor.host.host import Host, Options

__all__ = ["CannotTell", "Host", "NotRunning", "Options"]
