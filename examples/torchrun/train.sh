#!/bin/bash
# SPDX-License-Identifier: GPL-3.0-or-later
#SBATCH --job-name=torchrun
#SBATCH --output=torchrun-%N-%j.out
#SBATCH --time=15
#SBATCH --mem-per-cpu=500M

# In this folder, without any GPU library:
#   sbatch --spiderflow=model=../train_gpt/config.json,gbs=8,tp=1,trainer=torchrun train.sh
# One task for each node: torchrun starts that node's processes and numbers them. It reads PET_*, which SpiderFlow sets;
# the processes find their stage by RANK in SPIDERFLOW_LAYERS. Arguments after train.sh go to the trainer.
# Megatron-LM or torchtitan under torchrun (trainer=megatron,launcher=torchrun):
#   srun bash -c 'exec torchrun pretrain_gpt.py $SPIDERFLOW_TRAINER_ARGS "$@"' bash "$@"

# Of a worker that is not there: torchrun 1.13 of Debian 12 stumbles under Python 3.11 over redirecting none at all.
export PET_REDIRECTS=9:1 PET_TEE=9:1
srun torchrun ../train_gpt/train_gpt.py "$@"
