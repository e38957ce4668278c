"""Rule sets as machines have them, for the ports 29500 and 60000 to 60002 of 10.77.0.1 and fd77::1.

The peer is 10.77.0.2 and fd77::2, and comes by eth7.
"""

from __future__ import annotations

KEEP = "ct state established,related accept"


def table(*rules: str, policy: str = "drop", before: str = "", kind: str = "inet", more: str = "") -> str:
    """An input chain of nftables with what stands before and beside it."""
    chain = f"type filter hook input priority filter; policy {policy};"
    return nft(
        f"table {kind} f {{",
        *before.splitlines(),
        "chain input {",
        chain,
        *rules,
        "}",
        *more.splitlines(),
        "}",
    )


def nft(*lines: str) -> str:
    text = "\n".join(lines)
    return f"nft -f - <<'RULES'\n{text}\nRULES"


def ipt(*rules: str, tool: str = "iptables") -> str:
    return "\n".join(f"{tool} {rule}" for rule in rules)


def legacy(*rules: str) -> str:
    return ipt(*rules, tool="iptables-legacy")


def old_tools(more: str = "true") -> str:
    """From here on the tools are as those of distributions up to 2022: without the older iptables, and a
    dump that does not say which kind it is of. In a mount namespace of its own."""
    return f"""
        mount -t tmpfs none /media && cp -a /usr/sbin /media/sbin && cd /media/sbin && rm *legacy*
        for tool in iptables ip6tables; do
            rm $tool-save $tool-nft-save
            printf '#!/bin/sh\\nxtables-nft-multi %s | sed "s/ (nf_tables)//"\\n' $tool-save > $tool-save
            chmod 755 $tool-save
        done
        {more}
        mount --bind /media/sbin /usr/sbin"""


OWN = "-A INPUT -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT"

