# SPDX-License-Identifier: GPL-3.0-or-later
"""spiderflowd for a testbed: its configuration, and the daemon itself in the home site's network namespace.

    broker = Broker(bed, install)          # install: the prefix, or the DESTDIR, of `make install`
    broker.install_plugin()                # the plugstack line at every site
    broker.start()
    bed.run("s1", ["sbatch", "--spiderflow=…", "train.sh"], user="sfalice")
"""
import http.client
import json
import os
import pwd
import signal
import socket
import time

import processes
from testbed import PATH, TestbedError, ensure_account, write

USER = "sfbroker"
DAEMON = "spiderflowd"


def toml(value):
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {toml(item)}" for key, item in value.items()) + " }"
    return json.dumps(value)  # strings, numbers, booleans and lists are written alike


def table(head, values):
    return "\n".join([head, *(f"{key} = {toml(value)}" for key, value in values.items()), ""])


def find(install, name):
    """The one file of this name below the installation."""
    found = [os.path.join(folder, name) for folder, _, files in os.walk(install) if name in files]
    if len(found) != 1:
        raise TestbedError(f"{install}: {len(found)} files {name}, wanted one: {' '.join(found)}")
    return found[0]


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path, timeout):
        super().__init__("localhost", timeout=timeout)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


class Broker:
    """One spiderflowd, run as an ordinary system user who alone may read its token files. What it owns lies
    in the testbed's root, its process in the home site's namespace: Testbed.down() takes it away too."""

    def __init__(self, bed, install, home="s1"):
        self.bed, self.home = bed, bed.site(home)
        self.daemon, self.client, self.plugin = (find(install, name)
                                                 for name in (DAEMON, "spiderflow", "spiderflow.so"))
        self.folder = bed.root + "/broker"
        self.config = self.folder + "/spiderflow.conf"
        self.socket = self.folder + "/run/spiderflowd.sock"
        self.journal = self.folder + "/state/journal.db"
        self.log = self.folder + "/spiderflowd.log"
        account = ensure_account(USER, "/usr/sbin/nologin")
        for path, mode in (("", 0o755), ("run", 0o755), ("state", 0o700), ("tokens", 0o700)):
            os.makedirs(f"{self.folder}/{path}", exist_ok=True)
            os.chmod(f"{self.folder}/{path}", mode)
            if path:
                os.chown(f"{self.folder}/{path}", account.pw_uid, account.pw_gid)
        for site in bed.sites:
            with open(bed.token_file(site), encoding="ascii") as token:
                write(self.token_file(site), token.read(), 0o600, USER)
        self.configure()

    def token_file(self, site):
        return f"{self.folder}/tokens/{self.bed.site(site).name}"

    # -- configuration

    def configure(self, broker=None, sites=None, links=None, probe=None):
        """Write the configuration. broker: keys for [broker]; sites: {"s2": {keys}} for one [[site]]; a key
        that is None goes away. links: all, as tables; without it 10 Gbit/s and 20 ms between all sites. probe: keys for
        [probe]."""
        sites = sites or {}
        top = {"home": self.home.name, "socket": self.socket, "journal": self.journal, "operators": ["root"],
               "poll_nodes": 2}
        tables = [self.merged("[broker]", top, broker)]
        for site in self.bed.sites:
            values = {"name": site.name, "url": self.bed.url(site), "token_file": self.token_file(site),
                      "token_user": "slurm", "partition": "train", "home": self.bed.home("%u"), "path": PATH}
            tables.append(self.merged("[[site]]", values, sites.get(site.name)))
        if probe:
            tables.append(table("[probe]", probe))
        tables += [table("[[link]]", link) for link in (self.all_links() if links is None else links)]
        write(self.config, "\n".join(tables))

    @staticmethod
    def merged(head, values, changes):
        values = values | (changes or {})
        return table(head, {key: value for key, value in values.items() if value is not None})

    def all_links(self):
        names = [site.name for site in self.bed.sites]
        return [{"from": a, "to": b, "bandwidth_gbps": 10, "rtt_ms": 20}
                for index, a in enumerate(names) for b in names[index + 1:]]

    def test_config(self):
        """`spiderflowd -t` as the daemon's own user."""
        return self.bed.run(self.home, [self.daemon, "-t", "--config", self.config], user=USER, cwd="/")

    def recover(self):
        """`spiderflowd --recover` as the daemon's own user."""
        return self.bed.run(self.home, [self.daemon, "--recover", "--config", self.config], user=USER, cwd="/",
                            timeout=90)

    # -- the daemon

    @property
    def process(self):
        return self.bed.processes.get(f"{self.home.name}/{DAEMON}")

    @property
    def alive(self):
        return processes.alive(self.process)

    def launch(self, env=None):
        """Start it and do not wait; env: what its environment has besides."""
        if self.alive:
            raise TestbedError("spiderflowd runs already")
        words = self.bed.enter(self.home, self.home.head, USER) + [self.daemon, "--config", self.config]
        env = {"PATH": PATH, "LANG": "C.UTF-8"} | (env or {})
        self.bed.processes[f"{self.home.name}/{DAEMON}"] = processes.spawn(words, self.log, env)
        self.bed.save()

    def start(self, wait=15):
        """Start it and wait until it answers on its socket."""
        self.launch()
        end = time.monotonic() + wait
        while not self.ready():
            late = time.monotonic() > end
            if late or not self.alive:
                trouble = f"does not answer after {wait} s" if late else "ended at once"
                raise TestbedError(f"spiderflowd {trouble}; {processes.tail(self.log)}")
            time.sleep(0.05)

    def ready(self):
        try:
            return self.call("GET", "/healthz", timeout=2)[0] == 204
        except (OSError, http.client.HTTPException):
            return False

    def stop(self, seconds=15):
        """SIGTERM; an error when it does not leave in time."""
        self.end(signal.SIGTERM, seconds)

    def kill(self):
        """SIGKILL, as a crash would."""
        self.end(signal.SIGKILL, 5)

    def reload(self):
        processes.send(self.process, signal.SIGHUP)

    def end(self, number, seconds):
        processes.send(self.process, number)
        if not processes.wait_gone(self.process, seconds):
            raise TestbedError(f"spiderflowd is still there {seconds} s after signal {number}")

    # -- talking to it

    def call(self, method, path, body=None, timeout=30):
        """One request as root: (status, decoded JSON or None)."""
        connection = UnixConnection(self.socket, timeout)
        try:
            text = None if body is None else json.dumps(body)
            connection.request(method, path, text, {"Content-Type": "application/json"} if text else {})
            answer = connection.getresponse()
            data = answer.read()
            return answer.status, json.loads(data) if data else None
        finally:
            connection.close()

    def call_as(self, user, method, path, body=None):
        """The same as somebody else: the broker looks at the peer's uid."""
        account = pwd.getpwnam(user)
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            status = 1
            try:
                os.initgroups(user, account.pw_gid)
                os.setgid(account.pw_gid)
                os.setuid(account.pw_uid)
                os.write(writer, json.dumps(self.call(method, path, body)).encode())
                status = 0
            finally:
                os._exit(status)
        os.close(writer)
        with os.fdopen(reader) as answer:
            text = answer.read()
        os.waitpid(child, 0)
        if not text:
            raise TestbedError(f"{method} {path} as {user}: no answer")
        return tuple(json.loads(text))

    def jobs(self):
        return self.call("GET", "/v1/jobs?all=1")[1]["jobs"]

    def job(self, name):
        return self.call("GET", "/v1/jobs/" + name)[1]

    def wait_job(self, name, states, seconds=60):
        """Wait until the job is in one of the states; returns it."""
        end = time.monotonic() + seconds
        while (job := self.job(name))["state"] not in states:
            if time.monotonic() > end:
                wanted = " or ".join(states)
                raise TestbedError(f"{name} is {job['state']} after {seconds} s, wanted {wanted}")
            time.sleep(0.1)
        return job

    # -- the plugin and the client

    def plugstack_line(self):
        return f"optional {self.plugin} socket={self.socket} helper={self.client}"

    def install_plugin(self, *sites):
        for site in sites or self.bed.sites:
            self.bed.plugstack(site, [self.plugstack_line()])

    def environment(self):
        """What a user's shell needs for the spiderflow command."""
        return {"SPIDERFLOW_SOCKET": self.socket, "PATH": os.path.dirname(self.client) + ":" + PATH}

    def spiderflow(self, *words, user="sfalice", **keywords):
        """The spiderflow command at the home site."""
        return self.bed.run(self.home, ["spiderflow", *words], user=user, env=self.environment(), **keywords)
