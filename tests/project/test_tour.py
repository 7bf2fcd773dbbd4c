"""The notebook of docs/ runs from its first cell to its last, and shows what it says."""

import base64
import io
import os

import nbclient
import nbformat
from PIL import Image
import pytest

from tests.shared import ROOT


@pytest.fixture(scope='module')
def cells(tmp_path_factory):
    """The code cells, after they were run in a kernel of their own: [(source, text of the outputs, [PIL.Image])]."""
    notebook = nbformat.read(os.path.join(ROOT, 'docs', 'tour.ipynb'), as_version=4)
    assert not any(cell.get('outputs') for cell in notebook.cells)
    directory = str(tmp_path_factory.mktemp('tour'))
    client = nbclient.NotebookClient(notebook, timeout=300, resources={'metadata': {'path': directory}})
    client.execute(env={**os.environ, 'PYTHONPATH': ROOT})
    return [(cell.source, *shown(cell.outputs)) for cell in notebook.cells if cell.cell_type == 'code']


def shown(outputs):
    texts, images = [], []
    for output in outputs:
        data = output.get('data', {})
        texts.append(output.get('text', '') + data.get('text/plain', ''))
        if 'image/png' in data:
            images.append(Image.open(io.BytesIO(base64.b64decode(data['image/png']))))
    return ''.join(texts), images


def found(cells, part):
    """Returns the text and the images of the only cell whose source has a part."""
    ((_, text, images),) = [cell for cell in cells if part in cell[0]]
    return text, images


def test_the_models_learn_and_their_progress_is_shown(cells):
    text, _ = found(cells, 'class Linear')
    linear, convolutional = (float(part.split()[1]) for part in text.strip().splitlines()[-1].split(', '))
    assert 0.85 < linear < 0.93 < convolutional
    text, _ = found(cells, 'history = []')
    assert 'Training' in text and 'Evaluating' in text and "'accuracy': 0.9" in text


def test_pictures_are_shown(cells):
    ((curve,), (sheet,), (weights,)) = (found(cells, part)[1] for part in ('losses = ', 'Image.open', 'moveaxis'))
    assert curve.size == (480, 160) and len(curve.getcolors()) > 1
    assert sheet.width > 500 and sheet.height > 500 and weights.size == (840, 84)


def test_what_is_predicted_is_what_the_exported_model_predicts(cells):
    line, _ = found(cells, 'ImageDraw.Draw(image)')
    text, _ = found(cells, 'run.export()')
    assert line.strip().startswith('A vertical line is a 1') and text == 'SavedModel: [1]\nloaded run: [1]\n'