NFT = {
    "nothing": "true",
    "empty table": nft("table inet f {", "}"),
    "accept all": table(policy="accept"),
    "drop all": table(),
    "drop all but established": table(KEEP),
    "one port": table(KEEP, "tcp dport 29500 accept"),
    "a range": table(KEEP, "tcp dport 60000-60001 accept"),
    "a set of ports": table(KEEP, "tcp dport { 22, 29500, 60001-60031 } accept"),
    "not these ports": table(KEEP, "tcp dport != { 29500, 60001 } accept"),
    "more than": table(KEEP, "tcp dport > 60000 accept"),
    "at most": table("tcp dport <= 60000 drop", policy="accept"),
    "the peer's prefix": table(KEEP, "ip saddr 10.77.0.0/24 tcp dport 60000 accept"),
    "another prefix": table(KEEP, "ip saddr 10.78.0.0/16 accept"),
    "not the peer": table("ip saddr != 10.77.0.2 drop", "tcp dport 60002 drop", policy="accept"),
    "a range of peers": table(KEEP, "ip saddr 10.77.0.1-10.77.0.9 accept"),
    "a named set": table(
        KEEP,
        "ip saddr @nodes tcp dport @ports accept",
        before="set nodes {\ntype ipv4_addr\nflags interval\nelements = { 10.0.0.0/8, 192.168.0.0/16 }\n}\n"
        "set ports {\ntype inet_service\nelements = { 29500, 60002 }\n}",
    ),
    "a named set without the peer": table(
        "ip saddr @bad drop",
        before="set bad {\ntype ipv4_addr\nelements = { 10.77.0.3, 10.77.0.4 }\n}",
        policy="accept",
    ),
    "addresses with ports": table(
        KEEP,
        "ip saddr . tcp dport @pairs accept",
        before="set pairs {\ntype ipv4_addr . inet_service\nflags interval\n"
        "elements = { 10.77.0.0/24 . 60000-60001, 10.78.0.1 . 29500 }\n}",
    ),
    "a verdict map": table(
        KEEP, "tcp dport vmap { 29500 : accept, 60000 : drop, 60001-60009 : accept }", policy="drop"
    ),
    "a named verdict map": table(
        KEEP,
        "ip saddr vmap @senders",
        before="map senders {\ntype ipv4_addr : verdict\nflags interval\n"
        "elements = { 10.77.0.0/25 : jump inner, 10.77.0.128/25 : drop }\n}\n"
        "chain inner {\ntcp dport 60000 accept\n}",
    ),
    "states in a map": table(
        "ct state vmap { established : accept, related : accept, invalid : drop, new : jump fresh }",
        before="chain fresh {\ntcp dport { 60000, 60001 } accept\n}",
    ),
    "jump and return": table(
        KEEP,
        "tcp dport 60000-60002 jump inner",
        "accept",
        before="chain inner {\ntcp dport 60001 return\ndrop\n}",
    ),
    "goto": table(
        KEEP,
        "tcp dport 60000-60002 goto inner",
        "accept",
        before="chain inner {\ntcp dport 60001 accept\n}",
    ),
    "by interface": table(KEEP, 'iifname "eth7" tcp dport 60000 accept', 'iif "lo" accept'),
    "by a pattern of interfaces": table(KEEP, 'iifname { "ib*", "eth*" } tcp dport 60000 accept'),
    "another interface": table(KEEP, 'iifname != "eth7" accept'),
    "reject": table("tcp dport 60000 reject with tcp reset", "tcp dport 60001 reject", policy="accept"),
    "two tables": table(KEEP, "tcp dport 60000-60002 accept")
    + "\n"
    + nft(
        "table ip g {",
        "chain in {",
        "type filter hook input priority 10; policy accept;",
        "tcp dport 60001 drop",
        "}",
        "}",
    ),
    "accept in one table does not help": table("accept")
    + "\n"
    + nft("table ip g {", "chain in {", "type filter hook input priority 50; policy drop;", "}", "}"),
    "raw drop": table(
        "accept",
        more="chain raw {\ntype filter hook prerouting priority raw; policy accept;\ntcp dport 60000 drop\n}",
    ),
    "another family": nft(
        "table ip6 f {", "chain input {", "type filter hook input priority 0; policy drop;", "}", "}"
    ),
    "family by name": table(KEEP, "meta nfproto ipv6 drop", "meta l4proto udp drop", "accept"),
    "protocols": table(KEEP, "udp dport 60000 drop", "meta l4proto { tcp, udp } th dport 60000-60001 accept"),
    "a mark": table(
        KEEP,
        "meta mark 0x7 accept",
        more="chain pre {\ntype filter hook prerouting priority mangle; policy accept;\n"
        "tcp dport 60000 meta mark set 0x7\ntcp dport 60001 meta mark set meta mark or 0x3\n}",
    ),
    "bits of a mark": table(
        KEEP,
        "meta mark & 0xf0 == 0x20 accept",
        more="chain pre {\ntype filter hook prerouting priority mangle; policy accept;\n"
        "tcp dport 60000 meta mark set 0x23\ntcp dport 60001 meta mark set 0x13\n}",
    ),
    "flags": table("tcp flags & (fin|syn|rst|ack) == syn tcp dport 60000 drop", policy="accept"),
    "flags otherwise": table("tcp flags & (fin|syn|rst|ack) != syn ct state new drop", policy="accept"),
    "the answer is dropped": table(
        "accept",
        more="chain out {\ntype filter hook output priority 0; policy drop;\ntcp sport 60000 accept\n"
        "ct state established tcp sport 29500 accept\n}",
    ),
    "the third packet is dropped": table("ct state new accept"),
    "untracked": table(
        KEEP,
        "ct state untracked accept",
        more="chain raw {\ntype filter hook prerouting priority raw; policy accept;\n"
        "tcp dport 60000 notrack\n}",
    ),
    "state before conntrack": table(
        "accept",
        more="chain raw {\ntype filter hook prerouting priority -300; policy accept;\n"
        "tcp dport 60000 ct state new drop\ntcp dport 60001 ct state invalid drop\n}",
    ),
    "log and count": table(KEEP, 'counter limit rate 5/second log prefix "x "', "tcp dport 60000 accept"),
    "local destination": table(KEEP, "fib daddr type local tcp dport 60000 accept"),
    "reverse path": table(
        "accept",
        more="chain pre {\ntype filter hook prerouting priority mangle; policy accept;\n"
        "fib saddr . mark . iif oif missing drop\n}",
    ),
    "our address": table(KEEP, "ip daddr 10.77.0.1 tcp dport 60000 accept", "ip daddr 10.77.0.9 accept"),
    "client ports": table(KEEP, "tcp sport 1024-65535 tcp dport 60000 accept", "tcp sport < 1024 accept"),
    "translated only": table(KEEP, "ct status dnat accept", "ct direction original tcp dport 60000 accept"),
    "asleep": nft(
        "table inet f {",
        "flags dormant;",
        "chain input {",
        "type filter hook input priority 0; policy drop;",
        "}",
        "}",
    ),
    "ingress": table("accept")
    + "\n"
    + nft(
        "table netdev n {",
        "chain in {",
        'type filter hook ingress device "eth7" priority 0; policy accept;',
        "tcp dport 60000 drop",
        "}",
        "}",
    ),
    "nat of another port": table("accept")
    + "\n"
    + nft(
        "table ip nat {",
        "chain pre {",
        "type nat hook prerouting priority dstnat; policy accept;",
        "tcp dport 8080 redirect to :80",
        "}",
        "}",
    ),
    "firewalld": nft(
        "table inet firewalld {",
        "chain mangle_PREROUTING {",
        "type filter hook prerouting priority mangle + 10; policy accept;",
        "icmpv6 type { nd-router-advert, nd-neighbor-solicit } accept",
        "meta nfproto ipv6 fib saddr . mark . iif oif missing drop",
        "}",
        "chain nat_PREROUTING {",
        "type nat hook prerouting priority dstnat + 10; policy accept;",
        "jump nat_zones",
        "}",
        "chain nat_zones {",
        'iifname "eth7" goto nat_public',
        "}",
        "chain nat_public {",
        "}",
        "chain filter_INPUT {",
        "type filter hook input priority filter + 10; policy accept;",
        "ct state { established, related } accept",
        "ct status dnat accept",
        'iifname "lo" accept',
        "ct state invalid drop",
        "jump filter_zones",
        "reject with icmpx admin-prohibited",
        "}",
        "chain filter_zones {",
        "ip saddr 10.77.0.2 tcp dport 60001 accept",
        'iifname "eth7" goto filter_IN_public',
        "goto filter_IN_public",
        "}",
        "chain filter_IN_public {",
        "jump filter_IN_public_allow",
        "meta l4proto { icmp, ipv6-icmp } accept",
        "}",
        "chain filter_IN_public_allow {",
        "tcp dport 22 accept",
        "tcp dport 29500 accept",
        "}",
        "}",
    ),
    # What nobody can judge, and where it does not matter.
    "a limit decides": table(KEEP, "limit rate 1/minute accept"),
    "a limit of one port": table(
        KEEP, "tcp dport 60000 limit rate 5/second accept", "tcp dport 60001 accept"
    ),
    "a set that packets fill": table(
        KEEP,
        "tcp dport 29500 add @seen { ip saddr }",
        "tcp dport { 29500, 60000 } accept",
        "ip saddr @seen drop",
        before="set seen {\ntype ipv4_addr\nflags dynamic,timeout\ntimeout 1m\n}",
        policy="accept",
    ),
    "a redirection": nft(
        "table ip nat {",
        "chain pre {",
        "type nat hook prerouting priority dstnat; policy accept;",
        "tcp dport 60000 redirect to :60001",
        "}",
        "}",
    ),
    "time to live": table(KEEP, "ip ttl > 5 tcp dport 60000 accept", "tcp dport 60001 accept"),
}

