#!/bin/bash
# SPDX-License-Identifier: GPL-3.0-or-later
#SBATCH --job-name=deepspeed
#SBATCH --output=deepspeed-%N-%j.out
#SBATCH --time=8:00:00
#SBATCH --cpus-per-task=8

# In a checkout of Megatron-DeepSpeed that lies at the same path at every site:
#   sbatch --spiderflow=model=config.json,gbs=256,seq=2048,trainer=deepspeed train.sh --num-layers 24 …
# Arguments after train.sh describe the model, the data and the training. Sizes of batches and of parallelism come from
# the plan: give none of them here. Do not use the launcher `deepspeed`: srun starts the processes.
# Stages of different size (layers=free): a program of your own with spiderflow_pipe.py, instead of pretrain_gpt.py.
# See spiderflow-launch(7).
config=ds_config-$SLURM_SPIDERFLOW_SITE-$SLURM_JOB_ID.json
cat >"$config" <<END
{
  "train_micro_batch_size_per_gpu": $SLURM_SPIDERFLOW_MICROBATCH,
  "gradient_accumulation_steps": $SLURM_SPIDERFLOW_MICROBATCHES,
  "bf16": {"enabled": true},
  "zero_optimization": {"stage": 1}
}
END
trap 'rm -f "$config"' EXIT
export CUDA_DEVICE_MAX_CONNECTIONS=1 DEEPSPEED_TIMEOUT=30

# SPIDERFLOW_TRAINER_ARGS is there in the tasks of a step, not in this script: a shell of the task expands it.
# shellcheck disable=SC2016
srun bash -c 'exec python3 pretrain_gpt.py $SPIDERFLOW_TRAINER_ARGS "$@"' bash \
    --bf16 --zero-stage 1 --deepspeed --deepspeed_config "$config" "$@"
