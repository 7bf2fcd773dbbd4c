"""Versions of exports rise, whatever the clock says."""

import time

from estimator_trainer.common.storage.export_versions import next_version, publish


def test_versions_are_times_and_rise_even_if_the_clock_goes_back(tmp_path, monkeypatch):
    found = []
    for now in (100.9, 100.0, 50.0, 200.0):
        monkeypatch.setattr(time, 'time', lambda now=now: now)
        assert next_version(str(tmp_path / 'missing')) == int(now)
        (tmp_path / 'temp' / 'any').mkdir(parents=True)
        found.append(publish({'saved_model': str(tmp_path / 'temp' / 'any')}, str(tmp_path))['saved_model'])
    assert found == [f'{tmp_path}/{version}' for version in (100, 101, 102, 200)]
    for name in ('temp-999', '999x', '-999', '\u0669'):  # The last is a digit, but none of a version.
        (tmp_path / name).mkdir()
    assert next_version(str(tmp_path)) == 201


def test_all_formats_of_an_export_have_one_version(tmp_path, monkeypatch):
    monkeypatch.setattr(time, 'time', lambda: 50.0)
    made = {}
    for name in ('onnx', 'tflite'):
        made[name] = str(tmp_path / 'temp' / name)
        (tmp_path / 'temp' / name).mkdir(parents=True)
    assert publish(made, str(tmp_path)) == {'onnx': f'{tmp_path}/50-onnx', 'tflite': f'{tmp_path}/50-tflite'}
    assert next_version(str(tmp_path)) == 51
