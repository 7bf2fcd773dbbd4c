"""--overwrite deletes the files of a run and no others, even if it is interrupted."""

import os

import pytest
import tensorflow.compat.v1 as tf

from estimator_trainer.common.storage import checkpoints, run_dir, run_files
from tests.shared import failed, refused

OF_USER = """notes.txt venv/bin/python model.ckpt-1.txt metrics.csv.bak log.txt plots/graph.pbtxt best/notes.txt
export/README.md export/latest/saved_model.pb eval_other/hparams.json eval_other/events.out.tfevents.1.vm
eval_other/model.ckpt-7.index other/metrics.csv plugins/mine/x cluster/notes.log trainer.lock
suspects.csv""".split()
OF_RUN = """checkpoint graph.pbtxt hparams.json flags.json dataset.json results.json metrics.csv data_summary.txt report.html
predictions.jsonl status.json events.out.tfevents.1.vm events.out.tfevents.1.vm.hparams model.ckpt-0.index
model.ckpt-0.data-00000-of-00001 model.ckpt-0.meta model.ckpt-10.index model.ckpt-10.data-00000-of-00001
eval/events.out.tfevents.2.vm eval/embedding.tsv eval/embedding_labels.tsv eval/embedding_images.png
eval/projector_config.pbtxt eval_train/events.out.tfevents.2.vm best/best.json best/model.ckpt-10.index
best/model.ckpt-10.data-00000-of-00001 export/17/saved_model.pb export/17/variables/v export/temp-18/x
input_state/10.input.index cluster/worker-0.log abandoned/2/model.ckpt-12.index abandoned/2/eval/events.out.tfevents.1.vm
rollback.json margins.f16 suspects.html duplicates.csv plugins/profile/2026_11_26_19_07_28/vm.xplane.pb""".split()


def make(root, names):
    for name in names:
        tf.io.gfile.makedirs(os.path.dirname(f'{root}/{name}'))
        with tf.io.gfile.GFile(f'{root}/{name}', 'w') as file:
            file.write('x')


def files_in(root):
    return sorted(os.path.join(path, name)[len(root) + 1 :] for path, _, names in tf.io.gfile.walk(root) for name in names)


@pytest.mark.parametrize('is_remote', [False, True])
def test_what_the_trainer_wrote_is_deleted_and_nothing_else(tmp_path, is_remote):
    root = 'ram://run_files/output' if is_remote else str(tmp_path / 'output')
    # TensorFlow's file system in memory lists the files of eval_x as those of eval, too.
    of_user, of_run = ([name for name in names if not (is_remote and name.startswith('eval_'))] for names in (OF_USER, OF_RUN))
    make(root, [*of_user, *of_run])
    assert run_files.is_run(root)
    run_files.delete(root)
    assert files_in(root) == sorted(of_user) and not run_files.is_run(root)
    assert not any(tf.io.gfile.isdir(f'{root}/{name}') for name in ('eval', 'eval_train', 'input_state', 'plugins/profile'))


def test_of_a_link_to_a_directory_only_the_link_is_deleted(tmp_path):
    root, other = tmp_path / 'output', tmp_path / 'other'
    make(root, ['hparams.json', 'export/2/saved_model.pb'])
    make(other, ['mine'])
    for link in (root / 'export' / '1', root / 'export' / '2' / 'within'):
        link.symlink_to(other)
    run_files.delete(str(root))
    assert files_in(str(tmp_path)) == ['other/mine'] and not (root / 'export').exists()


def test_a_killed_deletion_leaves_what_the_same_command_deletes(tmp_path, monkeypatch):
    class Killed(Exception):
        pass

    def limited(function):
        def call(path):
            if not left:
                raise Killed
            left.pop()
            function(path)

        return call

    monkeypatch.setattr(tf.io.gfile, 'remove', limited(tf.io.gfile.remove))
    for number in range(len(OF_RUN)):
        root, left = str(tmp_path / str(number)), [None] * number
        make(root, OF_RUN)
        try:
            run_files.delete(root)
        except Killed:
            assert run_files.is_run(root)
            names = {*files_in(root)}
            # The newest checkpoint is whole as long as an older one is there; then a resume is refused.
            assert 'model.ckpt-0.index' not in names or 'model.ckpt-10.data-00000-of-00001' in names
            if not checkpoints.has_checkpoint(root) and names - {'flags.json', 'dataset.json', 'hparams.json'}:
                assert 'start over with --overwrite' in failed(run_dir.check_empty, root)
            left += [None] * 100
            run_files.delete(root)
        assert files_in(root) == []


def test_checkpoints_of_another_program_are_no_run(tmp_path):
    assert not run_files.is_run(str(tmp_path / 'none'))
    (tmp_path / 'model.ckpt-5.index').write_text('')
    assert 'has checkpoints but no hparams.json' in refused(run_files.is_run, str(tmp_path))
    (tmp_path / os.path.basename(run_dir.hparams_path('x'))).write_text('no JSON')
    assert run_files.is_run(str(tmp_path))
