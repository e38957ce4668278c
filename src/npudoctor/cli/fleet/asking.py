"""What the commands that reach nodes share: which nodes, by which engine, and for how long."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Callable, Optional

from npudoctor.cli.arguments.named_files import DESCRIPTORS, READING, read_named
from npudoctor.cli.caller import Caller
from npudoctor.cli.config import UsageError, not_one_of
from npudoctor.core.frozen import dataclass, replace
from npudoctor.core.messages import _
from npudoctor.fleet.gathering import Gathering, NodeAnswer
from npudoctor.fleet.request import Request

# The first two are ClusterShell's own defaults.
FANOUT, CONNECT_SECONDS, SECONDS = 64, 10.0, 60.0
LARGEST_FILE = 256 << 20  # bytes of the file for --push
CARRYING = 16  # nodes at once to which the file is copied: each needs it in memory


@dataclass(frozen=True)
class FleetTarget:
    """The nodes to reach, the engine, the program on them, and a template of the request.

    `carried`: the file for --push, b"" without it.
    """

    nodes: tuple[str, ...]
    engine: str
    program: tuple[str, ...]
    template: Request
    carried: bytes

    def request(self, words: Sequence[str], nodes: Optional[Sequence[str]] = None, **changes: Any) -> Request:
        """The request to run npudoctor with these words on all nodes, or on some of them."""
        chosen = self.nodes if nodes is None else tuple(nodes)
        changes.setdefault("command", (*self.program, *words))
        return replace(self.template, nodes=chosen, **changes)

    def ask(
        self, words: Sequence[str], take: Callable[[NodeAnswer], None], nodes: Optional[Sequence[str]] = None
    ) -> None:
        """Run a command on the nodes, and pass each answer to `take`.

        With --push, nodes without npudoctor get a copy, and are asked again.
        """
        missing_program: dict[str, NodeAnswer] = {}

        def accept_or_retry(answer: NodeAnswer) -> None:
            if answer.missing and self.carried:
                missing_program[answer.node] = answer
            else:
                take(answer)

        def accept_retried(answer: NodeAnswer) -> None:
            del missing_program[answer.node]
            take(answer)

        try:
            self.gather(Gathering(self.request(words, nodes), accept_or_retry))
            if missing_program:
                fanout = min(self.template.fanout, CARRYING)
                changes = {"command": tuple(words), "carried": self.carried, "fanout": fanout}
                self.gather(Gathering(self.request(words, tuple(missing_program), **changes), accept_retried))
        finally:
            for answer in missing_program.values():  # interrupted before they could be asked again
                take(answer)

    def gather(self, gathering: Gathering) -> None:
        """Run the gathering, with a progress line on a terminal.

        Raises UsageError when ssh or srun cannot be started; StoppedBySignal on a signal.
        """
        from npudoctor.cli.fleet.progress import NodeProgress
        from npudoctor.core.errors import CannotTell

        progress = NodeProgress()
        try:
            _find_engine(self.engine)(gathering, lambda: progress.show(gathering))
        except CannotTell as error:
            raise UsageError(f"--engine {self.engine}: {error}") from error
        finally:
            progress.clear()


def parse_target(params: Mapping[str, Any], caller: Caller) -> FleetTarget:
    """The target that the options describe; raises UsageError when they are invalid."""
    engine = params["engine"] or "ssh"
    _find_engine(engine)
    for option in ("login", "tree") if engine == "slurm" else ():
        if params[option] is not None:
            raise UsageError(_("{option} requires --engine ssh", option=f"--{option}"))
    template = Request(
        (),
        (),
        parse_positive("--node-timeout", params["node_timeout"], SECONDS),
        # 0.5 is above 0, and would be a fanout of 0.
        int(parse_positive("--fanout", params["fanout"], FANOUT)) or 1,
        parse_positive("--connect-timeout", params["connect_timeout"], CONNECT_SECONDS),
        params["login"],
    )
    _require_trusted(engine, params["tree"])
    nodes = _read_nodes(params["on"], params["source"], caller)
    if params["tree"] is not None:
        template = replace(template, tree=_read_tree(params["tree"]))
    carried = _read_program(params.get("file")) if params.get("push") else b""
    return FleetTarget(nodes, engine, _remote_program(params["program"]), template, carried)


def _require_trusted(engine: str, tree: Optional[str]) -> None:
    from npudoctor.core.errors import CannotTell
    from npudoctor.core.trust.configuration import require_trusted

    # A missing file is reported when it is read; a descriptor (<(...)) is the caller's own.
    files = (tree,) if tree and os.path.exists(tree) and not tree.startswith(DESCRIPTORS) else ()
    try:
        require_trusted(engine, files)
    except CannotTell as error:
        raise UsageError(f"--engine {engine}: {error}") from error


def _read_tree(path: str) -> Any:
    from npudoctor.fleet.topology import LONGEST, InvalidTopology, parse_topology

    try:
        return parse_topology(read_named("--tree", path, LONGEST))
    except InvalidTopology as error:
        raise UsageError(f"--tree: {path}: {error}") from error


def _read_program(path: Optional[str]) -> bytes:
    """The content of npudoctor.pyz; raises UsageError when it is missing or another file."""
    from npudoctor.core.parsing import is_zip

    file = path if path is not None else os.path.abspath(sys.argv[0])
    content = read_named("--file", file, LARGEST_FILE) if path is not None or os.path.isfile(file) else b""
    if is_zip(content):
        return content
    if path is None:
        raise UsageError(
            _("--push copies npudoctor.pyz, which is not running here: pass its path with --file")
        )
    raise UsageError(_("--file: {path} is not npudoctor.pyz", path=path))


def _read_nodes(on: Optional[str], source: Optional[str], caller: Caller) -> tuple[str, ...]:
    from npudoctor.core.forked import Late, ask
    from npudoctor.fleet.nodes import InvalidNodes, expand_nodes
    from npudoctor.fleet.sources import LONGEST, parse_node_file

    if on is not None and source is not None:
        raise UsageError(_("-w and --from cannot be used together"))
    node_set = on if on is not None else caller.variables.get("SLURM_JOB_NODELIST", "")
    try:
        if source is not None:
            content = read_named("--from", source, LONGEST)
            return ask(lambda: parse_node_file(content), READING)
        names = expand_nodes(node_set, groups=on is not None) if node_set else ()
    except Late as late:
        raise UsageError(
            _(
                "{option}: {path} cannot be read within {seconds:g} s",
                option="--from",
                path=source,
                seconds=READING,
            )
        ) from late
    except InvalidNodes as error:
        raise UsageError(f"--from: {error}" if source is not None else str(error)) from error
    if not names:
        raise UsageError(_("no nodes are given: use -w NODES or --from FILE"))
    return names


def _find_engine(name: str) -> Callable[[Gathering, Callable[[], None]], None]:
    if name == "ssh":
        from npudoctor.fleet import ssh

        return ssh.gather
    if name == "slurm":
        from npudoctor.fleet import slurm

        return slurm.gather
    raise UsageError("--engine: " + not_one_of(name, ("ssh", "slurm")))


def parse_positive(option: str, value: Optional[str], default: float, most: float = 86400.0) -> float:
    """The number of an option, above 0 and at most `most`; raises UsageError for anything else."""
    try:
        number = default if value is None else float(value)
    except ValueError:
        number = math.nan
    if not 0 < number <= most:
        raise UsageError(_("{option}: {value!r} is not a number above 0", option=option, value=value))
    return number


def _remote_program(path: Optional[str]) -> tuple[str, ...]:
    """The program on the nodes: our own path by default, as most clusters share a file system."""
    if path is not None:
        return (path,)
    own = os.path.abspath(sys.argv[0])
    if os.path.basename(own) == "__main__.py":
        return (sys.executable, "-m", "npudoctor")
    return (own,)
