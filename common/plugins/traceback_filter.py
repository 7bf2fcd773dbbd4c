"""Tracebacks cut down to the lines of a user's own modules."""

import contextlib
import os
import re
import sysconfig
import traceback

import tensorflow.compat.v1 as tf

from common.errors import message

_ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
# models/ and datasets/ are the user's.
_FRAMEWORK = tuple(
    os.path.join(_ROOT, *names)
    for names in (('common', ''), ('hparams', ''), ('tf_estimator', ''), ('sweep.py',), ('trainer.py',))
)
_PYTHON = tuple({os.path.join(sysconfig.get_path(name), '') for name in ('stdlib', 'platstdlib')})
_OTHERS = re.compile(r'[/\\](site|dist)-packages[/\\]|^<|[/\\]__autograph_generated_file')
_PYTHON_ERROR = re.compile(r'(.*?)\nTraceback \(most recent call last\):\n(.*?)(?:\n\t \[\[|\Z)', re.DOTALL)
_MAX_LINES = 40


def original(error):
    """Returns the exception that AutoGraph has wrapped in another of its own, or the exception itself."""
    metadata = getattr(error, 'ag_error_metadata', None)
    while metadata and getattr(error.__context__, 'ag_error_metadata', None) is metadata:
        error = error.__context__
    return error


def user_traceback(error):
    """Returns an exception's traceback, and those of what led to it, without the lines of TensorFlow and the framework.

    Returns:
      Text, which ends with the exception itself; '' if no line of a user's module has to do with it.
    """
    text = ''
    while error is not None:
        frames, said = _frames(error), _said(error)
        if frames or isinstance(original(error), SyntaxError) and _is_users(original(error).filename or '<'):
            text = _text(frames, said) + (text and f'\nThis led to:\n\n{text}')
        error = _before(error)
    return text


def in_a_line(error):
    """Returns what an exception says in a line, with its type and the user's line that it comes from."""
    frames = _frames(error)
    return ' '.join(_said(error).split()) + (f' ({_place(frames[-1])})' if frames else '')


def made_at(error):
    """Returns the line of the user's that made the op of an error of TensorFlow, such as 'my_model.py, line 7'; '' if none."""
    op = getattr(error, 'op', None)
    while op is not None:
        frames = _users(traceback.FrameSummary(frame.filename, frame.lineno, frame.name) for frame in op.traceback or ())
        if frames:
            return _place(frames[-1])
        op = op._original_op  # Of a gradient.
    return ''


def _text(frames, said):
    lines = ''.join(traceback.StackSummary.from_list(frames).format()).splitlines(keepends=True)
    if len(lines) > _MAX_LINES:  # Functions that call one another without end.
        lines = [*lines[: _MAX_LINES // 2], '  ...\n', *lines[-_MAX_LINES // 2 :]]
    return ''.join(['Traceback (most recent call last):\n' if lines else '', *lines, said])


def _before(error):
    """Returns the exception that led to another; of one of TensorFlow's, that would be the same once more."""
    if isinstance(error, tf.errors.OpError):
        return None
    return error.__cause__ or (None if error.__suppress_context__ else error.__context__)


def _place(frame):
    path = os.path.relpath(frame.filename)
    return f'{frame.filename if path.startswith(os.pardir) else path}, line {frame.lineno}'


def _frames(error):
    """Returns the user's frames that an exception went through, also those that AutoGraph or an op's message tells of."""
    frames = list(traceback.extract_tb(error.__traceback__))
    metadata = getattr(error, 'ag_error_metadata', None)
    if metadata:
        frames += [
            traceback.FrameSummary(frame.filename, frame.lineno, frame.function_name or '<lambda>')
            for frame in reversed(metadata.translated_stack)
        ]
    told = re.findall(r'^ +File "(.+)", line (\d+), in (.+)$', _python_error(error)[1], re.MULTILINE)
    return _users(frames + [_as_written(path, int(line), name) for path, line, name in told])


def _as_written(path, line, name):
    """Returns the frame of a line, or if it is one that AutoGraph has made, of the line that it was made of."""
    with contextlib.suppress(ImportError, AttributeError):  # A private part of TensorFlow.
        from tensorflow.python.autograph.impl import api

        for factories in list(api._TRANSPILER._cache._cache.values()):
            for factory in factories.values():
                origin = factory.source_map.get((path, line))
                if origin:
                    return traceback.FrameSummary(origin.loc.filename, origin.loc.lineno, origin.function_name or name)
    return traceback.FrameSummary(path, line, name)


def _users(frames):
    """Returns the user's of the frames, without those that called the framework."""
    frames = list(frames)
    first = next((i for i, frame in enumerate(frames) if frame.filename.startswith(_FRAMEWORK)), 0)
    return [frame for frame in frames[first:] if _is_users(frame.filename)]


def _is_users(path):
    return not (_OTHERS.search(path) or os.path.abspath(path).startswith((*_FRAMEWORK, *_PYTHON)))


def _said(error):
    """Returns an exception's type and message, as Python ends a traceback."""
    said, _ = _python_error(error)
    error = original(error)
    return f'{said}\n' if said else ''.join(traceback.format_exception_only(type(error), error))


def _python_error(error):
    """Returns the message and the traceback of an exception in a Python op or a generator, which TensorFlow tells as text."""
    found = isinstance(error, tf.errors.OpError) and _PYTHON_ERROR.match(message(error))
    return found.groups() if found else ('', '')
