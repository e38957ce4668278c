"""Regular expressions that are compiled when they are first used.

A run of `check` loads some forty, of which most machines use a handful; compiling them all took longer than
the checks that use them.
"""

from __future__ import annotations

TYPE_CHECKING = False

if TYPE_CHECKING:
    import re

    pattern = re.compile
else:

    class pattern:  # noqa: N801  (a drop-in for re.compile)
        """What re.compile gives, once something of it is asked for; kept from then on."""

        def __init__(self, text, flags=0):
            self._text, self._flags = text, flags

        def __getattr__(self, name):
            import re

            value = getattr(re.compile(self._text, self._flags), name)
            # From now on the attribute is found without __getattr__.
            setattr(self, name, value)
            return value
