# SPDX-License-Identifier: GPL-3.0-or-later
"""The main job of ./quickstart: a small GPT trained over two real Slurm sites by an ordinary user. Run as root."""
import argparse
import json
import os
import re
import shutil
import signal
import sys
import time

sys.dont_write_bytecode = True
import processes  # noqa: E402
from broker import Broker  # noqa: E402
from testbed import Testbed, TestbedError  # noqa: E402

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
USER = "sfalice"
SPEC = "model=config.json,seq=64,gbs=8,mbs=2,pp=4,sites=s1+s2"
STEPS = 20
DEADLINE = 300  # seconds for the whole job; it takes about 30


def say(text):
    print(text, flush=True)


def submit(bed, folder):
    command = ["sbatch", f"--spiderflow={SPEC}", "train.sh", "--steps", str(STEPS)]
    say(f"\n$ {' '.join(command)}      (as {USER} at s1, in {folder})")
    began = time.monotonic()
    done = bed.run("s1", command, user=USER, cwd=folder)
    took = time.monotonic() - began
    say((done.stderr + done.stdout).strip())
    if done.returncode:
        raise TestbedError(f"sbatch failed with status {done.returncode}")
    return took


def status(bed, client, socket, *words):
    return bed.run("s1", [client, "--socket", socket, "status", *words], user=USER).stdout


def follow(bed, client, socket):
    """Wait for the end of the one federated job and tell what changes; its last record."""
    told = None
    end = time.monotonic() + DEADLINE
    while time.monotonic() < end:
        jobs = json.loads(status(bed, client, socket, "--all", "--json"))["jobs"]
        if not jobs:
            raise TestbedError("the broker knows no job")
        job = jobs[-1]
        now = f"{job['state']}: {job['reason']}"
        if now != told:
            say(f"  {time.strftime('%H:%M:%S')} {job['id']} {now}")
            told = now
        if job["state"] in ("done", "failed", "cancelled"):
            return job
        time.sleep(0.5)
    raise TestbedError(f"the job did not end within {DEADLINE} s")


def output(folder):
    texts = []
    for name in sorted(os.listdir(folder)):
        if name.endswith(".out"):
            with open(os.path.join(folder, name), encoding="utf-8", errors="replace") as file:
                texts.append(file.read())
    return "\n".join(texts)


def table(text):
    """rank -> site, node, stage, layers, as the ranks themselves said."""
    rows = re.findall(r"rank (\d+) of (\d+): site (\S+) node (\S+) stage (\d+) layers (\S+) dp (\d+)", text)
    say("\n  rank  site  node    stage  layers  pipeline")
    for rank, _, site, node, stage, layers, dp in sorted(rows, key=lambda row: int(row[0])):
        say(f"  {rank:>4}  {site:<4}  {node:<6}  {stage:>5}  {layers:<6}  {dp:>8}")
    world = int(rows[0][1]) if rows else 0
    return world > 0 and sorted(int(row[0]) for row in rows) == list(range(world))


def losses(text):
    return [float(value) for value in re.findall(r"^step \d+ loss (\S+)$", text, re.MULTILINE)]


def compare(bed, folder, over_sites):
    """The same training in one process: equal losses prove that ranks, stages and layers are right."""
    words = ["--seq", "64", "--gbs", "8", "--mbs", "2", "--steps", str(STEPS)]
    done = bed.run("s1", ["/usr/bin/python3", "train_gpt.py", *words], user=USER, cwd=folder, timeout=120)
    alone = losses(done.stdout)
    if done.returncode or len(alone) != STEPS or len(over_sites) != STEPS:
        say(f"expected {STEPS} losses, have {len(over_sites)} over two sites and {len(alone)} in one process")
        return False
    say("\n  step  loss over two sites  loss in one process")
    for step, (two, one) in enumerate(zip(over_sites, alone)):
        say(f"  {step:>4}  {two:>19.6f}  {one:>19.6f}")
    difference = max(abs(two - one) for two, one in zip(over_sites, alone))
    say(f"largest difference: {difference:.2g}")
    return difference <= 1e-4


def figures(bed, job, up, sbatch):
    """What the README quotes."""
    at = {line["state"]: line["at"] for line in job["history"]}
    began = time.monotonic()
    bed.run("s1", ["sbatch", "--output=/dev/null", "--wrap", "true"], user=USER, check=True)
    plain = time.monotonic() - began
    say(f"\ntwo sites up: {up:.1f} s; sbatch --spiderflow: {sbatch:.2f} s, plain sbatch: {plain:.2f} s; "
        f"from the plan to all parts running: {at['running'] - at['planned']:.1f} s; "
        f"training, {STEPS} steps: {at['done'] - at['running']:.1f} s")


def run(bed, stage):
    began = time.monotonic()
    bed.up(2, nodes=2, gpus=1)
    up = time.monotonic() - began
    broker = Broker(bed, os.path.abspath(stage))
    broker.install_plugin()
    broker.start()
    folder = bed.home(USER) + "/train_gpt"
    shutil.copytree(os.path.join(TOP, "examples", "train_gpt"), folder)
    for name in ("", *os.listdir(folder)):
        shutil.chown(os.path.join(folder, name), USER, USER)
    sbatch = submit(bed, folder)
    job = follow(bed, broker.client, broker.socket)
    say("\n" + status(bed, broker.client, broker.socket, job["id"]).rstrip())
    text = output(folder)
    ranks_right = table(text)
    losses_right = compare(bed, folder, losses(text))
    good = job["state"] == "done" and ranks_right and losses_right
    if good:
        figures(bed, job, up, sbatch)
    else:
        say("\n" + text[-4000:])
    say("\n" + ("trained over two Slurm clusters; the losses are those of one process" if good else "FAILED: see above"))
    return 0 if good else 1


def main():
    parser = argparse.ArgumentParser(prog="quickstart")
    parser.add_argument("--stage", required=True, help="where make install put things")
    parser.add_argument("--keep", action="store_true", help="leave the sites up")
    wanted = parser.parse_args()
    bed = Testbed("/tmp/spiderflow-quickstart", "sfq", "10.79")
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: sys.exit(143))
    try:
        with processes.locked("run " + bed.root, seconds=0):
            status_code = guarded(bed, wanted)
    except TimeoutError:
        sys.exit("quickstart: another quickstart is running on this machine; wait for its end")
    sys.exit(status_code)


def guarded(bed, wanted):
    """run(), and whatever happens nothing is left, unless it is to be kept."""
    bed.down()  # what a killed run may have left
    try:
        return run(bed, wanted.stage)
    except TestbedError as error:
        print(f"quickstart: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    finally:
        if wanted.keep:
            sites = os.path.join(os.path.dirname(os.path.abspath(__file__)), "sites")
            say(f"left up; enter with: {sites} --root {bed.root} exec --user {USER} s1 -- bash\n"
                f"take down with: {sites} --root {bed.root} down")
        else:
            bed.down()


if __name__ == "__main__":
    main()
