"""Runs a test file and reads its results."""

import os
from pathlib import Path
import re
import subprocess
import tempfile
from xml.etree import ElementTree

from tools.compat.libraries import Library

AS_TENSORFLOW_1 = Path(__file__).with_name('as_tensorflow_1.py')
PASSED, SKIPPED = 'passed', 'skipped'
TIME_LIMIT = 3600  # Seconds.


def run(python: Path, folder: Path, library: Library, file: str) -> dict[str, str]:
    """Returns {test: 'passed', 'skipped' or its error} of a file.

    Runs tests skipped for being for TensorFlow 1 a second time, with `tf.disable_v2_behavior()`.
    """
    if library.runner == 'pytest':
        plugin = ['-p', library.plugin, '--noconftest'] if library.plugin else []
        arguments = ['-m', 'pytest', '-q', '--rootdir=.', '--tb=native', '--assert=plain', *plugin, '-k', library.select, file]
        return _run(python, folder, library, file, arguments, '--junitxml')
    found = _run(python, folder, library, file, [file], '--xml_output_file')
    skipped = [test.partition('::')[2] for test, result in found.items() if result == SKIPPED and 'test_session' not in test]
    if skipped:
        found |= _run(python, folder, library, file, [str(AS_TENSORFLOW_1), file, *skipped], '--xml_output_file')
    return found


def _run(python, folder, library, file, arguments, xml_flag):
    environment = {**os.environ, 'TF_CPP_MIN_LOG_LEVEL': '3'}
    if not library.is_apart:
        environment['PYTHONPATH'] = str(folder)
    with tempfile.TemporaryDirectory() as scratch:
        xml = Path(scratch) / 'results.xml'
        command = [python, '-m', 'tf_estimator', '--as_it_was', *arguments, f'{xml_flag}={xml}']
        try:
            process = subprocess.run(
                command, cwd=folder, env=environment, capture_output=True, text=True, errors='replace', timeout=TIME_LIMIT
            )
        except subprocess.TimeoutExpired:
            return {file: f'not done after {TIME_LIMIT} s'}
        if not xml.exists() or not xml.stat().st_size:  # Empty if the process was killed.
            lines = process.stderr.strip().splitlines() or process.stdout.strip().splitlines()
            return {file: lines[-1] if lines else f'exit code {process.returncode}'}
        return read(xml, file)


def read(xml: Path, file: str) -> dict[str, str]:
    """Returns {'FILE::CLASS.TEST': 'passed', 'skipped' or its one-line error} of an XML file of absltest or pytest."""
    found: dict[str, str] = {}
    for case in ElementTree.parse(xml).iter('testcase'):
        name = f'{file}::{case.get("classname", "").rpartition(".")[2]}.{case.get("name")}'
        failure = case.find('failure')
        failure = case.find('error') if failure is None else failure
        if failure is not None:
            message = ' '.join(failure.get('message', '').split())
            if message in ('', 'collection failure'):  # Then the text has the reason.
                message = (failure.text or 'failed').strip().splitlines()[-1]
            kind = re.search(r"[\w.]+(?='>$)", failure.get('type', ''))  # In pytest's files, it is in the message.
            found[name] = f'{kind[0]}: {message}' if kind else message
        elif case.find('skipped') is not None or case.get('status') == 'notrun':
            found[name] = SKIPPED
        else:
            found[name] = PASSED
    return found or {file: 'has no tests'}
