#!/bin/bash
# SPDX-License-Identifier: GPL-3.0-or-later
#SBATCH --job-name=nanotron
#SBATCH --output=nanotron-%N-%j.out
#SBATCH --time=8:00:00
#SBATCH --cpus-per-task=8

# In a checkout of nanotron that lies at the same path at every site:
#   sbatch --spiderflow=model=config.json,gbs=256,seq=4096,trainer=nanotron train.sh config.yaml
# nanotron reads its sizes from its YAML and nowhere else. Write them into config.yaml as
#   parallelism:  dp: @DP@  pp: @PP@  tp: @TP@  pp_engine: 1f1b  recompute_layer: @RECOMPUTE@
#   tokens:       micro_batch_size: @MICROBATCH@  batch_accumulation_per_replica: @MICROBATCHES@
# (each on a line of its own) and this script fills the plan's numbers in. See spiderflow-launch(7).
template=${1:?config.yaml is missing}
shift
case $SLURM_SPIDERFLOW_RECOMPUTE in
full) recompute=true ;;
*) recompute=false ;;
esac
config=${template%.yaml}-$SLURM_SPIDERFLOW_SITE-$SLURM_JOB_ID.yaml
sed -e "s/@DP@/$SLURM_SPIDERFLOW_DP/g" -e "s/@PP@/$SLURM_SPIDERFLOW_PP/g" -e "s/@TP@/$SLURM_SPIDERFLOW_TP/g" \
    -e "s/@MICROBATCH@/$SLURM_SPIDERFLOW_MICROBATCH/g" -e "s/@MICROBATCHES@/$SLURM_SPIDERFLOW_MICROBATCHES/g" \
    -e "s/@RECOMPUTE@/$recompute/g" "$template" >"$config" || exit
trap 'rm -f "$config"' EXIT
export CUDA_DEVICE_MAX_CONNECTIONS=1

srun python3 run_train.py --config-file "$config" "$@"
