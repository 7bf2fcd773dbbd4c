#!/bin/bash
# sbatch -a 0-3 deploy/slurm_sweep.sh --space=FILE --trials=100 --model=alexnet --dataset=mnist --output_dir=PATH --data_dir=PATH
# The tasks of the array share the trials. Rerun the command to resume. The paths are on a file system shared by all nodes.
#SBATCH --job-name=sweep
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=8
#SBATCH --mem=16G
#SBATCH --time=24:00:00
#SBATCH --signal=B:TERM@120
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --output=%x-%A_%a.log

cd "${SLURM_SUBMIT_DIR:-.}" || exit
. .venv/bin/activate || exit
exec python sweep.py "$@"
