# SPDX-License-Identifier: GPL-3.0-or-later
"""N independent Slurm sites on this machine, for the live tests: `Testbed(root, prefix)`. Needs root.

Each site has its own munged, slurmctld, slurmd per node, slurmrestd and JWT key, and lives in its own network
namespace. The state file is written before each step, so down() takes everything away after any crash."""
import base64
import contextlib
import functools
import hashlib
import hmac
import json
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time

import netns
import processes
import slurmconf

PREFIX = "sf"
SUBNET = "10.77"
USERS = ("sfalice", "sfbob")
REST_USER = "sfrest"  # slurmrestd refuses to run as root or as SlurmUser
REST_PORT = 6820
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
TOKEN_LIFE = 30 * 24 * 3600
FAKETIME = "/usr/$LIB/faketime/libfaketimeMT.so.1"  # of Debian's libfaketime; $LIB is the loader's word


class TestbedError(Exception):
    """One message for the person who runs the tests."""


def ensure_account(name, shell="/bin/bash"):
    # No home in passwd: two testbeds may run, each with its own; HOME says which.
    for _ in range(50):
        with contextlib.suppress(KeyError):
            return pwd.getpwnam(name)
        made = subprocess.run(("useradd", "--system", "--user-group", "--no-create-home",
                               "--home-dir", "/nonexistent", "--shell", shell, name),
                              capture_output=True, text=True, check=False)
        if made.returncode:
            time.sleep(0.1)  # passwd is locked by another useradd
    raise TestbedError(f"useradd {name}: {made.stderr.strip()}")


def write(path, data, mode=0o644, user="root"):
    """Replace a file at once: a reader sees the old text or the new one."""
    account = pwd.getpwnam(user)
    fd, new = tempfile.mkstemp(dir=os.path.dirname(path), prefix=".new-")
    with os.fdopen(fd, "wb") as out:
        out.write(data if isinstance(data, bytes) else data.encode())
        os.fchown(fd, account.pw_uid, account.pw_gid)
        os.fchmod(fd, mode)
    os.rename(new, path)


