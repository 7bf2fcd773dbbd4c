"""What TensorBoard's tab HParams shows of a run."""

import pytest
from tensorboard.plugins.hparams import api_pb2, plugin_data_pb2
import tensorflow.compat.v1 as tf

from common.monitoring import hparams_tab


def read(directory):
    """Returns the messages of the plug-in in the events of a directory."""
    paths = tf.io.gfile.glob(f'{directory}/events*')
    values = [value for path in paths for event in tf.train.summary_iterator(path) for value in event.summary.value]
    found = [value.metadata.plugin_data for value in values if value.metadata.plugin_data.plugin_name == 'hparams']
    return [plugin_data_pb2.HParamsPluginData.FromString(data.content) for data in found]


def test_the_hparams_tab_gets_the_hyperparameters_and_how_it_ended(tmp_path):
    with hparams_tab.session(str(tmp_path), {'rate': 0.5, 'steps': 3, 'cache': True, 'model': 'm', 'filters': (1, 2)}):
        assert len(read(tmp_path)) == 1
    start, end = read(tmp_path)
    values = start.session_start_info.hparams
    assert (values['rate'].number_value, values['steps'].number_value, values['cache'].bool_value) == (0.5, 3, True)
    assert (values['model'].string_value, values['filters'].string_value) == ('m', '[1, 2]')
    assert end.session_end_info.status == api_pb2.STATUS_SUCCESS
    with pytest.raises(ZeroDivisionError), hparams_tab.session(f'{tmp_path}/failure', {'a': 1}):
        raise ZeroDivisionError
    assert read(f'{tmp_path}/failure')[-1].session_end_info.status == api_pb2.STATUS_FAILURE
