# SPDX-License-Identifier: GPL-3.0-or-later
"""What one test site is, and the text of its Slurm configuration. Pure values, no system calls."""
import dataclasses


@dataclasses.dataclass(frozen=True)
class Node:
    name: str
    address: str
    port: int


@dataclasses.dataclass(frozen=True)
class Site:
    """A site and its folder. All its nodes live in one network namespace, each with its own address."""
    index: int
    folder: str
    namespace: str
    subnet: str
    node_count: int
    gpus: int
    gpu_type: str
    cpus: int

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
        return [Node(f"{self.name}-n{k}", f"{self.subnet}.{self.index}.{10 + k}", 7000 + k)
                for k in range(1, self.node_count + 1)]

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
    gres = f" Gres=gpu:{site.gpu_type}:{site.gpus}" if site.gpus else ""
    for node in site.nodes:
        # RealMemory with DefMemPerCPU: under CR_Core_Memory a job that asks for none must not take it all.
        lines.append(f"NodeName={node.name} NodeAddr={node.address} Port={node.port} Sockets=1"
                     f" CoresPerSocket={site.cpus} ThreadsPerCore=1 RealMemory=16000{gres}"
                     f" Feature={site.gpu_type},{site.name} State=UNKNOWN\n")
    lines.append(PARTITIONS)
    lines += [line + "\n" for line in extra]
    return "".join(lines)


def gres_conf(site):
    if not site.gpus:
        return "AutoDetect=off\n"
    files = site.path("dev", "gpu0" if site.gpus == 1 else f"gpu[0-{site.gpus - 1}]")
    return f"AutoDetect=off\nName=gpu Type={site.gpu_type} File={files}\n"


def plugstack_conf(lines):
    return "".join(line + "\n" for line in lines)
