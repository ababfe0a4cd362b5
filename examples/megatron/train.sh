#!/bin/bash
# SPDX-License-Identifier: GPL-3.0-or-later
#SBATCH --job-name=megatron
#SBATCH --output=megatron-%N-%j.out
#SBATCH --time=8:00:00
#SBATCH --cpus-per-task=8

# In a checkout of Megatron-LM that lies at the same path at every site:
#   sbatch --spiderflow=model=config.json,gbs=256,seq=4096,trainer=megatron train.sh
# config.json: the model that the arguments below describe; here Llama 3.1 8B, on made-up data.
# Arguments after train.sh go to Megatron-LM. Sizes of batches and of parallelism, the layout of the layers,
# recomputation and the networks of process groups come from the plan: give none of them here. See spiderflow-launch(7).
model=(
    --num-layers 32 --hidden-size 4096 --ffn-hidden-size 14336 --num-attention-heads 32
    --group-query-attention --num-query-groups 8 --max-position-embeddings 4096
    --position-embedding-type rope --rotary-base 500000 --normalization RMSNorm --swiglu
    --disable-bias-linear --untie-embeddings-and-output-weights
)
data=(--mock-data --tokenizer-type NullTokenizer --vocab-size 128256)
training=(
    --bf16 --lr 3e-4 --min-lr 3e-5 --lr-decay-style cosine --lr-warmup-iters 100 --train-iters 1000
    --weight-decay 0.1 --clip-grad 1.0 --log-interval 10 --eval-iters 0
    --distributed-timeout-minutes 30
)
export CUDA_DEVICE_MAX_CONNECTIONS=1

# SPIDERFLOW_TRAINER_ARGS is there in the tasks of a step, not in this script: a shell of the task expands it.
# shellcheck disable=SC2016
srun bash -c 'exec python3 pretrain_gpt.py $SPIDERFLOW_TRAINER_ARGS "$@"' bash \
    "${model[@]}" "${data[@]}" "${training[@]}" "$@"
