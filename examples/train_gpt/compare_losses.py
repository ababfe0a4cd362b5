#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Compare the losses in two logs of train_gpt.py. Status 0: same steps, and losses within the limit."""
import argparse
import re
import sys

LOSS = re.compile(r"\bstep (\d+) loss (\S+)")


def losses(path):
    with open(path, encoding="utf-8", errors="replace") as log:
        found = [(int(step), float(loss)) for step, loss in LOSS.findall(log.read())]
    if not found:
        raise ValueError(f"{path}: no line `step N loss X`")
    if len(found) != len(dict(found)):
        raise ValueError(f"{path}: a step is there twice")
    return dict(found)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("a")
    parser.add_argument("b")
    parser.add_argument("--limit", type=float, default=1e-4, help="(%(default)s)")
    options = parser.parse_args()
    try:
        a, b = losses(options.a), losses(options.b)
    except (OSError, ValueError) as error:
        sys.exit(f"compare_losses: {error}")
    if a.keys() != b.keys():
        sys.exit(f"compare_losses: steps differ: {options.a} has {len(a)}, up to {max(a)};"
                 f" {options.b} has {len(b)}, up to {max(b)}")
    apart = {step: abs(a[step] - b[step]) for step in a}
    bad = [step for step in apart if not apart[step] <= options.limit]  # a NaN is no agreement
    worst = bad[0] if bad else max(apart, key=apart.get)
    print(f"{len(a)} steps, loss {a[min(a)]:.4f} -> {a[max(a)]:.4f}, largest difference {apart[worst]:.2e}"
          f" (step {worst}), limit {options.limit:.0e}: " + ("DIFFERENT" if bad else "same"))
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
