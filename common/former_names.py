"""Former import names: importing one raises an error with the current name, and never loads a second copy of the code."""

from collections.abc import MutableSequence, Sequence
import importlib.abc
import importlib.machinery
import os
import sys
import types
from typing import Any

from estimator_trainer.common.errors import UsageError

_PACKAGE = 'estimator_trainer'
_TOPS = ('common', 'datasets', 'hparams', 'models')
_ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_MOVED = {
    'common.runs.api': '',
    'common.data.records': 'common.records.records',
    'common.data.example_seed': 'common.pipeline.example_seed',
    **dict.fromkeys(['common.ops.batch_normalization', 'common.ops.dropout', 'common.ops.merge'], 'common.ops.layers'),
    'common.ops.leaky_relu': 'common.ops.layers',
    **dict.fromkeys(['common.ops.cross_entropy', 'common.ops.gaussian_kl', 'common.ops.softmax'], 'common.ops.losses'),
    **dict.fromkeys(['common.ops.auc', 'common.ops.confusion_matrix', 'common.ops.pr_curve'], 'common.ops.metrics'),
    **dict.fromkeys(['common.ops.augmentation', 'common.ops.mixup', 'common.ops.random_shift'], 'common.ops.random'),
    'common.ops.step_seed': 'common.ops.random',
    **dict.fromkeys(['common.ops.image_grid', 'common.ops.labeled_images'], 'common.ops.images'),
    **dict.fromkeys(['common.ops.batch_gather', 'common.ops.shape'], 'common.ops.shapes'),
    **dict.fromkeys(['common.ops.asserts', 'common.ops.check_gradient', 'common.ops.jacobian'], 'common.ops.debug'),
    **dict.fromkeys(['common.ops.print_tensor', 'common.ops.variable_summaries'], 'common.ops.debug'),
}
_PACKAGES = {*_TOPS, 'common.data', 'common.formats', 'common.ops', 'common.runs', 'common.training'}


class FormerNameError(UsageError, ImportError):
    """A former name is imported; the message has the current one."""


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Presents a former name as an empty package, whose modules cannot be imported.

    The first of two finders handles names that exist in this checkout, the last those unknown to other finders.
    """

    def __init__(self, is_last: bool):
        self._is_last = is_last

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        top, _, rest = name.partition('.')
        if top not in _TOPS:
            return None
        if not rest:
            is_former = name in ('common', 'hparams') if self._is_last else _is_own(name)
        else:
            is_former = getattr(sys.modules[top].__spec__, 'loader', None) is self
        if not is_former:
            return None
        if name not in _PACKAGES:
            raise FormerNameError(f'{name} is now {_PACKAGE}.{_MOVED.get(name, name)}'.rstrip('.'))
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec: Any) -> None:
        return None

    def exec_module(self, module: types.ModuleType) -> None:
        pass


def _is_own(name):
    spec = importlib.machinery.PathFinder.find_spec(name)
    return bool(spec and [*(spec.submodule_search_locations or ())][:1] == [os.path.join(_ROOT, name)])


def refuse(meta_path: MutableSequence[Any]) -> None:
    """Rejects former names from now on; `meta_path` is sys.meta_path."""
    meta_path.insert(0, _Finder(is_last=False))
    meta_path.append(_Finder(is_last=True))
