# SPDX-License-Identifier: GPL-3.0-or-later
"""What the batch step of a part does with the comment of its job: the word, the order to give its GPUs back, and what
is not for it. The test writes the comment as the broker would, over slurmrestd."""
import json
import time

from federation import USER, LiveTest, wait_for

MARK = "mine spiderflow=x-1/"
CARRIERS = {"JOB": "x-1", "SITE": "s1", "WORLD": "2", "TP": "1", "PP": "2", "DP": "1", "NODE_RANKS": "0", "NNODES": "1",
            "SLOTS": "0.0,1.0", "LAYERS": "0-3,4-7", "DEPTHS": "2,1", "MICROBATCH": "1", "MICROBATCHES": "4",
            "SUBMIT": "x-1"}
SCRIPT = """#!/bin/bash
echo RAN batch restarts=${SLURM_RESTART_COUNT-none}
srun bash -c 'echo RAN rank=$RANK restarts=${SLURM_RESTART_COUNT-none}'
"""
REQUEST = """import http.client, json, sys
host, method, path, headers, body = json.load(sys.stdin)
connection = http.client.HTTPConnection(host, timeout=20)
connection.request(method, "/slurm/v0.0.38/" + path, body, headers)
print(connection.getresponse().read().decode())
"""


class GiveBack(LiveTest):
    def setUp(self):
        super().setUp()
        self.write("part.sh", SCRIPT)

    def tearDown(self):
        self.sh("s1", "scancel", "-u", USER)
        super().tearDown()

    def submit(self, attempt=1, *words):
        """Submit the part of attempt N, and wait until it runs and looks for its word."""
        env = {f"SLURM_SPIDERFLOW_{name}": value for name, value in (CARRIERS | {"ATTEMPT": str(attempt)}).items()}
        done = self.sh("s1", "sbatch", "-N1", "-n2", "--gres=gpu:2", "--requeue", "--open-mode=append",
                       "--output=part.out", f"--comment={MARK}{attempt}", *words, "part.sh", env=env)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.number = done.stdout.split()[-1]
        self.wait_part("RUNNING")

    def rest(self, method, changes=None):
        site = self.bed.site("s1")
        headers = {"X-SLURM-USER-NAME": USER, "X-SLURM-USER-TOKEN": self.bed.token(site, "slurm"),
                   "Content-Type": "application/json"}
        asked = [self.bed.url(site).removeprefix("http://"), method, "job/" + self.number, headers,
                 changes and json.dumps(changes)]
        done = self.bed.run(site, ["/usr/bin/python3", "-c", REQUEST], input=json.dumps(asked), check=True)
        answer = json.loads(done.stdout)
        self.assertEqual(answer["errors"], [])
        return answer

    def tell(self, text, **changes):
        self.rest("POST", {"comment": MARK + text, **changes})

    def part(self):
        return self.rest("GET")["jobs"][0]

    def wait_part(self, state, restarts=0):
        def what():
            return f"part {state}, run {restarts}: {self.part()}\n{self.output()}"

        return wait_for(what, 30, lambda: (part := self.part())["job_state"] == state
                        and part["restart_cnt"] == restarts and part)

    def fails(self, *words):
        self.wait_part("FAILED")
        lines = self.output().splitlines()[1:]
        self.assertEqual(len(lines), 1, lines)
        self.assertTrue(lines[0].startswith("spiderflow: job x-1: "), lines)
        for word in words:
            self.assertIn(word, lines[0])
        self.bed.wait_idle("s1", 20)

    def gives_back(self, run):
        """Tell this run to give back; the job is held, its nodes are idle, and it may run on them again."""
        self.tell(f"1 back={run}")
        self.assertEqual(self.wait_part("PENDING", run + 1)["priority"], 0)
        self.bed.wait_idle("s1", 20)
        # The node refuses a run that begins in the second in which it ended the last one.
        time.sleep(2)

    def test_a_waiting_part_gives_its_gpus_back_and_comes_back_as_the_same_job(self):
        self.submit()
        self.gives_back(0)
        self.assertIn("spiderflow: job x-1: gives its GPUs back and waits for the other sites\n", self.output())
        self.tell("1 back=0", hold=False, begin_time="now")  # an order for the run before is none
        self.wait_part("RUNNING", 1)
        time.sleep(3)
        self.wait_part("RUNNING", 1)
        self.gives_back(1)
        self.tell("1", hold=False, begin_time="now")
        self.wait_part("RUNNING", 2)
        self.assertNotIn("RAN", self.output())
        self.tell("1 go=127.0.0.1/29501 run=2")
        self.wait_part("COMPLETED", 2)
        ran = [line for line in self.output().splitlines() if line.startswith("RAN")]
        self.assertEqual(ran[0], "RAN batch restarts=none")
        self.assertEqual(sorted(ran[1:]), ["RAN rank=0 restarts=none", "RAN rank=1 restarts=none"])

    def test_a_further_attempt_counts_as_a_restart(self):
        self.submit(2)
        self.tell("2 go=127.0.0.1/29501 run=0")
        self.wait_part("COMPLETED")
        self.assertEqual(self.output().count("restarts=1"), 3, self.output())

    def test_the_word_for_another_run_is_not_obeyed(self):
        self.submit()
        self.tell("1 go=127.0.0.1/29501 run=1")
        self.fails("its site started this part again")

    def test_an_attempt_that_another_has_replaced_ends(self):
        self.submit()
        self.tell("2")
        self.fails("attempt 2 has taken its place")

    def test_a_job_that_may_not_be_requeued_fails_with_slurms_words(self):
        self.submit(1, "--no-requeue")
        self.tell("1 back=0")
        self.fails("could not give its GPUs back", "disabled")
