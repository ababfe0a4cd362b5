# SPDX-License-Identifier: GPL-3.0-or-later
"""A wide-area network between network namespaces, emulated by the program `wan` (wan.cc): the kernel needs no netem.

    with Places("sfw", ["s1", "s2"]) as places, Wan(places.spaces, {("s1", "s2"): Link(20, 100)}, program) as wan:
        subprocess.run(wan.enter("s1") + ["ping", wan.address("s2")])
        wan.set({("s1", "s2"): Link(20, 10)})
"""
import contextlib
import dataclasses
import json
import os
import subprocess
import tempfile

import netns

DEVICE = "far0"
NET = "10.93"
# For paths of 200 Mbit/s and 100 ms, and no memory of what an earlier connection saw.
SYSCTLS = ("net.ipv4.tcp_rmem=4096 1048576 33554432", "net.ipv4.tcp_wmem=4096 1048576 33554432",
           "net.ipv4.tcp_no_metrics_save=1", "net.ipv4.tcp_slow_start_after_idle=0")


@dataclasses.dataclass(frozen=True)
class Link:
    """One way of a pair: delay in ms, Mbit/s of IP packets (0: no limit), what may wait in ms, share that is lost."""
    delay_ms: float
    mbps: float = 0
    queue_ms: float = 100
    loss: float = 0.0
    up: bool = True


class WanError(Exception):
    """One message for the person who runs this."""


class Wan:
    """places: {name: network namespace}; links: {(from, to): Link}, a missing pair is a wire without length."""

    def __init__(self, places, links, program, net=NET, device=DEVICE):
        self.places, self.links = dict(places), dict(links)
        self.net, self.device = net, device
        self.numbers = {name: index + 1 for index, name in enumerate(self.places)}
        self.folder = tempfile.mkdtemp(prefix="wan-")
        self.counts = None
        self.write()
        words = [f"{name}={os.path.join(netns.HERE, space)}={self.address(name)}" for name, space in self.places.items()]
        self.child = subprocess.Popen([program, self.control, device, *words], stdout=subprocess.PIPE,
                                      stderr=subprocess.PIPE, text=True)
        try:
            if self.child.stdout.readline() != "ready\n":
                raise WanError(self.child.communicate()[1].strip())
            for name, space in self.places.items():
                self.switch_on(name, space)
        except BaseException:
            self.down()
            raise

    def switch_on(self, name, space):
        netns.batch(space, [f"addr add {self.address(name)}/16 dev {self.device}",
                            f"link set {self.device} mtu 1500 txqueuelen 1000 up"])
        subprocess.run(("ip", "netns", "exec", space, "sysctl", "-q", "-w", *SYSCTLS), check=True)

    @property
    def control(self):
        return os.path.join(self.folder, "control")

    def write(self):
        """At once: the emulator sees the old links or the new ones."""
        with open(self.control + ".new", "w", encoding="ascii") as file:
            for (a, b), link in self.links.items():
                file.write(f"{a} {b} {link.delay_ms} {link.mbps} {link.queue_ms} {link.loss} {int(link.up)}\n")
        os.rename(self.control + ".new", self.control)

    def set(self, links):
        """Takes effect within a quarter of a second."""
        self.links |= links
        self.write()

    def address(self, name):
        return f"{self.net}.{self.numbers[name]}.1"

    def enter(self, name):
        return ["ip", "netns", "exec", self.places[name]]

    def down(self):
        """What was counted; the devices go with the program."""
        if self.child.poll() is None:
            self.child.terminate()
        said, trouble = self.child.communicate()
        for name in ("control", "control.new"):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(os.path.join(self.folder, name))
        with contextlib.suppress(FileNotFoundError):
            os.rmdir(self.folder)
        if said:
            self.counts = json.loads(said)
        elif trouble:
            raise WanError(trouble.strip())
        return self.counts

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.counts is None:
            self.down()


class Places:
    """Namespaces PREFIX-1, PREFIX-2, … for tests without Slurm. Those that an earlier run left are taken away first."""

    def __init__(self, prefix, names):
        self.prefix = prefix
        netns.remove(netns.names(prefix))
        self.spaces = {}
        for index, name in enumerate(names):
            self.spaces[name] = f"{prefix}-{index + 1}"
            netns.add(self.spaces[name], prefix)

    def down(self):
        netns.remove(netns.names(self.prefix))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.down()
