# SPDX-License-Identifier: GPL-3.0-or-later
"""What tasks are given: ranks under every launcher and on every kind of node, addresses, ports, arguments and files
of the trainer."""
import contextlib
import json
import re
import time

from federation import DUMP, SMALL, SPEC, LiveTest, OwnSites, wait_for

STEP = f"#!/bin/bash\nsrun /bin/bash -c '{DUMP}'\n"
WORKER = """\
import os
keep = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT", "SLURMD_NODENAME", "SPIDERFLOW_SITE")
line = " ".join(["T", *(f"{name}={os.environ[name]}" for name in keep)]) + os.linesep
os.write(1, line.encode())  # at once: the workers of a node share the pipe
"""


class DataParallel(LiveTest):
    """Each stage has one member at each site: the ranks of a site do not follow each other."""
    spec = "sites=s1+s2,pp=4,dp=2,depth=stages"

    def test_ranks_of_a_site_need_not_follow_each_other(self):
        ranks = self.check_tasks(self.run_job(STEP, spec=f"model=config.json,gbs=8,mbs=1,tp=1,{self.spec}"))
        for site in ("s1", "s2"):
            mine = sorted(rank for rank, task in ranks.items() if task["SPIDERFLOW_SITE"] == site)
            self.assertEqual({rank // 2 for rank in mine}, {0, 1, 2, 3})
            self.assertEqual(len(mine), 4)

    def test_the_losses_are_those_of_one_process(self):
        plan = self.train("sites=s1+s2,pp=2,dp=2,depth=stages", 5)["plan"]
        for stage in plan["stages"]:
            self.assertEqual({slot["site"] for slot in stage["slots"]}, {"s1", "s2"})


class Steps(LiveTest):
    def test_h04_a_part_submitted_over_rest_has_the_option_in_its_steps(self):
        self.check_tasks(self.run_job(STEP.replace("\n", "\nenv -0 >batch.$SLURM_SPIDERFLOW_SITE\n", 1)))
        option = "SLURM_SPANK__SLURM_SPANK_OPTION_spiderflow_spiderflow"
        for path in self.files("batch.*"):
            self.assertIn(option, self.environment(path), path.name)
        self.assertEqual(len(self.files("batch.*")), 2)

    def test_a_helper_beside_the_training_has_no_rank(self):
        helper = "srun --overlap --spiderflow=off -N1 -n1 bash -c 'echo HELPER ${RANK-none}; sleep 3' &\nsleep 1\n"
        self.check_tasks(self.run_job(STEP.replace("\n", "\n" + helper, 1) + "wait\n"))
        self.assertEqual(self.output().count("HELPER none"), 2, self.output())

    def test_two_trainings_in_one_job_meet_on_the_same_port(self):
        self.train("sites=s1+s2,pp=2,dp=1", 3, times=2)

    def test_exclusive_nodes_and_a_limit_of_tasks(self):
        job = self.run_job(STEP, "--exclusive", "--ntasks-per-node=1", spec=SMALL + ",pp=4,dp=1")
        self.assertEqual([(part["nodes"], part["gpus"]) for part in job["parts"]], [(2, 2), (2, 2)])
        for task in self.check_tasks(job).values():
            self.assertEqual(task["LOCAL_RANK"], "0")
        for part in job["parts"]:
            shown = self.bed.run(part["site"], ["scontrol", "show", "job", str(part["job"])]).stdout
            self.assertIn("OverSubscribe=NO", shown)

    def test_what_the_user_set_himself_stays_with_one_warning_at_each_site(self):
        own = {"MASTER_PORT": "12345", "NCCL_SOCKET_IFNAME": "mine0", "RANK": "7"}
        self.run_job(STEP, env=own)
        for task in self.tasks():
            self.assertEqual({name: task[name] for name in own}, own)
        warnings = [line for line in self.output().splitlines() if "warning" in line]
        self.assertEqual(len(warnings), 2, self.output())
        for line in warnings:
            for name, value in own.items():
                self.assertIn(f"{name}={value} ", line)

    def test_h20_the_syntax_of_nccl_never_reaches_gloo(self):
        self.run_job(STEP, env={"NCCL_SOCKET_IFNAME": "^lo,docker"})
        for task in self.tasks():
            self.assertEqual((task["NCCL_SOCKET_IFNAME"], task["GLOO_SOCKET_IFNAME"]), ("^lo,docker", "wan0"))

    def test_h05_a_cleaned_environment_has_ranks_or_is_told(self):
        """A step that the script starts without what Slurm set. (Without the carriers it is as if typed in a shell.)"""
        clean = ("for name in ${!SLURM_@}; do case $name in SLURM_CONF|*SPIDERFLOW*) ;; *) unset $name ;; esac; done\n"
                 "srun --jobid=$job")
        for name, way in (("id", "env -u SLURM_JOB_ID srun --jobid=$job"), ("all", clean)):
            with self.subTest(name=name):
                self.again()
                self.run_job(f"#!/bin/bash\njob=$SLURM_JOB_ID\n{way} bash -c 'echo T RANK=$RANK'\ntrue\n",
                             f"--output={name}-%N.out")
                for site in ("s1", "s2"):
                    text = "".join(path.read_text() for path in self.files(f"{name}-{site}-*.out"))
                    ran = re.findall(r"^T RANK=(\d*)$", text, re.MULTILINE)
                    self.assertTrue(ran and all(ran) or "spiderflow: " in text, f"{site}: {text}")

    def test_a_requeued_part_ends_the_job_and_runs_once(self):
        for site in ("s1", "s2"):
            with self.subTest(site=site):
                self.again()
                self.write("job.sh", "#!/bin/bash\necho ran >>ran.$SLURM_SPIDERFLOW_SITE\nsrun sleep 60\n")
                for path in self.files("ran.*"):
                    path.unlink()
                self.assertEqual(self.sbatch("--output=%N-%j.out", "job.sh").returncode, 0)
                part = next(part for part in self.wait_state("running")["parts"] if part["site"] == site)
                wait_for("the scripts to begin", 20, lambda: len(self.files("ran.*")) == 2)
                number = str(part["job"])
                self.bed.run(site, ["scontrol", "update", "JobId=" + number, "Requeue=1"], check=True)
                self.bed.run(site, ["scontrol", "requeue", number], check=True)
                job = self.ended("failed", 40)
                self.assertIn("requeued", job["reason"].lower())
                self.assertIn(f"site {site}", job["reason"])
                self.nothing_left()
                time.sleep(3)
                self.assertEqual(self.queue(), [])
                self.assertEqual([path.read_text() for path in self.files("ran.*")], ["ran\n"] * 2)


class Gpus(LiveTest):
    """H19: tasks that see one GPU each, as device 0."""

    def run_step(self, option, more=""):
        self.run_job(STEP.replace("srun", "srun " + option), spec=SPEC + more)
        tasks = self.tasks()
        self.assertEqual(len(tasks), 8, self.output())
        for task in tasks:
            self.assertRegex(task["CUDA_VISIBLE_DEVICES"], r"^\d$")
        return tasks, [line for line in self.output().splitlines() if line.startswith("spiderflow: warning")]

    def test_h19_one_gpu_in_sight_is_told_at_each_site(self):
        for option in ("--gpus-per-task=1", "--gpu-bind=single:1"):
            with self.subTest(option=option):
                self.again()
                tasks, warnings = self.run_step(option)
                self.assertEqual({task["LOCAL_RANK"] for task in tasks}, {"0", "1"})
                self.assertEqual(len(warnings), 2, self.output())
                self.assertIn("single_gpu_view", warnings[0])

    def test_h19_single_gpu_view_makes_it_device_0(self):
        tasks, warnings = self.run_step("--gpus-per-task=1", ",single_gpu_view=yes")
        self.assertEqual({task["LOCAL_RANK"] for task in tasks}, {"0"})
        self.assertEqual(sorted(int(task["RANK"]) for task in tasks), list(range(8)))
        self.assertEqual(warnings, [])


class Ports(LiveTest):
    port = 23456

    def test_h21_a_port_that_is_taken_on_the_masters_node_is_told_at_once(self):
        self.addCleanup(lambda: (self.broker.configure(), self.broker.reload()))
        self.broker.configure({"master_ports": [self.port, self.port]})
        self.broker.reload()
        time.sleep(0.5)
        with self.listener("s1"):
            began = time.monotonic()
            job = self.run_job(STEP, state="failed", seconds=40)
            print(f"  taken port: the job failed {time.monotonic() - began:.1f} s after sbatch")
        told = [line for line in self.output().splitlines() if str(self.port) in line]
        self.assertEqual(len(told), 1, self.output())
        self.assertRegex(told[0], r"^spiderflow: .*(in use|taken)")
        self.assertIn("s1", job["reason"])
        self.again()
        ranks = self.check_tasks(self.run_job(STEP))
        self.assertEqual({task["MASTER_PORT"] for task in ranks.values()}, {str(self.port)})

    @contextlib.contextmanager
    def listener(self, site):
        code = f"import socket; s = socket.create_server(('', {self.port})); print('up', flush=True); input()"
        with self.bed.popen(site, ["/usr/bin/python3", "-c", code], text=True, stdin=-1, stdout=-1) as child:
            self.assertEqual(child.stdout.readline(), "up\n")
            try:
                yield
            finally:
                child.kill()


class Trainers(LiveTest):
    """What a trainer's own launcher would have been given by hand."""
    look = (f"#!/bin/bash\nsrun /bin/bash -c '{DUMP}; for word in $SPIDERFLOW_TRAINER_ARGS $SPIDERFLOW_PLAN_FILE; do "
            "[ -e \"$word\" ] && cat \"$word\" >/dev/null && echo READ $RANK; done; /usr/bin/python3 look.py'\n")
    child = """\
import json, os, subprocess
def read(name):
    return subprocess.run(["cat", name], close_fds=True, stdout=subprocess.PIPE, check=True).stdout.decode()
words = os.environ["SPIDERFLOW_TRAINER_ARGS"].split()
texts = [read(word) for word in words if word.startswith("/proc/")]
plan = json.loads(read(os.environ["SPIDERFLOW_PLAN_FILE"]))
with open("look." + os.environ["RANK"], "w") as file:
    json.dump({"words": words, "texts": texts, "plan": plan}, file)
"""

    def looks(self, trainer, *words, more=""):
        self.write("look.py", self.child)
        job = self.run_job(self.look, *words, spec=f"{SPEC},trainer={trainer}{more}")
        self.check_tasks(job)
        looks = [json.loads(path.read_text()) for path in self.files("look.[0-9]")]
        self.assertEqual(len(looks), 8, self.output())
        for look in looks:
            self.assertEqual(look["plan"]["parallel"]["pp"], 4)
            self.assertEqual(look["plan"]["stages"], job["plan"]["stages"])
            self.assertTrue(all(look["texts"]))
        return job["plan"], looks

    def value(self, words, name):
        self.assertEqual(words.count(name), 1, words)
        return words[words.index(name) + 1]

    def test_megatron(self):
        plan, looks = self.looks("megatron", "--export=NONE")
        layout = "|".join("t" * (stage["last_layer"] - stage["first_layer"] + 1) for stage in plan["stages"])
        for look in looks:
            words = look["words"]
            for name, value in (("--pipeline-model-parallel-size", "4"), ("--tensor-model-parallel-size", "1"),
                                ("--micro-batch-size", "2"), ("--global-batch-size", "8"), ("--seq-length", "64"),
                                ("--pipeline-model-parallel-layout", f"E{layout}L")):
                self.assertEqual(self.value(words, name), value)
            self.assertRegex(self.value(words, "--nccl-communicator-config-path"), "^/proc/")
            self.assertIn("socket", "".join(look["texts"]))
        self.assertEqual(len(re.findall(r"^READ", self.output(), re.MULTILINE)), 8 * (1 + len(looks[0]["texts"])))

    def test_torchtitan(self):
        plan, looks = self.looks("torchtitan")
        for look in looks:
            words = look["words"]
            self.assertEqual(self.value(words, "--parallelism.pipeline_parallel_degree"), "4")
            replicate, shard = (int(self.value(words, f"--parallelism.data_parallel_{kind}_degree"))
                                for kind in ("replicate", "shard"))
            self.assertEqual(replicate * shard, plan["parallel"]["dp"])
            begin = words.index("--parallelism.module_fqns_per_model_part") + 1
            layers = [name for word in words[begin:begin + 4] for name in word.split(",") if name.startswith("layers.")]
            self.assertEqual(layers, [f"layers.{layer}" for layer in range(8)])
            rows = "".join(look["texts"]).splitlines()
            self.assertEqual(len(rows), 4)
            for row in rows:
                self.assertEqual(len(re.findall(r"\dF\d", row)), plan["parallel"]["microbatches"])

    def test_nobody_trains_with_what_another_trainer_needs(self):
        job = self.run_job(STEP, spec=SPEC)
        for task in self.check_tasks(job).values():
            self.assertEqual(task.get("SPIDERFLOW_TRAINER_ARGS", ""), "")
            self.assertEqual(task["SPIDERFLOW_TRAINER"], "plain")
            depths = [str(stage["depth"]) for stage in job["plan"]["stages"]]
            self.assertEqual(task["SPIDERFLOW_DEPTHS"], ",".join(depths))
            self.assertEqual(task["SPIDERFLOW_DEPTH"], depths[int(task["SPIDERFLOW_STAGE"])])
            self.assertEqual((task["SPIDERFLOW_MICROBATCH"], task["SPIDERFLOW_MICROBATCHES"]), ("2", "2"))


def ranks_by_node(plan):
    """(ranks, site) of each node of the plan, in the order of their ranks; with tp=1."""
    nodes = []
    for site in plan["sites"]:
        ranks = iter([stage * plan["parallel"]["dp"] + member for stage, member in site["slots"]])
        nodes += [([next(ranks) for _ in range(size)], site["site"]) for size in site["slots_per_node"]]
    return sorted(nodes)


class Torchrun(LiveTest):
    """One torchrun on each node of the plan; its workers are the ranks. The defaults of PET_REDIRECTS and PET_TEE
    end torch 1.13 under Python 3.11 (it finds no member 0 of an enum.Flag): they name a worker that is not there."""
    script = (f"#!/bin/bash\nexport PET_REDIRECTS=9:1 PET_TEE=9:1\n"
              f"srun /bin/bash -c '{DUMP}; exec /usr/bin/python3 -m torch.distributed.run worker.py'\n")

    def run_torchrun(self, spec):
        self.write("worker.py", WORKER)
        job = self.run_job(self.script, "--mem-per-cpu=500M", seconds=120,
                           spec=f"model=config.json,gbs=8,mbs=1,tp=1,{spec}")
        nodes = ranks_by_node(job["plan"])
        self.assertEqual(sum((ranks for ranks, _ in nodes), []), list(range(sum(len(ranks) for ranks, _ in nodes))))
        agents = sorted(self.tasks(), key=lambda task: int(task["PET_NODE_RANK"]))
        names = ("PET_NODE_RANK", "PET_NPROC_PER_NODE", "SPIDERFLOW_SITE")
        self.assertEqual([tuple(task[name] for name in names) for task in agents],
                         [(str(node), str(len(ranks)), site) for node, (ranks, site) in enumerate(nodes)])
        master = self.address(agents[0])
        for task in agents:
            self.assertEqual((task["PET_RDZV_BACKEND"], task["PET_NNODES"], task["PET_MASTER_ADDR"]),
                             ("static", str(len(nodes)), master))
            for name in ("RANK", "LOCAL_RANK", "SPIDERFLOW_STAGE", "SPIDERFLOW_FIRST_LAYER", "SPIDERFLOW_DEPTH"):
                self.assertNotIn(name, task)
        workers = self.ranks()
        expected = {rank: task["SLURMD_NODENAME"] for task, (ranks, _) in zip(agents, nodes) for rank in ranks}
        self.assertEqual({rank: values["SLURMD_NODENAME"] for rank, values in workers.items()}, expected, self.output())
        self.assertEqual({(values["MASTER_ADDR"], values["WORLD_SIZE"]) for values in workers.values()},
                         {(master, str(len(expected)))})
        return nodes

    def test_h17_one_launcher_on_each_node_gives_every_rank_once(self):
        self.run_torchrun("sites=s1+s2,pp=4,dp=2,trainer=torchrun")

    def test_h17_launchers_of_unequal_numbers_of_workers(self):
        nodes = self.run_torchrun("sites=s1+s2,pp=5,dp=1,trainer=torchrun")
        self.assertGreater(len({len(ranks) for ranks, _ in nodes}), 1)

    def test_the_ranks_of_a_node_follow_each_other_where_srun_would_do_without(self):
        spec = f"model=config.json,gbs=8,mbs=1,tp=1,{DataParallel.spec}"
        self.write("job.sh", "#!/bin/bash\ntrue\n")
        gaps = []
        for launcher in ("srun", "torchrun"):
            self.again()
            done = self.sbatch("--output=%N.out", "job.sh", spec=f"{spec},launcher={launcher}")
            self.assertEqual(done.returncode, 0, done.stderr)
            gaps.append({ranks[-1] - ranks[0] + 1 - len(ranks) for ranks, _ in ranks_by_node(self.ended()["plan"])})
        self.assertEqual(gaps, [{1}, {0}])


class NodeNames(OwnSites):
    sites = {"count": 2, "gpus": 1, "names": {"s1": "nodeA,nodeB[001,003],nodeC", "s2": "rack[0-1]_blade[0-1]"}}

    def test_h10_h11_ranks_and_master_under_names_with_gaps_and_several_brackets(self):
        ranks = self.check_tasks(self.run_job(STEP))
        self.assertEqual({task["SLURMD_NODENAME"] for task in ranks.values()},
                         {"nodeA", "nodeB001", "nodeB003", "nodeC"} | {f"rack{a}_blade{b}" for a in "01" for b in "01"})


class UnevenNodes(OwnSites):
    """A node with one GPU beside a node with three, at both sites. A Slurm job asks for the same on each node."""
    sites = {"count": 2, "gpus": [[1, 3]]}

    def test_ranks_are_where_slurm_finds_the_gpus(self):
        ranks = self.check_tasks(self.run_job(STEP, spec="model=config.json,gbs=8,mbs=1,tp=1,sites=s1+s2,pp=6,dp=1"))
        self.assertEqual({task["SLURMD_NODENAME"] for task in ranks.values()}, {"s1-n2", "s2-n2"})

    def test_more_than_equal_nodes_have_is_refused_with_the_numbers(self):
        self.write("job.sh", "#!/bin/bash\ntrue\n")
        done = self.sbatch("job.sh", spec="model=config.json,gbs=8,mbs=1,tp=1,sites=s1+s2,pp=8,dp=1")
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertRegex(done.stderr, r"^spiderflow: .*needs 8 GPUs.*free: 3 GPUs at each site.*\n$")
        self.assertEqual(self.queue(), [])


class OddGpus(OwnSites):
    """H18: two GPUs at one site, two nodes with three at the other."""
    sites = {"count": 2, "nodes": [1, 2], "gpus": [2, 3]}

    def test_h18_pairs_of_gpus_on_nodes_with_three_are_refused_with_the_reason(self):
        self.write("job.sh", "#!/bin/bash\ntrue\n")
        done = self.sbatch("job.sh", spec="model=config.json,gbs=8,mbs=2,tp=2,pp=3,dp=1,sites=s1+s2")
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertRegex(done.stderr, r"^spiderflow: .*s2: tp=2 does not divide the 3 GPUs of a node\n$")
        self.assertEqual(self.queue(), [])

    def test_h18_single_gpus_take_all_of_them(self):
        job = self.run_job(STEP, spec="model=config.json,gbs=8,mbs=2,tp=1,pp=8,dp=1,sites=s1+s2")
        self.check_tasks(job)
        self.assertEqual([(part["nodes"], part["gpus"]) for part in job["parts"]], [(1, 2), (2, 6)])


class IPv6(OwnSites):
    sites = {"count": 2, "nodes": 1, "gpus": 2, "addresses": "ipv6"}

    def test_a_master_with_an_ipv6_address(self):
        self.check_tasks(self.run_job(STEP, spec=SMALL + ",pp=4,dp=1"))
        self.again()
        self.train("sites=s1+s2,pp=2,dp=1", 3)
