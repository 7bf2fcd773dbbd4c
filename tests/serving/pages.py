"""Models of a picture, a text and a table that need no training, and a server of the page in a thread."""

from concurrent.futures import Future
import contextlib
import io
import threading
import types

import numpy as np
from PIL import Image
import tensorflow.compat.v1 as tf
import uvicorn

from estimator_trainer.common.inference import pictures
from estimator_trainer.common.serving import server
from estimator_trainer.common.serving.app import make_app
from estimator_trainer.common.serving.form import form_of
from estimator_trainer.common.serving.metrics import Metrics
from estimator_trainer.common.serving.rest import Inputs, Signature

NUMBER, TEXT = tf.TensorSpec([None], tf.float32), tf.TensorSpec([None], tf.string)
PICTURE = tf.TensorSpec([None, 28, 28, 1], tf.uint8)


def _model(name, inputs, class_names, score, columns=(), to_batch=lambda request: request.columns):
    """Returns a model whose class is 1 with the probability `score`, a function of an example's values."""

    def submit(signature, batch):
        future = Future()
        try:
            scores = np.array([score(*values) for values in zip(*batch.values())])
        except Exception as error:
            future.set_exception(error)
            return future
        number = (scores > 0.5).astype(int)
        names = np.array([class_names[i] for i in number], object)
        future.set_result({'class': number, 'class_name': names, 'probabilities': np.stack([1 - scores, scores], axis=1)})
        return future

    form = form_of(name, inputs, {'columns': columns, 'class_names': class_names})
    facts = dict(
        name=name,
        step=7,
        unit='step',
        signatures={'serving_default': Signature(inputs, {})},
        form=form,
        to_batch=to_batch,
        submit=submit,
    )
    return types.SimpleNamespace(**facts, has_step=lambda step: True)


def _pixels(request):
    files = [pictures.to_file(value) for value in request.columns['image']]
    return {
        'image': np.stack([np.array(Image.open(io.BytesIO(file)).convert('L').resize((28, 28))) for file in files])[..., None]
    }


def _tall(image):
    """Returns 0.9 if what is bright in a picture is higher than wide, else 0.1; nearer to 0.5 if its center is dark."""
    rows, columns, _ = np.nonzero(image > 127)
    sureness = 0.4 if image[14, 14] > 127 else 0.1
    return 0.5 + sureness * np.sign(np.ptp(rows) - np.ptp(columns))


def digits():
    """Tells tall shapes from wide ones."""
    return _model('digits', Inputs({'image': PICTURE}, ('image',)), ['wide', 'tall'], _tall, to_batch=_pixels)


def reviews():
    """Tells texts that contain "good" from others."""
    return _model('reviews', Inputs({'text': TEXT}), ['bad', 'good'], lambda text: 0.9 if 'good' in text else 0.2)


def incomes():
    """A table: older people in Rome earn more."""
    columns = [
        {'name': 'age', 'kind': 'numeric', 'mean': 35.0, 'std': 10.0},
        {'name': 'city', 'kind': 'categorical', 'vocabulary': ['Rome', 'Oslo']},
        {'name': 'since', 'kind': 'date', 'mean': 0.0, 'std': 1.0},
    ]
    inputs = Inputs({'age': NUMBER, 'city': TEXT, 'since': TEXT})
    return _model(
        'incomes', inputs, ['low', 'high'], lambda age, city, since: 0.9 if float(age) > 40 and city == 'Rome' else 0.3, columns
    )


@contextlib.contextmanager
def serving(model, port=0):
    """Serves a model's page; yields the port."""
    with server.listen('127.0.0.1', port) as listener:
        app = make_app(model, Metrics())
        process = uvicorn.Server(uvicorn.Config(app, log_config=None, lifespan='off', ws='none', timeout_graceful_shutdown=1))
        thread = threading.Thread(target=process.run, args=([listener],))
        thread.start()
        try:
            yield listener.getsockname()[1]
        finally:
            process.should_exit = True
            thread.join()
