# SPDX-License-Identifier: GPL-3.0-or-later
"""What one test site is, and the text of its Slurm configuration. Pure values, no system calls."""
import dataclasses
import itertools
import re

ADDRESSES = ("ipv4", "ipv6", "names")


def expand(hosts):
    """The nodes of a host list: "nodeA,nodeB[001,003]", "rack[0-1]_blade[0-1]"."""
    word = r"(?:[\w.-]|\[[\d,-]+\])+"
    if not re.fullmatch(f"{word}(,{word})*", hosts):
        raise ValueError(f"{hosts}: no host list")
    return [name for one in re.findall(word, hosts) for name in expand_word(one)]


def expand_word(word):
    parts = re.split(r"\[([^\]]*)\]", word)  # text, ranges, text, ranges, text
    choices = [[part] if index % 2 == 0 else expand_ranges(part) for index, part in enumerate(parts)]
    return ["".join(chosen) for chosen in itertools.product(*choices)]


def expand_ranges(ranges):
    names = []
    for item in ranges.split(","):
        first, _, last = item.partition("-")
        names += [str(number).zfill(len(first)) for number in range(int(first), int(last or first) + 1)]
    return names


@dataclasses.dataclass(frozen=True)
class Node:
    name: str
    address: str  # a number
    port: int
    gpus: int


@dataclasses.dataclass(frozen=True)
class Site:
    """A site and its folder. All its nodes live in one network namespace, each with its own address.
    addresses: what Slurm is told of its nodes: "ipv4", "ipv6", or "names" that only this site resolves."""
    index: int
    folder: str
    namespace: str
    subnet: str
    names: list  # of the nodes
    gpus: list  # of each node
    gpu_type: str
    cpus: int
    addresses: str

    @property
    def name(self):
        return f"s{self.index}"

    @property
    def address(self):
        return f"{self.subnet}.{self.index}.1"

    @property
    def head(self):
        """Host name of slurmctld's and slurmrestd's machine, where users log in."""
        return f"{self.name}-ctl"

    @property
    def nodes(self):
        # All slurmd of a site share a network stack, so the ports differ as well as the addresses.
        return [Node(name, self.node_address(10 + k), 7000 + k, gpus)
                for k, (name, gpus) in enumerate(zip(self.names, self.gpus), 1)]

    def node_address(self, host):
        if self.addresses == "ipv6":
            return f"fd00:{self.subnet.replace('.', ':')}::{self.index}:{host}"
        return f"{self.subnet}.{self.index}.{host}"

    def node_addr(self, node):
        """NodeAddr of slurm.conf."""
        return f"{node.name}.{self.name}.internal" if self.addresses == "names" else node.address

    @property
    def hosts_file(self):
        """What the site has for /etc/hosts, if it has its own."""
        return self.path("etc/hosts") if self.addresses == "names" else None

    def path(self, *parts):
        return "/".join((self.folder, *parts))


SLURM_CONF = """\
ClusterName={name}
SlurmctldHost={head}({address})
SlurmctldPort=6817
SlurmUser=slurm
AuthType=auth/munge
AuthInfo=socket={folder}/munge/munge.sock
AuthAltTypes=auth/jwt
AuthAltParameters=jwt_key={folder}/jwt_hs256.key
StateSaveLocation={folder}/ctld
SlurmctldPidFile={folder}/run/slurmctld.pid
SlurmctldLogFile={folder}/log/slurmctld.log
SlurmdPidFile={folder}/run/slurmd.%n.pid
SlurmdSpoolDir={folder}/spool/%n
SlurmdLogFile={folder}/log/slurmd.%n.log
SlurmdParameters=config_overrides
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
JobCompType=jobcomp/none
MpiDefault=none
SwitchType=switch/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
SchedulerType=sched/backfill
SchedulerParameters=sched_min_interval=0,batch_sched_delay=0,sched_interval=1,bf_interval=5
GresTypes=gpu
ReturnToService=2
KillWait=5
MinJobAge=300
PlugStackConfig={folder}/etc/plugstack.conf
"""


# Without MaxTime the start estimates of waiting jobs run to the year 2282.
PARTITIONS = """\
PartitionName=train Nodes=ALL Default=YES DefaultTime=60 MaxTime=1-00:00:00 DefMemPerCPU=100
PartitionName=debug Nodes=ALL DefaultTime=10 MaxTime=30 DefMemPerCPU=100
"""


def slurm_conf(site, extra=()):
    lines = [SLURM_CONF.format(name=site.name, head=site.head, address=site.address, folder=site.folder)]
    if site.addresses == "ipv6":
        lines.append("CommunicationParameters=EnableIPv6\n")
    for node in site.nodes:
        gres = f" Gres=gpu:{site.gpu_type}:{node.gpus}" if node.gpus else ""
        # RealMemory with DefMemPerCPU: under CR_Core_Memory a job that asks for none must not take it all.
        lines.append(f"NodeName={node.name} NodeAddr={site.node_addr(node)} Port={node.port} Sockets=1"
                     f" CoresPerSocket={site.cpus} ThreadsPerCore=1 RealMemory=16000{gres}"
                     f" Feature={site.gpu_type},{site.name} State=UNKNOWN\n")
    lines.append(PARTITIONS)
    lines += [line + "\n" for line in extra]
    return "".join(lines)


def gres_conf(site):
    lines = ["AutoDetect=off\n"]
    for node in site.nodes:
        if node.gpus:
            files = site.path("dev", "gpu0" if node.gpus == 1 else f"gpu[0-{node.gpus - 1}]")
            lines.append(f"NodeName={node.name} Name=gpu Type={site.gpu_type} File={files}\n")
    return "".join(lines)


def hosts(site):
    return "127.0.0.1 localhost\n" + "".join(f"{node.address} {site.node_addr(node)}\n" for node in site.nodes)


def plugstack_conf(lines):
    return "".join(line + "\n" for line in lines)
