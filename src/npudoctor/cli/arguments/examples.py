"""The examples of each command, for its help and its manual page; a test parses every line."""

from __future__ import annotations

from npudoctor.core.messages import _

Example = tuple[str, str]  # the line as it is typed, and what it is for

EXAMPLES: dict[tuple[str, ...], tuple[Example, ...]] = {
    (): (
        ("npudoctor check", _("can this machine train?")),
        ("npudoctor fix", _("show what npudoctor can repair; change nothing")),
        ('eval "$(npudoctor env)"', _("set the variables that this shell lacks")),
        ("npudoctor run -- python3 train.py", _("check, then start the job")),
        ("npudoctor explain train.log", _("why did the job fail?")),
        ("npudoctor fleet check -w 'node[1-8]'", _("check eight nodes at once")),
    ),
    ("check",): (
        ("npudoctor check", _("can this machine train?")),
        ("npudoctor check --expect npu=8", _("the node must have eight NPUs")),
        ("npudoctor check --python /opt/train/bin/python3", _("for the interpreter of the job")),
        ("npudoctor check network disk-space -v", _("one group and one check, with what they examined")),
        ("npudoctor check --ignore clock=lab", _("report the clock, but leave it out of the verdict")),
        ("npudoctor check --output report.json", _("for a program; the exit status is the verdict")),
    ),
    ("fix",): (
        ("npudoctor fix", _("show the plan; change nothing")),
        ("npudoctor fix --cache-server", _("clean up after dead cache servers; asks before each step")),
        ("npudoctor fix --all --yes", _("apply all fixes that are proven safe, without asking")),
        (
            "sudo npudoctor fix --cache-server --owner alice --yes",
            _("as root: also remove alice's leftovers"),
        ),
    ),
    ("undo",): (
        ("npudoctor undo --dry-run", _("show what would be undone")),
        ("npudoctor undo", _("undo the newest run that can be undone")),
        ("npudoctor undo 20260131T1200", _("undo the run whose name starts with this")),
    ),
    ("history",): (
        ("npudoctor history -n 5", _("the five newest runs, one line each")),
        ("npudoctor history 20260131T1200", _("details of this run")),
    ),
    ("env",): (
        ('eval "$(npudoctor env)"', _("set the variables in this shell")),
        ("npudoctor env --shell fish | source", _("the same in fish")),
        ("npudoctor env --write job.sh", _("write them to a file that the job sources")),
        ("npudoctor env --format docker --write job.env", _("for docker run --env-file job.env")),
    ),
    ("run",): (
        ("npudoctor run -- python3 train.py --epochs 3", _("check, then start the job")),
        ("srun npudoctor run --quiet python3 train.py", _("in Slurm, on each node")),
        ("npudoctor run --source job.sh python3 train.py", _("with the variables that job.sh sets")),
    ),
    ("explain",): (
        ("npudoctor explain", _("the newest logs in this directory")),
        ("npudoctor explain train.log", _("why did this job fail?")),
        ("npudoctor explain ~/ascend/log --verify", _("CANN logs; also check the cause on this machine")),
        ("kubectl logs my-pod | npudoctor explain -", _("a log from a pipe")),
        ("npudoctor explain EI0006", _("what does this code mean?")),
    ),
    ("rehearse",): (
        ("npudoctor rehearse --list", _("what can be rehearsed")),
        ("npudoctor rehearse dead-cache-server", _("see how this fault is found and fixed")),
        ("npudoctor rehearse port-held -- --format json", _("with both reports as JSON")),
    ),
    ("snapshot",): (
        ("npudoctor snapshot good.json", _("record a node that works")),
        ("npudoctor check --like good.json", _("compare another node with it")),
        ("npudoctor snapshot --paste", _("a short text for an issue, without names")),
    ),
    ("diff",): (("npudoctor diff good.json bad.json", _("how do these two nodes differ?")),),
    ("list",): (
        ("npudoctor list", _("all checks")),
        ("npudoctor list --format json", _("with their codes, for a program")),
        ("npudoctor list --knowledge", _("the compatibility tables and their sources")),
    ),
    ("show",): (
        ("npudoctor show hccl-ports", _("the manual of a check")),
        ("npudoctor show cache-server.orphan-segment", _("the manual of the check with this code")),
    ),
    ("schema",): (
        ("npudoctor schema", _("the schema of check --format json")),
        ("npudoctor schema fleet", _("the schema of fleet check --format json")),
    ),
    ("completion",): (
        ('eval "$(npudoctor completion bash)"', _("enable Tab completion in this bash")),
        ("npudoctor completion fish | source", _("enable Tab completion in this fish")),
    ),
    ("fleet",): (
        ("npudoctor fleet check -w 'node[1-8]'", _("check eight nodes over ssh")),
        ("npudoctor fleet check --engine slurm", _("check the nodes of this Slurm job")),
        ("npudoctor fleet report reports", _("merge the reports in a folder")),
    ),
    ("fleet", "check"): (
        ("npudoctor fleet check -w 'node[1-8]'", _("check eight nodes over ssh")),
        ("npudoctor fleet check --from hostfile --push", _("nodes on which npudoctor is not installed")),
        ("npudoctor fleet check --engine slurm -- --expect npu=8", _("each node must have eight NPUs")),
        ("npudoctor fleet check -w @train --output fleet.html", _("an HTML page for the browser")),
    ),
    ("fleet", "fix"): (
        ("npudoctor fleet fix --cache-server -w 'node[1-8]' --dry-run", _("show the plan of each node")),
        ("npudoctor fleet fix --cache-server -w 'node[1-8]'", _("show the plan, ask once, apply it")),
    ),
    ("fleet", "pairs"): (
        ("npudoctor fleet pairs -w 'node[1-8]'", _("can all nodes reach each other?")),
        (
            "npudoctor fleet pairs -w 'node[1-8]' --ports 60000-60015 --interface eth1",
            _("on these ports, over this interface"),
        ),
    ),
    ("fleet", "report"): (
        ("npudoctor fleet report reports", _("merge the reports in a folder")),
        ("npudoctor fleet report reports --nodes not-ready", _("for srun --exclude")),
        ("cat *.json | npudoctor fleet report -", _("reports from a pipe")),
    ),
}  # fmt: skip


def examples_of(words: tuple[str, ...]) -> tuple[Example, ...]:
    """The examples of a command, () when there are none."""
    return EXAMPLES.get(words, ())
