#!/bin/bash
# SPDX-License-Identifier: GPL-3.0-or-later
#SBATCH --job-name=train_gpt
#SBATCH --output=train_gpt-%N-%j.out
#SBATCH --time=15
#SBATCH --cpus-per-task=1
#SBATCH --mem-per-cpu=500M

# In this folder:  sbatch --spiderflow=model=config.json,gbs=8 train.sh
# %N: job numbers of two sites may be the same, their nodes are not.
# Arguments after train.sh go to the trainer. Its --gbs, --mbs and --seq should be those of the plan.
srun /usr/bin/python3 train_gpt.py "$@"
