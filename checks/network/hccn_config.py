"""The network ports of the NPUs: their addresses, their links, and what the driver's file says of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Optional, Union

from npudoctor import ERROR, WARNING, Compared, Facts, Finding, Host, Scope, Skip, Unknown, _, check
from npudoctor.host import CannotTell
from npudoctor.host.devices.hccnconf import CONF, read_conf

if TYPE_CHECKING:
    from npudoctor.host.devices.hccn import Port, Reply

# Cards for inference have no port; the questions to an Ascend 950 are known from documents only.
WITHOUT_PORT = ("Ascend 310", "Ascend 310P")
# The tool of the 950 wants a die and a port: hccn_tool -g -link -i 0 -u 0 -p 4.
OTHER_SYNTAX = "Ascend 950"
# Without an answer to these the check cannot tell; the MTU is only a fact.
JUDGED = ("ip", "link", "net_health", "netdetect", "gateway", "tls")


@check(
    "hccn-config",
    scope=Scope.NODE,
    tags={"hccl", "ascend"},
    needs=("npu",),
    codes={
        "hccn-config.tls-differs": ERROR,
        "hccn-config.bad-value": ERROR,
        "hccn-config.no-address": ERROR,
        "hccn-config.duplicate-address": ERROR,
        "hccn-config.not-applied": ERROR,
        "hccn-config.link-down": ERROR,
        "hccn-config.clash": WARNING,
        "hccn-config.not-set-up": WARNING,
        "hccn-config.gateway": WARNING,
        "hccn-config.unhealthy": WARNING,
        "hccn-config.not-saved": WARNING,
    },
    quick=False,
    compares=(Compared("*.tls", "device TLS"), Compared("*.mtu", "device MTU")),
)
def hccn_config(host: Host) -> Iterator[Union[Finding, Facts]]:
    """The NPUs' network ports are configured, linked and consistent.

    ## What it does

    Reads /etc/hccn.conf, and asks hccn_tool for each NPU whose device node is here: `-ip`, `-link`,
    `-net_health`, `-netdetect`, `-gateway`, `-tls`, `-mtu`, each with `-g`, which changes nothing. Eight NPUs
    are asked in parallel. An NPU that does not answer a question is not asked the next one. The MTU is not
    judged: `npudoctor fleet report` compares it between nodes.

    - `hccn-config.tls-differs`: TLS is on for some NPUs and off for others.
    - `hccn-config.duplicate-address`, `hccn-config.no-address`: two NPUs have the same address; some NPUs
      have an address and others have none. `hccn-config.bad-value`, `hccn-config.clash`: a value in the file
      is not an address or a netmask, or is given twice.
    - `hccn-config.gateway`: the gateway is not in the network of the address.
    - `hccn-config.not-applied`: a port's address differs from the one in the file, or the port has none.
    - `hccn-config.not-saved`: a port has an address that is not in the file: it is lost at the next boot.
    - `hccn-config.link-down`: a port that has an address has no link. `hccn-config.unhealthy`: the port does
      not reach its netdetect address. "Init" is healthy: no such address was set.
    - `hccn-config.not-set-up`: `--peers` names other nodes, and no NPU here has an address.

    A machine on which no NPU has an address is fine unless `--peers` is given: a single node or a super pod
    connects over other links. For the same reason most of these findings are warnings, and errors with
    `--peers`.

    Only root may run the tool: for other users only the file is judged, where they may read it. The check
    does not apply in a container where neither file nor tool is mounted, nor on inference cards, which have
    no port. The profile quick leaves it out.

    ## Why it matters

    Ranks on several nodes connect over these ports. Without a link, with a duplicate address or with TLS on
    one side only, the job waits for HCCL_CONNECT_TIMEOUT and ends with EI0006, EI0014, EJ0002 or EJ0004.

    ## Fix safety

    All fixes are shown only. Configuring a port again interrupts everything that uses it on any NPU of the
    node, and npudoctor cannot see those users. The tool does not always report the old settings, so they
    could not be restored. The switch at the other end must agree.

    ## References

    - HCCN Tool reference of the Ascend driver; the tool's public source in hicann/driver.
    - HCCL user guide: TLS must be the same on every NPU of a communicator.
    """
    if not host.wants_npus() or not host.hccn.devices():
        raise Skip(_("no NPU is used on this machine"))
    models = host.npus.models
    if models and all(model in WITHOUT_PORT for model in models):
        raise Skip(_("{models}: inference cards have no network port", models=", ".join(models)))
    devices = host.hccn.devices()
    conf, unread = None, None
    try:
        conf = read_conf(host.running_files)
    except CannotTell as error:
        # A file that only root may read is no fault of the machine: the result does not affect the verdict.
        unread = CannotTell(error.reason, advisory=not host.identity.is_root)
    program = host.hccn.find_program()
    if conf is None and unread is None and program is None:
        raise Skip(_("this machine has neither {conf} nor hccn_tool", conf=CONF))
    why_not = _reason_not_run(host, program)
    ports = host.hccn.ports() if why_not is None else []

    # Not at the top of the file: runs in which the check is skipped, or has nothing to judge here, do not
    # load it.
    from npudoctor.checks.network._hccn_config_rules import HccnMachine, facts, findings

    sees_all = unread is None and not host.system.is_container()
    machine = HccnMachine(devices, conf, ports, program or "hccn_tool", bool(host.options.peers), sees_all)
    yield Facts(facts(machine))
    yield from findings(machine)
    if why_not is not None:
        raise Unknown(why_not, advisory=True)
    silent = _describe_missing_answers(ports)
    if silent:
        raise Unknown(silent, advisory=host.system.is_container())
    if unread is not None:
        raise unread


def _reason_not_run(host: Host, program: Optional[str]) -> Optional[str]:
    """Return why hccn_tool is not run; None if it is."""
    if program is None:
        return _("hccn_tool was not found: only {conf} was checked", conf=CONF)
    if not host.identity.is_root:
        return _("only root may run hccn_tool")
    if not host.commands.may_run(program):
        return _(
            "{path} is not run as root: it or a folder above it is writable by other users", path=program
        )
    if OTHER_SYNTAX in host.npus.models:
        return _(
            "the output of hccn_tool on {model} is known only from its documentation", model=OTHER_SYNTAX
        )
    return None


def _describe_missing_answers(ports: Sequence[Port]) -> str:
    """Return which answers of hccn_tool are missing, in a few words; "" if none is missing that should be
    there.

    A question that every NPU refuses is one that this driver does not know, and a port without an address
    need not have a health.
    """
    questions = [(port.device, name, port.replies[name]) for port in ports for name in JUDGED]
    unsupported = {name for name in JUDGED if ports and _is_unsupported(ports, name)}
    if len(unsupported) == len(JUDGED):
        unsupported = set()  # it refuses every question, so the driver does not merely lack some
    missing = [
        (device, name, reply)
        for device, name, reply in questions
        if reply.kind not in ("told", "unset", "not-asked") and name not in unsupported
    ]
    unaddressed = {port.device for port in ports if port.replies["ip"].kind == "unset"}
    missing = [
        reply
        for reply in missing
        if reply[1] != "net_health" or reply[0] not in unaddressed or _reply_text(reply[2])
    ]
    if not missing:
        return ""
    lines = [
        f"hccn_tool -i {device} -{name} -g: {_describe_ending(reply)}" for device, name, reply in missing[:3]
    ]
    more = f" (+{len(missing) - 3})" if len(missing) > 3 else ""
    return _("npudoctor does not recognize the answer: {answers}", answers="; ".join(lines) + more)


def _is_unsupported(ports: Sequence[Port], question: str) -> bool:
    """Whether all ports refuse a question, or give the same unknown answer: errors come with status 0 too.

    Every port answers -ip and -link, so unknown words there mean a tool that npudoctor does not understand.
    """
    replies = [port.replies[question] for port in ports]
    if all(reply.kind == "refused" for reply in replies):
        return True
    if question in ("ip", "link") or any(reply.kind not in ("refused", "strange") for reply in replies):
        return False
    texts = {"".join(letter for letter in _reply_text(reply) if not letter.isdigit()) for reply in replies}
    return len(texts) == 1 and "" not in texts


def _reply_text(reply: Reply) -> str:
    answer = reply.answer
    if answer is None or answer.ended != "exited":
        return "-"
    return answer.stdout.strip() or answer.stderr.strip()


def _describe_ending(reply: Reply) -> str:
    answer = reply.answer
    if answer is None:
        return "-"
    if answer.ended == "timeout":
        text = _("it did not answer within {seconds:.1f} s", seconds=answer.seconds)
        stuck = _("process {pid} cannot be ended", pid=answer.left_behind) if answer.left_behind else ""
        return f"{text}, {stuck}" if stuck else text
    if answer.ended == "flooded":
        return _("it printed too much")
    if answer.ended != "exited":
        return _("it cannot be run ({why})", why=answer.ended)
    line = (answer.stdout.strip() or answer.stderr.strip()).partition("\n")[0][:80]
    return _("status {status}, {said}", status=answer.status, said=line or _("printed nothing"))
