"""The only door to the machine: read-only, one file a subject, `Host` on top.

Here belongs what the machine says, never whether that is right: what follows from it is `facts`, what
is judged is a check's. No file of it knows of checks, findings or steps.
"""

from npudoctor.core.errors import CannotTell, NotRunning
from npudoctor.host.host import Host, Options

__all__ = ["CannotTell", "Host", "NotRunning", "Options"]
