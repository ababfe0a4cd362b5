# SPDX-License-Identifier: GPL-3.0-or-later
"""spiderflow-probe at the sites of a testbed: each agent in its site's network namespace, as an ordinary user.

    agents = Agents(bed, install)        # install: the prefix, or the DESTDIR, of `make install`
    agents.start()
    broker.configure(sites=agents.sites(), probe=agents.probe())

With a Wan between the namespaces of the sites they listen there."""
import os
import time

import processes
from broker import USER, find, toml
from testbed import PATH, TestbedError, ensure_account, write

PROGRAM = "spiderflow-probe"
PORT = 7711


class Agents:
    """What they own lies in the testbed's root: Testbed.down() takes it away, and their processes too."""

    def __init__(self, bed, install, wan=None):
        self.bed, self.wan = bed, wan
        self.program = find(install, PROGRAM)
        self.folder = bed.root + "/probe"
        account = ensure_account(USER, "/usr/sbin/nologin")
        os.makedirs(self.folder, exist_ok=True)
        os.chown(self.folder, account.pw_uid, account.pw_gid)
        self.key = self.folder + "/probe.key"
        if not os.path.exists(self.key):
            bed.run(bed.sites[0], [self.program, "--make-key", self.key], user=USER, cwd="/", check=True)
        for site in bed.sites:
            self.configure(site)

    def config(self, site):
        return f"{self.folder}/{self.bed.site(site).name}.conf"

    def configure(self, site, **changes):
        site = self.bed.site(site)
        values = {"site": site.name, "listen": self.address(site), "key_file": self.key,
                  "allow": [f"{self.wan.net if self.wan else self.bed.subnet}.0.0/16"]} | changes
        write(self.config(site), "".join(f"{key} = {toml(value)}\n" for key, value in values.items()))

    def address(self, site):
        site = self.bed.site(site)
        return f"{self.wan.address(site.name) if self.wan else site.address}:{PORT}"

    def log(self, site):
        return f"{self.folder}/{self.bed.site(site).name}.log"

    def start(self, *sites, wait=10):
        chosen = [self.bed.site(site) for site in sites or self.bed.sites]
        for site in chosen:
            words = self.bed.enter(site, site.head, USER) + [self.program, "--config", self.config(site)]
            env = {"PATH": PATH, "LANG": "C.UTF-8"}
            self.bed.processes[f"{site.name}/{PROGRAM}"] = processes.spawn(words, self.log(site), env)
        self.bed.save()
        end = time.monotonic() + wait
        for site in chosen:
            while not self.bed.listens(site, PROGRAM, PORT):
                if time.monotonic() > end or not self.bed.alive(site, PROGRAM):
                    raise TestbedError(f"{site.name}: {PROGRAM} does not listen; {processes.tail(self.log(site))}")
                time.sleep(0.02)

    # -- what the broker's configuration says of them

    def sites(self):
        return {site.name: {"probe": self.address(site)} for site in self.bed.sites}

    def probe(self, **changes):
        return {"key_file": self.key, "streams": 4, "seconds": 2, "most_gbytes": 0.1} | changes
