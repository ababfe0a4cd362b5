# SPDX-License-Identifier: GPL-3.0-or-later
"""Network namespaces of a testbed: one per site, and a hub that holds the bridge between them.

Nothing is made outside these namespaces. `lo` of each carries the testbed's root folder as its alias, so a
namespace says whose it is even when everything else is lost."""
import contextlib
import json
import os
import re
import signal
import subprocess
import time

HERE = "/run/netns"


def ip(*words, **keywords):
    return subprocess.run(("ip", *words), check=True, text=True, capture_output=True, **keywords)


def batch(namespace, commands):
    ip("-n", namespace, "-batch", "-", input="".join(command + "\n" for command in commands))


def add(name, owner):
    ip("netns", "add", name)
    batch(name, [f"link set dev lo alias {owner}", "link set dev lo up"])


def owner(name):
    """The root folder that the namespace belongs to; "" when a crash came before it was written."""
    with contextlib.suppress(subprocess.CalledProcessError, ValueError, IndexError):
        return json.loads(ip("-n", name, "-j", "link", "show", "dev", "lo").stdout)[0].get("ifalias", "")
    return ""


def names(prefix):
    """The testbed namespaces with this prefix: PREFIX-hub, PREFIX-1, PREFIX-2, …"""
    ours = re.compile(re.escape(prefix) + r"-(hub|\d+)")
    with contextlib.suppress(FileNotFoundError):
        return sorted(filter(ours.fullmatch, os.listdir(HERE)))
    return []


def build(prefix, sites, root):
    hub = prefix + "-hub"
    add(hub, root)
    subnet = sites[0].subnet
    batch(hub, ["link add br0 type bridge", f"addr add {subnet}.0.1/16 dev br0", "link set br0 up"])
    for site in sites:
        add(site.namespace, root)
        port = f"site{site.index}"
        batch(site.namespace, [
            f"link add wan0 type veth peer name {port} netns {hub}",
            f"addr add {site.address}/16 dev wan0",
            *(f"addr add {node.address}{'/64 nodad' if ':' in node.address else '/16'} dev wan0" for node in site.nodes),
            "link set wan0 up"])
        batch(hub, [f"link set {port} master br0 up"])


def lose(site, other, word):
    """Add or delete the rules that drop what the nodes of two sites send from their own addresses to the other."""
    for here, there in ((site, other), (other, site)):
        batch(here.namespace, [f"rule {word} from {node.address} to {there.subnet}.{there.index}.0/24 blackhole"
                               for node in here.nodes])


def plug(prefix, site, word):
    """Take the site's cable out of the bridge ("down") or put it back ("up"); inside the site nothing changes."""
    batch(prefix + "-hub", [f"link set site{site.index} {word}"])


def inhabitants(inodes):
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            with contextlib.suppress(OSError):
                if os.stat(f"/proc/{entry}/ns/net").st_ino in inodes:
                    yield int(entry)


def kill_inhabitants(inodes, deadline):
    """SIGKILL to whatever lives in the namespaces until nothing does. A pidfd is taken before looking, so a
    pid that is reused meanwhile is never hit."""
    while pids := list(inhabitants(inodes)):
        for pid in pids:
            with contextlib.suppress(OSError):
                pidfd = os.pidfd_open(pid)
                try:
                    if os.stat(f"/proc/{pid}/ns/net").st_ino in inodes:
                        signal.pidfd_send_signal(pidfd, signal.SIGKILL)
                finally:
                    os.close(pidfd)
        if time.monotonic() > deadline:
            raise TimeoutError(f"processes {pids} do not die")
        time.sleep(0.02)


def remove(namespaces):
    """Kill all that lives there and delete the names. The namespaces are held open meanwhile: their inode
    numbers cannot come back as others'. Who slipped in before the names went is found by the second look."""
    deadline = time.monotonic() + 20
    held = []
    for name in namespaces:
        with contextlib.suppress(FileNotFoundError):
            held.append(os.open(f"{HERE}/{name}", os.O_RDONLY | os.O_CLOEXEC))
    inodes = {os.fstat(fd).st_ino for fd in held}
    # A crash inside `ip netns add` may leave a plain file there: the inode of no namespace.
    kill_inhabitants(inodes, deadline)
    for name in namespaces:
        subprocess.run(("ip", "netns", "del", name), capture_output=True, check=False)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(f"{HERE}/{name}")
    kill_inhabitants(inodes, deadline)
    for fd in held:
        os.close(fd)
