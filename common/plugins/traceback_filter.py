"""Tracebacks reduced to lines of the user's own modules."""

from collections.abc import Iterable
import contextlib
import os
import re
import sysconfig
import traceback
from typing import Any

import tf_estimator  # Before TensorFlow.

import tensorflow.compat.v1 as tf

import estimator_trainer
from estimator_trainer.common.errors import RunError, message

_ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
# models/ and datasets/ count as the user's code.
_FRAMEWORK = (
    *(os.path.join(_ROOT, name, '') for name in ('common', 'hparams')),
    *(os.path.join(package.__path__[0], '') for package in (estimator_trainer, tf_estimator)),
    *(os.path.join(_ROOT, name) for name in ('sweep.py', 'trainer.py')),
)
_PYTHON = tuple({os.path.join(sysconfig.get_path(name), '') for name in ('stdlib', 'platstdlib')})
_LIBRARIES = re.compile(r'[/\\](site|dist)-packages[/\\]|^<|[/\\]__autograph_generated_file')
_PYTHON_ERROR = re.compile(r'(.*?)\nTraceback \(most recent call last\):\n(.*?)(?:\n\t \[\[|\Z)', re.DOTALL)
_MAX_LINES = 40


def original(error: BaseException) -> Any:
    """Returns the exception wrapped by AutoGraph's, or the exception itself."""
    metadata = getattr(error, 'ag_error_metadata', None)
    while metadata and getattr(error.__context__, 'ag_error_metadata', None) is metadata:
        error = error.__context__  # type: ignore[assignment]
    return error


def user_traceback(error: BaseException | None) -> str:
    """Returns the traceback of an exception and of its causes, without the lines of TensorFlow and the framework.

    Returns:
      Text that ends with the exception itself; '' if it involves no line of a user's module.
    """
    text = ''
    while error is not None:
        frames, summary = _user_frames(error), _summary(error)
        if frames or isinstance(original(error), SyntaxError) and _is_user_file(original(error).filename or '<'):
            text = _format(frames, summary) + (text and f'\nThis led to:\n\n{text}')
        error = _cause(error)
    return text


def in_a_line(error: BaseException) -> str:
    """Returns an exception's type and message as one line, with the user's line that raised it."""
    frames = _user_frames(error)
    return ' '.join(_summary(error).split()) + (f' ({_location(frames[-1])})' if frames else '')


def check_exit(error: SystemExit) -> None:
    """Raises RunError if code other than the framework's ends the process as if it had succeeded."""
    *_, last = traceback.extract_tb(error.__traceback__)
    is_success = not error.code or isinstance(error.code, int) and error.code % 256 == 0  # All that a parent process sees.
    if is_success and not last.filename.startswith(_FRAMEWORK):
        raise RunError(f'the process was ended before its work was done, by {in_a_line(error)}') from None


def made_at(error: BaseException) -> str:
    """Returns the user's line that created the op of a TensorFlow error, such as 'my_model.py, line 7'; '' if none."""
    op = getattr(error, 'op', None)
    while op is not None:
        frames = _only_user(traceback.FrameSummary(frame.filename, frame.lineno, frame.name) for frame in op.traceback or ())
        if frames:
            return _location(frames[-1])
        op = op._original_op  # For a gradient's op, that of the forward pass.
    return ''


def _format(frames, summary):
    lines = ''.join(traceback.StackSummary.from_list(frames).format()).splitlines(keepends=True)
    if len(lines) > _MAX_LINES:  # Infinite mutual recursion.
        lines = [*lines[: _MAX_LINES // 2], '  ...\n', *lines[-_MAX_LINES // 2 :]]
    return ''.join(['Traceback (most recent call last):\n' if lines else '', *lines, summary])


def _cause(error):
    """Returns the cause or context of an exception; None for a TensorFlow error, whose context would repeat it."""
    if isinstance(error, tf.errors.OpError):
        return None
    return error.__cause__ or (None if error.__suppress_context__ else error.__context__)


def _location(frame):
    path = os.path.relpath(frame.filename)
    return f'{frame.filename if path.startswith(os.pardir) else path}, line {frame.lineno}'


def _user_frames(error):
    """Returns the user's frames of an exception, including those in AutoGraph's metadata or in an op's message."""
    frames = list(traceback.extract_tb(error.__traceback__))
    metadata = getattr(error, 'ag_error_metadata', None)
    if metadata:
        frames += [
            traceback.FrameSummary(frame.filename, frame.lineno, frame.function_name or '<lambda>')
            for frame in reversed(metadata.translated_stack)
        ]
    elif isinstance(error, SystemExit):  # AutoGraph adds none to it.
        frames = [_source_frame(frame.filename, frame.lineno, frame.name) for frame in frames]
    reported = re.findall(r'^ +File "(.+)", line (\d+), in (.+)$', _python_error(error)[1], re.MULTILINE)
    return _only_user(frames + [_source_frame(path, int(line), name) for path, line, name in reported])


def _source_frame(path, line, name):
    """Returns the frame of a line; for a line generated by AutoGraph, that of its source."""
    with contextlib.suppress(ImportError, AttributeError):  # Private API of TensorFlow.
        from tensorflow.python.autograph.impl import api

        for factories in list(api._TRANSPILER._cache._cache.values()):
            for factory in factories.values():
                origin = factory.source_map.get((path, line))
                if origin:
                    return traceback.FrameSummary(origin.loc.filename, origin.loc.lineno, origin.function_name or name)
    return traceback.FrameSummary(path, line, name)


def _only_user(frames: Iterable[traceback.FrameSummary]):
    """Returns the frames in the user's files, without those of a script that called the framework."""
    frames = list(frames)
    first = next((i for i, frame in enumerate(frames) if frame.filename.startswith(_FRAMEWORK)), 0)
    return [frame for frame in frames[first:] if _is_user_file(frame.filename)]


def _is_user_file(path):
    return not (_LIBRARIES.search(path) or os.path.abspath(path).startswith((*_FRAMEWORK, *_PYTHON)))


def _summary(error):
    """Returns an exception's type and message, as in the last line of a traceback."""
    reported, _ = _python_error(error)
    error = original(error)
    return f'{reported}\n' if reported else ''.join(traceback.format_exception_only(type(error), error))


def _python_error(error):
    """Returns the message and traceback of an exception in a Python op or generator, which TensorFlow reports as text."""
    match = isinstance(error, tf.errors.OpError) and _PYTHON_ERROR.match(message(error))
    return match.groups() if match else ('', '')
