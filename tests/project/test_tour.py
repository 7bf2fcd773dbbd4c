"""The notebook of docs/ runs completely, and shows the documented results."""

import base64
import io
import os
import sys

from jupyter_client.provisioning import local_provisioner
import nbclient
import nbformat
from PIL import Image

from tests import forked
from tests.cluster.tasks import wait_until
from tests.shared import ROOT


def launch_forked(command, *, cwd, env, **unused):
    """Starts a kernel that has imported TensorFlow, as the leader of a process group, which receives its signals."""
    code = 'from ipykernel import kernelapp\nkernelapp.launch_new_instance()'
    kernel = forked.Popen([sys.executable, '-c', code, *command[3:]], cwd=cwd, env=env, start_new_session=True)
    kernel.stdin = None  # The provisioner looks for it.
    wait_until(lambda: os.getpgid(kernel.pid) == kernel.pid)
    return kernel


def test_the_notebook_shows_what_it_says(tmp_path, data_dir, monkeypatch):
    (tmp_path / 'data').symlink_to(data_dir)
    notebook = nbformat.read(os.path.join(ROOT, 'docs', 'tour.ipynb'), as_version=4)
    assert not any(cell.get('outputs') for cell in notebook.cells)
    mistake = "import estimator_trainer\nestimator_trainer.load('none')"
    notebook.cells.append(nbformat.v4.new_code_cell(mistake, metadata={'tags': ['raises-exception']}))
    monkeypatch.setattr(local_provisioner, 'launch_kernel', launch_forked)
    limits = dict.fromkeys(['timeout', 'startup_timeout', 'iopub_timeout'], 300)
    client = nbclient.NotebookClient(notebook, **limits, resources={'metadata': {'path': str(tmp_path)}})
    client.execute(env={**os.environ, 'PYTHONPATH': ROOT})

    def outputs(part):
        """Returns the outputs, as dicts, of the only code cell whose source contains a text."""
        (cell,) = [cell for cell in notebook.cells if cell.cell_type == 'code' and part in cell.source]
        return [{'text/plain': output.get('text', ''), **output.get('data', {})} for output in cell.outputs]

    def text(part):
        return ''.join(output['text/plain'] for output in outputs(part))

    def image(part):
        (png,) = [output['image/png'] for output in outputs(part) if 'image/png' in output]
        return Image.open(io.BytesIO(base64.b64decode(png)))

    linear, convolutional = (float(word.split()[1]) for word in text('class Linear').strip().splitlines()[-1].split(', '))
    assert 0.8 < linear < convolutional
    for shown in ('Training', 'Evaluating', "'accuracy': 0.9"):
        assert shown in text('save_summary_steps=10')
    (curves,) = outputs('run.plot()')
    assert curves['text/html'].startswith('<iframe srcdoc=') and 'accuracy by step: training goes from' in curves['text/html']
    *_, mistakes = outputs('run.mistakes')  # After the progress bar.
    assert 1 < mistakes['text/html'].count('predicted ') <= 30 and 'Worst mistakes' in mistakes['text/html']
    sheet, weights = (image(part) for part in ('Image.open', 'moveaxis'))
    assert sheet.width > 500 and sheet.height > 500 and weights.size == (840, 84)
    assert text('ImageDraw.Draw(image)').strip().startswith('A vertical line is a 1')
    (error,) = notebook.cells[-1].outputs
    assert (
        error.ename == 'UsageError' and error.traceback == [f'UsageError: {error.evalue}'] and 'output_dir=none' in error.evalue
    )
    assert text('run.export()') == 'SavedModel: [1]\nloaded run: [1]\n'