IPTABLES = {
    "drop all": ipt("-P INPUT DROP"),
    "reject at the end": ipt(OWN, "-A INPUT -p tcp -m tcp --dport 60000 -j ACCEPT", "-A INPUT -j REJECT"),
    "multiport": ipt(
        "-P INPUT DROP", OWN, "-A INPUT -p tcp -m multiport --dports 29500,60001:60031 -j ACCEPT"
    ),
    "comment": ipt(
        "-P INPUT DROP",
        OWN,
        '-A INPUT -p tcp --dport 60000 -m comment --comment "it\'s -j DROP ! for HCCL" -j ACCEPT',
    ),
    "state": ipt(
        "-P INPUT DROP",
        "-A INPUT -m state --state ESTABLISHED -j ACCEPT",
        "-A INPUT -p tcp -m state --state NEW -m tcp --dport 60000 -j ACCEPT",
    ),
    "chains": ipt(
        "-N JOB",
        "-A JOB ! -s 10.77.0.0/24 -j RETURN",
        "-A JOB -p tcp --dport 60001 -j ACCEPT",
        "-P INPUT DROP",
        OWN,
        "-A INPUT -i eth+ -j JOB",
        "-A INPUT -i eth8 -j ACCEPT",
    ),
    "goto": ipt(
        "-N JOB", "-A JOB -p tcp --dport 60001 -j ACCEPT", OWN, "-A INPUT -g JOB", "-A INPUT -j ACCEPT",
        "-P INPUT DROP",
    ),
    "not the interface": ipt("-A INPUT ! -i lo -p tcp --dport 60000 -j DROP"),
    "syn": ipt("-A INPUT -p tcp --dport 60000 --syn -j REJECT --reject-with tcp-reset"),
    "not syn": ipt("-A INPUT -p tcp ! --syn -m state --state NEW -j DROP"),
    "a range of senders": ipt(
        "-P INPUT DROP",
        OWN,
        "-A INPUT -p tcp --dport 60000 -m iprange --src-range 10.77.0.2-10.77.0.4 -j ACCEPT",
    ),
    "not a range of senders": ipt("-A INPUT -m iprange ! --src-range 10.77.0.3-10.77.0.9 -j DROP"),
    "local addresses": ipt(
        "-P INPUT DROP", OWN, "-A INPUT -m addrtype --dst-type LOCAL -p tcp --dport 60000 -j ACCEPT"
    ),
    "a mark": ipt(
        "-t mangle -A PREROUTING -p tcp --dport 60000 -j MARK --set-xmark 0x10/0x30",
        "-t mangle -A PREROUTING -p tcp --dport 60001 -j MARK --set-xmark 0x20/0x30",
        "-A INPUT -m mark --mark 0x10/0x10 -j DROP",
    ),
    "raw": ipt("-t raw -A PREROUTING -p tcp --dport 60000 -j DROP"),
    "no tracking": ipt(
        "-t raw -A PREROUTING -p tcp --dport 60000 -j CT --notrack",
        "-P INPUT DROP",
        OWN,
        "-A INPUT -p tcp -m conntrack --ctstate UNTRACKED -j ACCEPT",
    ),
    "docker": ipt(
        "-t nat -N DOCKER",
        "-t nat -A PREROUTING -m addrtype --dst-type LOCAL -j DOCKER",
        "-t nat -A DOCKER -i docker0 -j RETURN",
        "-t nat -A DOCKER ! -i docker0 -p tcp -m tcp --dport 8080 -j DNAT --to-destination 172.17.0.2:80",
        "-P FORWARD DROP",
    ),
    "kubernetes": ipt(
        "-N KUBE-FIREWALL",
        "-A KUBE-FIREWALL ! -s 127.0.0.0/8 -d 127.0.0.0/8 -m comment --comment block -m conntrack "
        "! --ctstate RELATED,ESTABLISHED,DNAT -j DROP",
        "-A INPUT -j KUBE-FIREWALL",
        "-t nat -N KUBE-NODEPORTS",
        "-t nat -A PREROUTING -m addrtype --dst-type LOCAL -j KUBE-NODEPORTS",
        "-t nat -A KUBE-NODEPORTS -p tcp --dport 30080 -j REDIRECT --to-ports 8080",
    ),
    "ufw": ipt(
        "-N ufw-before", "-N ufw-not-local", "-N ufw-user",
        "-A ufw-before -i lo -j ACCEPT",
        "-A ufw-before -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT",
        "-A ufw-before -m conntrack --ctstate INVALID -j DROP",
        "-A ufw-before -p udp --sport 67 --dport 68 -j ACCEPT",
        "-A ufw-before -j ufw-not-local",
        "-A ufw-not-local -m addrtype --dst-type LOCAL -j RETURN",
        "-A ufw-not-local -m limit --limit 3/min --limit-burst 10 -j LOG",
        "-A ufw-not-local -j DROP",
        "-A ufw-before -j ufw-user",
        "-A ufw-user -p tcp --dport 22 -j ACCEPT",
        "-A ufw-user -s 10.77.0.0/24 -p tcp -m multiport --dports 60000:60001 -j ACCEPT",
        "-P INPUT DROP",
        "-A INPUT -j ufw-before",
        "-A INPUT -m limit --limit 3/min -j LOG",
    ),
    "packet type": ipt(
        "-A INPUT -m pkttype --pkt-type broadcast -j DROP",
        "-A INPUT -m pkttype --pkt-type unicast -p tcp --dport 60000 -j DROP",
    ),
    "reverse path": ipt("-t raw -A PREROUTING -m rpfilter --invert -j DROP"),
    "output": ipt("-P OUTPUT DROP", "-A OUTPUT -p tcp --sport 60000 -j ACCEPT"),
    "recent": ipt(
        "-A INPUT -p tcp --dport 60000 -m recent --name x --set -j ACCEPT",
        "-A INPUT -p tcp --dport 60001 -m recent --name x --rcheck -j DROP",
    ),
    "string": ipt("-A INPUT -p tcp --dport 60000 -m length --length 0:20 -j DROP"),
}  # fmt: skip

