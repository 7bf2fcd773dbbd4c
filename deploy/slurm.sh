#!/bin/bash
# sbatch deploy/slurm.sh --model=alexnet --dataset=mnist --output_dir=PATH --data_dir=PATH
# Rerun the command to resume. The paths are on a file system shared by all nodes.
#SBATCH --job-name=train
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=8
#SBATCH --mem=16G
#SBATCH --time=24:00:00
#SBATCH --signal=TERM@120
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --output=%x-%j.log
# With GPUs, one task per GPU: --ntasks-per-node=4 --gpus-per-task=1

cd "${SLURM_SUBMIT_DIR:-.}" || exit
. .venv/bin/activate || exit

# Each task ends on its own: if srun killed it, it could not save its checkpoint.
for attempt in 1 2 3 4 5; do
  srun --label --kill-on-bad-exit=0 --wait=0 python trainer.py "$@"
  code=$?
  case $code in
    # Done, wrong usage, or stopped after a checkpoint.
    0 | 2 | 129 | 130 | 143) break ;;
  esac
  echo "attempt $attempt: exit code $code" >&2
done
exit "$code"
