"""The environment variables that are examined."""

from __future__ import annotations

from collections.abc import Iterator, Mapping


class Variables(Mapping[str, str]):
    """The variables of the shell, or of the job, that is examined; read-only."""

    def __init__(self, values: Mapping[str, str]) -> None:
        self._values = dict(values)

    def __getitem__(self, name: str) -> str:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def path_list(self, name: str) -> list[str]:
        """The entries of a colon-separated variable; an empty one, which means the working directory, too."""
        value = self._values.get(name, "")
        return value.split(":") if value else []
