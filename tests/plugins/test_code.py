"""Digests of the code that a run is made by."""

import hashlib
import sys

import pytest

from estimator_trainer.common.plugins import code
import estimator_trainer.datasets.mnist as mnist


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A project: proof_own.model imports proof_own.layers, which in a function imports proof_own.sizes and a package."""
    folder = tmp_path / 'proof_own'
    (folder / 'lazy').mkdir(parents=True)
    (folder / 'lazy' / '__init__.py').write_text('')
    (folder / 'lazy' / 'deep.py').write_text('DEPTH = 2\n')
    (folder / '__init__.py').write_text('')
    (folder / 'model.py').write_text('import json\nimport numpy as np\nfrom .layers import dense\n')
    (folder / 'layers.py').write_text('def dense():\n    from proof_own import sizes\n    from .lazy.deep import DEPTH\n')
    (folder / 'sizes.py').write_text('WIDTH = 3\n')
    (folder / 'other.py').write_text('')
    monkeypatch.syspath_prepend(str(tmp_path))
    yield folder
    for name in [name for name in sys.modules if name.startswith('proof_own')]:
        del sys.modules[name]


def test_a_module_counts_with_the_files_of_the_project_that_it_imports(project):
    import proof_own.model

    found = code.digests([proof_own.model, mnist])
    own = {name: digest for name, digest in found.items() if name.startswith('proof_own')}
    files = {'': '__init__', '.lazy': 'lazy/__init__', '.lazy.deep': 'lazy/deep', '.layers': 'layers', '.model': 'model'}
    files['.sizes'] = 'sizes'
    assert own == {
        f'proof_own{name}': hashlib.sha256((project / f'{file}.py').read_bytes()).hexdigest() for name, file in files.items()
    }
    others = found.keys() - own.keys()
    assert {'estimator_trainer', 'tf_estimator', 'estimator_trainer.datasets.mnist'} <= others
    assert not any(name.startswith(('json', 'numpy', 'estimator_trainer.common')) for name in others)
    (project / 'sizes.py').write_text('WIDTH = 4\n')
    changed = code.digests([proof_own.model, mnist])
    assert [name for name in found if found[name] != changed[name]] == ['proof_own.sizes']


def test_what_counts_does_not_depend_on_what_is_loaded(project):
    import proof_own.model

    found = code.digests([proof_own.model])
    proof_own.model.dense()
    assert 'proof_own.lazy.deep' in sys.modules and code.digests([proof_own.model]) == found


def test_an_object_counts_as_the_module_that_defines_it_and_without_a_file_it_has_no_digest():
    class Model:
        pass

    assert code.digests([Model()])[__name__] == hashlib.sha256(open(__file__, 'rb').read()).hexdigest()
    Model.__module__ = 'typed_in_a_notebook'
    assert code.digests([Model()])['typed_in_a_notebook'] is None
