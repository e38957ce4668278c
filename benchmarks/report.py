"""What is printed about one promise, and whether it is kept."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.environments import Environment
from benchmarks.promise import Promise
from benchmarks.side import Side
from benchmarks.timing import Spread


def show(name: str, promise: Promise, sides: Sequence[Side], proofs: Sequence[str]) -> bool:
    """Print the figures; the median of the paired ratios decides."""
    ours, theirs = sides
    ratio = Spread.of([a / b for a, b in zip(ours.milliseconds, theirs.milliseconds)])
    kept = ratio.median <= promise.at_most
    width = max(len(side.command.line) for side in sides)
    print(f"\n{name}: {ours.command.line}, against {theirs.command.line}")
    head = f"{'median':>8}  {'quartiles':>15}  {'min':>8}  {'max':>8}  {'n':>3}  status (times)"
    print(f"  {f'{promise.clock} ms':{width}}  {head}")
    for side in sides:
        statuses = ", ".join(f"{status} ({times})" for status, times in sorted(side.statuses.items()))
        figures = row(side.command.line, width, Spread.of(side.milliseconds), 1)
        print(f"{figures}  {len(side.milliseconds):>3}  {statuses}")
    print(row("ratio of each pair", width, ratio, 3))
    for side, proof in zip(sides, proofs):
        print(f"  {side.command.line}: {proof}")
    print(f"  {described(ours.home)}")
    if theirs.home is not ours.home:
        print(f"  {described(theirs.home)}")
    print(f"  {verdict(promise, ratio.median)}", flush=True)
    return kept


def verdict(promise: Promise, ratio: float) -> str:
    """The line that is searched for."""
    text = f"at most {promise.at_most} times: {'ok' if ratio <= promise.at_most else 'MISSED'}"
    if promise.aim is not None:
        text += f" (aim {promise.aim}: {'reached' if ratio <= promise.aim else 'not yet'})"
    return text


def row(label: str, width: int, spread: Spread, digits: int) -> str:
    """One line of the table."""
    quartiles = f"{spread.lower:.{digits}f} to {spread.upper:.{digits}f}"
    ends = f"{spread.least:>8.{digits}f}  {spread.most:>8.{digits}f}"
    return f"  {label:{width}}  {spread.median:>8.{digits}f}  {quartiles:>15}  {ends}"


def described(home: Environment) -> str:
    """Interpreter, install mode and versions of one environment."""
    packages = ", ".join(f"{name} {version}" for name, version in sorted(home.packages.items()))
    return f"{home.python}, {home.mode}: {packages}"