class Testbed:
    __test__ = False  # not a test case, whatever its name looks like

    def __init__(self, root=None, prefix=PREFIX, subnet=SUBNET):
        self.root = os.path.abspath(root or f"/tmp/spiderflow-{prefix}")
        self.prefix = prefix
        self.subnet = subnet
        self.sites = []
        self.processes = {}
        self.clocks = {}  # site -> by how many seconds the clock of daemons that are started is ahead
        self.interrupts = []
        self.load()

    # -- the state file

    @property
    def state_file(self):
        return self.root + "/state.json"

    def load(self):
        with contextlib.suppress(FileNotFoundError):
            with open(self.state_file, encoding="utf-8") as file:
                state = json.load(file)
            self.prefix, self.subnet = state["prefix"], state["subnet"]
            self.sites = [slurmconf.Site(**site) for site in state["sites"]]
            self.processes = state["processes"]

    def save(self):
        state = {"prefix": self.prefix, "subnet": self.subnet, "sites": [vars(site) for site in self.sites],
                 "processes": self.processes}
        write(self.state_file, json.dumps(state, indent=1))

    def site(self, name):
        for site in self.sites:
            if name in (site.name, site, site.index):
                return site
        there = " ".join(site.name for site in self.sites) or "nothing is up"
        raise TestbedError(f"no site {name} in {self.root}: {there}")

    # -- up

    def up(self, count=2, nodes=2, gpus=4, gpu_type="h100", cpus=16, addresses="ipv4", names=None, plugstack=(),
           conf=(), wait=60, report=print):
        """Bring `count` sites up and wait until all their nodes are idle. nodes, gpus, gpu_type, cpus and
        addresses may be lists, one value per site; of gpus such a value may itself be a list, one per node.
        names: {"s1": host list} for sites whose nodes are not called s1-n1, s1-n2, …; it says how many they are.
        Whatever goes wrong, nothing stays up."""
        began = time.monotonic()
        with self.locked(), processes.signals_held() as self.interrupts:
            self.load()
            if self.sites:
                raise TestbedError(f"testbed {self.root} is up already: run `sites down` first")
            if taken := netns.names(self.prefix):
                whose = netns.owner(taken[0]) or "unknown"
                raise TestbedError(f"namespace {taken[0]} exists (testbed {whose}): take that one down, or"
                                   " choose another --prefix")
            if not self.mine():
                raise TestbedError(f"{self.root} holds other files: choose another --root")
            if strange := sorted(set(names or {}) - {f"s{i}" for i in range(1, count + 1)}):
                raise TestbedError(f"names for {' '.join(strange)}: the sites are s1 to s{count}")
            for user in USERS:
                ensure_account(user)
            ensure_account(REST_USER, "/usr/sbin/nologin")
            self.sites = [self.describe(i, names or {}, nodes, gpus, gpu_type, cpus, addresses)
                          for i in range(1, count + 1)]
            try:
                os.makedirs(self.root, mode=0o755, exist_ok=True)
                os.chmod(self.root, 0o755)
                self.save()
                self.build(plugstack, conf)
                self.start_all(self.sites, began, began + wait, report)
            except BaseException:
                self.remove()
                raise

    def describe(self, index, names, nodes, gpus, gpu_type, cpus, addresses):
        def own(value, index=index):
            return value[(index - 1) % len(value)] if isinstance(value, (list, tuple)) else value

        hosts = slurmconf.expand(names.get(f"s{index}") or f"s{index}-n[1-{own(nodes)}]")
        if own(addresses) not in slurmconf.ADDRESSES:
            raise TestbedError(f"addresses {own(addresses)}: known are {' '.join(slurmconf.ADDRESSES)}")
        return slurmconf.Site(index, f"{self.root}/s{index}", f"{self.prefix}-{index}", self.subnet, hosts,
                              [int(own(own(gpus), node)) for node in range(1, len(hosts) + 1)], own(gpu_type),
                              int(own(cpus)), own(addresses))

    def build(self, plugstack, conf):
        for user in USERS:
            home = self.home(user)
            os.makedirs(home, exist_ok=True)
            shutil.chown(home, user, user)
        for site in self.sites:
            spools = ["spool/" + node.name for node in site.nodes]
            for folder in ("etc", "ctld", "run", "log", "munge", "dev", *spools):
                os.makedirs(site.path(folder), exist_ok=True)
            for folder in ("ctld", "run", "log"):
                shutil.chown(site.path(folder), "slurm", "slurm")
            shutil.chown(site.path("munge"), "munge", "munge")
            for gpu in range(max(site.gpus)):
                # Clones of /dev/null: with plain files slurmd sets no CUDA_VISIBLE_DEVICES.
                os.mknod(site.path("dev", f"gpu{gpu}"), 0o020666, os.makedev(1, 3))
            write(site.path("jwt_hs256.key"), os.urandom(32), 0o600, "slurm")
            write(site.path("munge/munge.key"), os.urandom(128), 0o400, "munge")
            write(site.path("etc/slurm.conf"), slurmconf.slurm_conf(site, conf))
            write(site.path("etc/gres.conf"), slurmconf.gres_conf(site))
            if site.hosts_file:
                write(site.hosts_file, slurmconf.hosts(site))
            self.plugstack(site, plugstack)
            write(self.token_file(site), self.token(site, "slurm", TOKEN_LIFE) + "\n", 0o600)
        netns.build(self.prefix, self.sites, self.root)

    def start_all(self, sites, began, deadline, report):
        """Each step on all these sites before the next one, so that they start beside each other."""

        def wait(site, daemon, ready):
            self.wait_for(site, daemon, ready, deadline)

        for site in sites:
            self.start(site, "munged")
        for site in sites:
            wait(site, "munged", functools.partial(os.path.exists, site.path("munge/munge.sock")))
            self.start(site, "slurmctld")
        for site in sites:
            # A slurmd that finds no slurmctld sleeps before it tries again.
            wait(site, "slurmctld", functools.partial(self.listens, site, "slurmctld", 6817))
            for node in site.nodes:
                self.start(site, node.name)
            self.start(site, "slurmrestd")
        for site in sites:
            wait(site, "slurmrestd", functools.partial(self.listens, site, "slurmrestd", REST_PORT))
            for node in site.nodes:
                wait(site, node.name, functools.partial(self.idle, site, node))
            gpus = "+".join(map(str, site.gpus)) if len(set(site.gpus)) > 1 else f"{site.gpus[0]} each"
            report(f"{site.name}: {len(site.nodes)} nodes idle, {site.gpu_type} {gpus}, {self.url(site)},"
                   f" {time.monotonic() - began:.1f} s")

    def wait_for(self, site, daemon, ready, deadline):
        while not ready():
            if self.interrupts:
                raise TestbedError("interrupted")
            late = time.monotonic() > deadline
            if late or not self.alive(site, daemon):
                trouble = "is not ready in time" if late else "died"
                log = processes.tail(*self.logs(site, daemon))
                raise TestbedError(f"{site.name}: {daemon} {trouble}; {log}")
            time.sleep(0.02)

    # -- daemons: munged, slurmctld, slurmrestd, and each node's slurmd under the node's name

    def command(self, site, daemon):
        clock = self.clock(site)
        if daemon == "munged":
            folder = site.path("munge/")
            return self.enter(site, site.head, "munge") + clock + [
                "munged", "--foreground", "--num-threads=2",
                "--key-file", folder + "munge.key", "--socket", folder + "munge.sock",
                "--pid-file", folder + "munged.pid", "--log-file", folder + "munged.log",
                "--seed-file", folder + "munged.seed"]
        if daemon == "slurmctld":
            return self.enter(site, site.head) + clock + ["slurmctld", "-D", "-i"]
        if daemon == "slurmrestd":
            # Without -s, 22.05 loads the slurmdbd plugins too and dies for want of slurmdbd.
            return self.enter(site, site.head, REST_USER) + clock + [
                "slurmrestd", "-a", "rest_auth/jwt", "-s", "v0.0.38,v0.0.37,v0.0.36",
                f"{site.address}:{REST_PORT}"]
        return self.enter(site, daemon) + clock + ["slurmd", "-D", "-N", daemon]

    def clock(self, site):
        """Words before a daemon that set its clock; what it starts has that clock too. Directly before it: the library
        keeps a semaphore for each process, which belongs to the user who had it first."""
        ahead = self.clocks.get(site.name)
        return [] if ahead is None else ["env", "LD_PRELOAD=" + FAKETIME, f"FAKETIME={ahead:+d}s", "NO_FAKE_STAT=1",
                                         "FAKETIME_DONT_FAKE_MONOTONIC=1"]

    def logs(self, site, daemon):
        named = {"munged": "munge/munged.log", "slurmctld": "log/slurmctld.log"}
        return site.path(named.get(daemon, f"log/slurmd.{daemon}.log")), site.path("log", daemon + ".out")

    def start(self, site, daemon):
        """Start one daemon (again); for tests that take one away."""
        site = self.site(site)
        env = {"PATH": PATH, "LANG": "C.UTF-8", "SLURM_CONF": site.path("etc/slurm.conf")}
        if daemon == "slurmrestd":
            env["SLURM_JWT"] = "daemon"
        if daemon == "munged":
            with contextlib.suppress(FileNotFoundError):
                os.unlink(site.path("munge/munge.sock"))
        log = site.path("log", daemon + ".out")
        self.processes[f"{site.name}/{daemon}"] = processes.spawn(self.command(site, daemon), log, env)
        self.save()

    def stop(self, site, daemon, number=signal.SIGTERM, seconds=20):
        process = self.processes[f"{self.site(site).name}/{daemon}"]
        processes.send(process, number)
        if not processes.wait_gone(process, seconds):
            raise TestbedError(f"{site}: {daemon} is still there {seconds} s after signal {number}")

    def alive(self, site, daemon):
        return processes.alive(self.processes.get(f"{self.site(site).name}/{daemon}"))

    def idle(self, site, node):
        return self.nodes(site).get(node.name) == "idle"

    def listens(self, site, daemon, port):
        return processes.listens(self.processes[f"{site.name}/{daemon}"]["pid"], port)

    # -- down

    def locked(self):
        return processes.locked("root " + self.root, "prefix " + self.prefix)

    def down(self):
        with self.locked(), processes.signals_held():
            self.load()
            self.remove()

    def remove(self):
        """Everything of this testbed, by three independent traces: who lives in its namespaces, the recorded
        processes, and the mounts below its root. Never a namespace that says it belongs to another root."""
        netns.remove([name for name in netns.names(self.prefix) if netns.owner(name) in ("", self.root)])
        for process in self.processes.values():
            processes.send(process, signal.SIGKILL)
        for process in self.processes.values():
            processes.wait_gone(process, 10)
        with open("/proc/self/mounts", encoding="utf-8") as mounts:
            below = [line.split()[1] for line in mounts if line.split()[1].startswith(self.root + "/")]
        for mount in reversed(below):
            subprocess.run(("umount", "--lazy", mount), check=True)
        if self.mine():
            shutil.rmtree(self.root, ignore_errors=True)
            if os.path.exists(self.root):
                raise TestbedError(f"{self.root}: cannot be removed")
        self.sites, self.processes = [], {}

    def mine(self):
        """Whether the root folder is this testbed's to fill and to delete."""
        inside = os.listdir(self.root) if os.path.exists(self.root) else []
        return "state.json" in inside or all(name.startswith(".new-") for name in inside)

    # -- trouble between sites

    def cut(self, site, other):
        """What the nodes of one site send to the other is lost in silence, and the other way round. The login
        hosts, the broker with them, still reach everything."""
        netns.lose(self.site(site), self.site(other), "add")

    def mend(self, site, other):
        netns.lose(self.site(site), self.site(other), "del")

    # -- what a site offers

    def url(self, site):
        return f"http://{self.site(site).address}:{REST_PORT}"

    def home(self, user):
        return self.root if user == "root" else f"{self.root}/home/{user}"

    def token_file(self, site):
        return self.site(site).path("token.slurm")

    def token(self, site, user, life=3600):
        """A JWT of this site, as `scontrol token` would give."""
        with open(self.site(site).path("jwt_hs256.key"), "rb") as file:
            key = file.read()

        def text(data):
            return base64.urlsafe_b64encode(data).rstrip(b"=")

        now = int(time.time())
        head = text(json.dumps({"alg": "HS256", "typ": "JWT"}).encode())
        body = text(json.dumps({"exp": now + life, "iat": now, "sun": user}).encode())
        signature = text(hmac.new(key, head + b"." + body, hashlib.sha256).digest())
        return b".".join((head, body, signature)).decode()

    def plugstack(self, site, lines):
        """Which SPANK plugins the site has; new steps and commands see it at once."""
        write(self.site(site).path("etc/plugstack.conf"), slurmconf.plugstack_conf(lines))

    def enter(self, site, host, user=None):
        """Words before a command that is to run at the site. Each of them execs the next: the pid stays the
        command's. Not `ip netns exec`: it mounts /sys anew, and slurmd finds no cgroups."""
        words = ["nsenter", f"--net={netns.HERE}/{site.namespace}", "unshare", "--uts"]
        begin = 'printf %s "$0" >/proc/sys/kernel/hostname && exec "$@"'  # hostname(1) refuses "rack0_blade0"
        mounts = [f"mount --bind '{site.hosts_file}' /etc/hosts"] if site.hosts_file else []
        if site.name in self.clocks:
            mounts.append("mount -t tmpfs shm /dev/shm")  # libfaketime leaves files there when it is killed
        if mounts:
            words.append("--mount")
            begin = " && ".join((*mounts, begin))
        words += ["sh", "-c", begin, host]
        if user and user != "root":
            words += ["setpriv", f"--reuid={user}", f"--regid={pwd.getpwnam(user).pw_gid}", "--init-groups"]
        return words

    def login(self, site, user, env=None):
        """The environment of a fresh login there."""
        shell = pwd.getpwnam(user).pw_shell
        return {"HOME": self.home(user), "USER": user, "LOGNAME": user, "SHELL": shell, "PATH": PATH,
                "LANG": "C.UTF-8", "SLURM_CONF": self.site(site).path("etc/slurm.conf")} | (env or {})

    def popen(self, site, argv, user="root", node=None, env=None, cwd=None, **keywords):
        """Start a command at a site; its pid is the command's own, in a session of its own."""
        site = self.site(site)
        words = self.enter(site, node or site.head, user) + list(argv)
        return subprocess.Popen(words, env=self.login(site, user, env), cwd=cwd or self.home(user),
                                start_new_session=True, **keywords)

    def run(self, site, argv, user="root", input="", timeout=60, node=None, env=None, cwd=None, check=False):
        """Run a command at a site as a user, in his home, with a clean environment; text in, text out."""
        pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        with self.popen(site, argv, user, node, env, cwd, text=True, **pipes) as child:
            try:
                out, err = child.communicate(input, timeout)
            except BaseException:
                os.killpg(child.pid, signal.SIGKILL)
                raise
        done = subprocess.CompletedProcess(argv, child.returncode, out, err)
        if check and done.returncode:
            words = " ".join(argv)
            raise TestbedError(f"{self.site(site).name}: {words}: status {done.returncode}: {err.strip()}")
        return done

    def nodes(self, site):
        """Node name -> state, as sinfo says ("idle", "mixed", "drained", …)."""
        rows = self.run(site, ["sinfo", "-h", "-N", "-o", "%N %T"], timeout=20).stdout.split("\n")
        return dict(row.split() for row in rows if row)

    def wait_idle(self, site=None, seconds=30):
        """Wait until all nodes (of one site, or of all) are idle; the error tells the states that stayed."""
        end = time.monotonic() + seconds
        for one in [self.site(site)] if site else self.sites:
            while set((states := self.nodes(one)).values()) != {"idle"}:
                if time.monotonic() > end:
                    raise TestbedError(f"{one.name}: nodes are not idle after {seconds} s: {states}")
                time.sleep(0.1)