# What the older iptables knows as well.
LEGACY = {
    f"legacy: {name}": script.replace("iptables ", "iptables-legacy ")
    for name, script in IPTABLES.items()
    if name
    in (
        "drop all", "reject at the end", "multiport", "chains", "goto", "state", "ufw", "raw", "a mark",
        "not syn", "docker", "output",
    )
}  # fmt: skip

BOTH = {
    "nft accepts, legacy drops": table(KEEP, "tcp dport 60000-60002 accept")
    + "\n"
    + legacy("-A INPUT -p tcp --dport 60000 -j DROP"),
    "legacy accepts, nft drops": legacy("-P INPUT DROP", OWN, "-A INPUT -p tcp --dport 60000:60002 -j ACCEPT")
    + "\n"
    + table("tcp dport 60002 drop", policy="accept"),
    "iptables of both kinds": ipt("-A INPUT -p tcp --dport 60000 -j DROP")
    + "\n"
    + legacy("-A INPUT -p tcp --dport 60001 -j REJECT"),
    "all three": ipt("-A INPUT -p tcp --dport 60000 -j DROP")
    + "\n"
    + legacy("-A INPUT -p tcp --dport 60001 -j REJECT")
    + "\n"
    + table("tcp dport 60002 drop", policy="accept"),
    "a native rule in a chain of iptables": ipt(
        "-P INPUT DROP", OWN, "-A INPUT -p tcp -m multiport --dports 60000 -j ACCEPT"
    )
    + "\nnft 'add rule ip filter INPUT ip saddr . tcp dport { 10.77.0.2 . 60001 } accept'",
    "legacy is there and empty": legacy("-S") + "\n" + table(KEEP, "tcp dport 60000 accept"),
}  # fmt: skip

