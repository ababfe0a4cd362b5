#!/bin/bash
# SPDX-License-Identifier: GPL-3.0-or-later
#SBATCH --job-name=torchtitan
#SBATCH --output=torchtitan-%N-%j.out
#SBATCH --time=8:00:00
#SBATCH --cpus-per-task=8

# In a checkout of torchtitan that lies at the same path at every site:
#   sbatch --spiderflow=model=config.json,gbs=256,seq=8192,trainer=torchtitan train.sh
# config.json: of the model that MODULE and CONFIG name. Arguments after train.sh go to torchtitan; each must begin with
# its flag. Activation checkpointing is no flag: CONFIG must choose what the plan says, FullAC or SelectiveAC for
# recompute=full and selective. See spiderflow-launch(7).
export MODULE=${MODULE:-llama3} CONFIG=${CONFIG:-llama3_8b}
own=(--training.steps 1000
     --comm.init_timeout_seconds 1800 --comm.train_timeout_seconds 600)

# SPIDERFLOW_TRAINER_ARGS is there in the tasks of a step, not in this script: a shell of the task expands it.
# shellcheck disable=SC2016
srun bash -c 'exec python3 -m torchtitan.train --module "$MODULE" --config "$CONFIG" $SPIDERFLOW_TRAINER_ARGS "$@"' \
    bash "${own[@]}" "$@"
