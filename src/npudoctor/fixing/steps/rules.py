"""Steps of nftables, as data: a rule that carries a comment of ours, and its way out again."""

from __future__ import annotations

from npudoctor.core.frozen import dataclass
from npudoctor.fixing.steps.shell import line_of, quote


@dataclass(frozen=True)
class InsertRule:
    """Insert a rule of nftables at the front of a chain. Guard: the chain is there, and has none with our
    comment. `place` is family, table and chain.

    Its handle is known only afterwards, so it is found again by its comment.
    """

    place: tuple[str, ...]
    rule: tuple[str, ...]
    comment: str

    @property
    def argv(self) -> tuple[str, ...]:
        """What is run."""
        return ("nft", "insert", "rule", *self.place, *self.rule, "comment", self.comment)

    def lines(self) -> tuple[str, ...]:
        return (line_of(self.argv),)

    def back(self) -> DeleteRule:
        """The step that takes it back."""
        return DeleteRule(self.place, self.rule, self.comment)

    def undo_lines(self) -> tuple[str, ...]:
        """In a shell, which looks the handle up as DeleteRule does."""
        words = " ".join(quote(word) for word in self.place)
        only = quote(f's/.*"{self.comment}" # handle //p')
        handle = f"nft -a list chain {words} | sed -n {only}"
        return (f'nft delete rule {words} handle "$({handle})"',)


@dataclass(frozen=True)
class DeleteRule:
    """Delete the rule of nftables that carries our comment. Guard: one such rule in that chain."""

    place: tuple[str, ...]
    rule: tuple[str, ...]
    comment: str

    def lines(self) -> tuple[str, ...]:
        return InsertRule(self.place, self.rule, self.comment).undo_lines()
