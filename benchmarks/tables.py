"""Tables: the area under the ROC curve of --model=mlp --dataset=table, compared with scikit-learn's gradient boosting.

    python -m benchmarks.tables

Two real tables, each split into training and evaluation once: breast_cancer, from scikit-learn, and affairs, from
statsmodels. HistGradientBoostingClassifier has its default hyper-parameters, and the trainer those of hparams/mlp_table.json.
The first run creates the virtual environment in .venv-peers.
"""

import os
import tempfile

from benchmarks.processes import make_environments, run_peer, run_trainer


def main() -> None:
    make_environments()
    with tempfile.TemporaryDirectory() as directory:
        scores = run_peer('sklearn', 'sklearn_tables.py', directory)
        scores.pop('seconds')
        print('| table | trainer.py, AUC | HistGradientBoosting, AUC | trainer.py, s |\n| --- | --- | --- | --- |')
        for name, score in scores.items():
            found = run_trainer(
                '--model=mlp',
                '--dataset=table',
                f'--data_dir={directory}/data',
                f'--hparams=table_file={os.path.join(directory, name)},target=target',
            )
            print(f'| {name} | {found["result"]["eval"]["auc"]:.4f} | {score:.4f} | {found["seconds"]:.0f} |')


if __name__ == '__main__':
    main()
