"""What TensorBoard's tab HParams shows of a run."""

import pytest
from tensorboard.plugins.hparams import api_pb2, plugin_data_pb2
import tensorflow.compat.v1 as tf

from common.monitoring import hparams_tab


def read(directory):
    """Returns the messages of the plug-in in the events of a directory."""
    found = []
    for path in tf.io.gfile.glob(f'{directory}/events*'):
        for event in tf.train.summary_iterator(path):
            for value in event.summary.value:
                if value.metadata.plugin_data.plugin_name == 'hparams':
                    found.append(plugin_data_pb2.HParamsPluginData.FromString(value.metadata.plugin_data.content))
    return found


def test_the_hparams_tab_gets_the_hyperparameters_and_a_good_end(tmp_path):
    with hparams_tab.session(str(tmp_path), {'rate': 0.5, 'steps': 3, 'cache': True, 'model': 'm', 'filters': (1, 2)}):
        assert len(read(tmp_path)) == 1
    start, end = read(tmp_path)
    values = start.session_start_info.hparams
    assert (values['rate'].number_value, values['steps'].number_value, values['cache'].bool_value) == (0.5, 3, True)
    assert (values['model'].string_value, values['filters'].string_value) == ('m', '[1, 2]')
    assert end.session_end_info.status == api_pb2.STATUS_SUCCESS


def test_the_hparams_tab_gets_a_failure(tmp_path):
    with pytest.raises(ZeroDivisionError), hparams_tab.session(str(tmp_path), {'a': 1}):
        raise ZeroDivisionError
    assert read(tmp_path)[-1].session_end_info.status == api_pb2.STATUS_FAILURE
