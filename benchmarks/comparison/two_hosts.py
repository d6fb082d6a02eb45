"""Two hosts for a benchmark: network namespaces joined by a veth pair, each end of which may have a rate."""

import contextlib
import os
import shutil
import subprocess
import time

INTERFACE = "tutti0"
ADDRESSES = ("10.77.0.1", "10.77.0.2")
ETHERNET_BYTES = 14  # the token bucket counts Ethernet headers; on a real wire preamble, checksum and gap come on top
IP_AND_TCP_BYTES = 20 + 32  # IPv4; TCP with timestamps
LEAST_BURST_BYTES = 128 << 10  # two of the largest packets that TCP hands down: less would cut them into frames here
BURST_S = 0.8e-3  # so late may the timer of the token bucket be without costing bandwidth
LIMIT_S = 30


class Unavailable(Exception):
    """This machine, or this user, cannot have such hosts; the text is one sentence."""


def payload_limit(gbit_per_s, mtu):
    """The payload of a TCP stream in bytes per second."""
    return gbit_per_s * 1e9 / 8 * (mtu - IP_AND_TCP_BYTES) / (mtu + ETHERNET_BYTES)


def burst_bytes(gbit_per_s):
    return max(LEAST_BURST_BYTES, int(gbit_per_s * 1e9 / 8 * BURST_S))


def configure(*command):
    """Returns what the command prints."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=LIMIT_S,
                              check=False)
    except subprocess.TimeoutExpired as late:
        raise Unavailable(f"`{' '.join(command)}` did not end within {LIMIT_S} s") from late
    if done.returncode != 0:
        why = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
        raise Unavailable(f"`{' '.join(command)}` failed: {why}; it needs root, and Linux with namespaces, veth and "
                          "the token bucket filter (sch_tbf)")
    return done.stdout


def wait_until_up(host):
    """The kernel may take a second."""
    end = time.monotonic() + LIMIT_S
    while '"operstate":"UP"' not in configure("ip", "-json", "-n", host, "link", "show", INTERFACE):
        if time.monotonic() > end:
            raise Unavailable(f"{INTERFACE} of the network namespace {host} was not up within {LIMIT_S} s")
        time.sleep(0.01)


def congestion_control():
    """That of this host, or "unknown"."""
    return " ".join(tcp_setting("congestion_control")) or "unknown"


def congestion_controls():
    """Those that a network namespace may have."""
    return tcp_setting("allowed_congestion_control")


def tcp_setting(name):
    try:
        with open(f"/proc/sys/net/ipv4/tcp_{name}", encoding="ascii") as file:
            return file.read().split()
    except OSError:
        return []


@contextlib.contextmanager
def two_hosts(gbit_per_s, mtu, congestion=None):
    """Yields the words before a command on each of them; without a rate the machine is the limit. Their TCP has the
    congestion control, one of congestion_controls(), or this host's. Afterwards they are gone. Raises Unavailable."""
    for tool in ("ip", "tc"):
        if not shutil.which(tool):
            raise Unavailable(f"{tool} is not installed (Debian: iproute2)")
    with contextlib.ExitStack() as stack:
        hosts = [f"tutti-{os.getpid()}-{side}" for side in "ab"]
        for host in hosts:
            configure("ip", "netns", "add", host)
            stack.callback(configure, "ip", "netns", "del", host)
        configure("ip", "link", "add", INTERFACE, "netns", hosts[0], "mtu", str(mtu), "type", "veth",
                  "peer", "name", INTERFACE, "netns", hosts[1], "mtu", str(mtu))
        for host, address in zip(hosts, ADDRESSES):
            configure("ip", "-n", host, "addr", "add", f"{address}/24", "dev", INTERFACE)
            configure("ip", "-n", host, "link", "set", "lo", "up")
            configure("ip", "-n", host, "link", "set", INTERFACE, "up")
            if congestion:
                configure("ip", "netns", "exec", host, "sh", "-c",
                          f"echo {congestion} > /proc/sys/net/ipv4/tcp_congestion_control")
            if gbit_per_s is not None:
                configure("tc", "-n", host, "qdisc", "add", "dev", INTERFACE, "root", "tbf", "rate",
                          f"{gbit_per_s * 1e9:.0f}bit", "burst", str(burst_bytes(gbit_per_s)), "latency", "5ms")
        for host in hosts:
            wait_until_up(host)
        yield [["ip", "netns", "exec", host] for host in hosts]