IPV6 = {
    "nothing": "true",
    "drop": ipt("-P INPUT DROP", tool="ip6tables"),
    "only IPv4 drops": ipt("-P INPUT DROP"),
    "well kept": ipt(
        "-A INPUT -m rt --rt-type 0 -j DROP",
        "-A INPUT -p ipv6-icmp -m icmp6 --icmpv6-type 135 -j ACCEPT",
        "-A INPUT -p ipv6-icmp -m icmp6 --icmpv6-type 136 -j ACCEPT",
        "-A INPUT -m conntrack --ctstate ESTABLISHED -j ACCEPT",
        "-A INPUT -s fd77::/64 -p tcp --dport 60000 -j ACCEPT",
        "-P INPUT DROP",
        tool="ip6tables",
    ),
    "neighbours are not found": ipt(
        "-A INPUT -p tcp --dport 60000 -j ACCEPT",
        "-P INPUT DROP",
        tool="ip6tables",
    ),
    "nftables": table(
        KEEP,
        "icmpv6 type { nd-neighbor-solicit, nd-neighbor-advert } accept",
        "ip6 saddr fd77::/64 tcp dport { 60000, 60001 } accept",
        "exthdr rt exists drop",
    ),
    "legacy": ipt("-A INPUT -p tcp --dport 60000 -j DROP", tool="ip6tables-legacy"),
}

RULE_SETS = {
    **{f"nft: {name}": script for name, script in NFT.items()},
    **{f"iptables: {name}": script for name, script in IPTABLES.items()},
    **LEGACY,
    **{f"both: {name}": script for name, script in BOTH.items()},
}
