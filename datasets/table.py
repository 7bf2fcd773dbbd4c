"""Your own table: columns of numbers, categories and dates, and a target for classification or regression.

--hparams=table_file=PATH names one file, a share of which is held out for evaluation, or a directory of files named by their
splits: train.csv, eval.csv, fold3.csv ... They are CSV, Parquet, Arrow (Feather) or JSON Lines. Column kinds are inferred from
the training rows unless a schema file gives them; see docs/own_data.md.
"""

from collections.abc import Iterator, Mapping
import functools
import re
from typing import Any

import tensorflow.compat.v1 as tf

from estimator_trainer.common.errors import RunError, UsageError, check_range
from estimator_trainer.common.own_data import folds
from estimator_trainer.common.own_data.conversions import convert_once, read_metadata, read_summary, silenced
from estimator_trainer.common.own_data.description import of_kind
from estimator_trainer.common.own_data.examples import named_columns, parser
from estimator_trainer.common.own_data.schema import (
    COLUMNS,
    DATE,
    IMAGE,
    TARGET,
    WEIGHT,
    by_name,
    check_same_columns,
    names_in,
    read_schema,
    schema_of,
)
from estimator_trainer.common.own_data.split_rows import BadRows, FileExamples
from estimator_trainer.common.own_data.splits import EVAL, find_files
from estimator_trainer.common.own_data.tables import cells, evidence, picture_column, preparation, raw_columns
from estimator_trainer.common.own_data.tables.encoding import encoded_features, make_encoder
from estimator_trainer.common.own_data.tables.facts import describe
from estimator_trainer.common.own_data.tables.files import SUFFIXES, open_table
from estimator_trainer.common.own_data.tables.rows import parts_of_table, places_in_table, read_rows
from estimator_trainer.common.own_data.tables.survey import has_values
from estimator_trainer.common.own_data.texts import tokens
from estimator_trainer.common.records import records
from estimator_trainer.hparams.build import HParams

INPUT_PATTERNS = tuple(f'*{suffix}' for suffix in SUFFIXES)
PARSED_ONCE = True
OWN_FOLDS = True
LACKS = ('image',)
_SPLITS = 'train|eval|val|valid|validation|dev|test|fold.*'  # Names of files that are splits whatever their columns.
raw_specs = raw_columns.raw_specs
from_raw = raw_columns.from_raw
input_parts = preparation.input_parts
cell_readers = raw_columns.cell_readers


def get_params() -> dict[str, Any]:
    return {
        'table_file': '',  # A file, or a directory of files named by their splits.
        'csv_file': '',  # The former name of table_file.
        'target': '',  # The column to predict, or several, as [a,b]; optional if the schema, or its name, tells.
        'schema': '',  # A JSON file, see docs/own_data.md.
        'eval_share': 0.2,  # Of the rows of a single file.
        'group': '',  # With folds: a column whose rows of one value are in one fold, such as those of a patient.
        'missing': [],  # Texts of missing cells, in addition to empty ones, NA, N/A, NaN, null, None, ? and the like.
        'decimal': '',  # point or comma: what decimals follow; inferred if a column tells.
        'dates': '',  # dmy or mdy: the order of dates such as 03/04/2024; inferred if a column tells.
        **tokens.get_params(),  # Of free text; min_count and max_vocabulary also apply to the values of a categorical column.
        'max_vocabulary': 10000,
        'max_bad_share': 0.0,  # Maximum share of invalid rows, which are skipped.
        'task': '',  # Set by the metadata.
        'num_classes': 0,  # Set by the metadata.
    }


def prepare(data_dir: str, params: HParams) -> None:
    """Converts the files to TFRecord files, once for each state of the files and of the hyper-parameters.

    With the metadata of a trained model, columns are of the kinds that it learned, whatever a new run would find.
    """
    check_range(params, 'eval_share', 0, 0.9)
    check_range(params, 'max_bad_share', 0, 1)
    tokens.check_params(params)
    if params.get('group') and not params.get('folds'):
        raise UsageError(f'group={params.group} is for folds: add --folds=5')
    evidence.check_given(params)
    schema, path = read_schema(params.schema, COLUMNS), _files(params).path
    if 'columns' in params.metadata and _is_read_otherwise(data_dir, params, schema):
        tf.logging.warning(
            '%s: a new run would read other columns, or some as other kinds; this run reads them as the model learned to.', path
        )
        schema = schema_of(params.metadata)
    convert_once(directory := _path(data_dir, params, schema), path, lambda: _converted(params, schema))
    found, learned = _scales(read_metadata(directory)), _scales(params.metadata)
    if any(found[name] != learned[name] for name in found.keys() & learned.keys()):
        with silenced():  # It would warn of the same.
            convert_once(_path(data_dir, params, schema, learned), path, lambda: _converted(params, schema, learned))


def metadata(data_dir: str, params: HParams) -> dict[str, Any]:
    """Returns the facts about the training rows.

    Returns:
      columns: a list of {'name', 'kind'}. Those of kind numeric have 'mean', 'std' and 'indicator', whether some are missing,
        and, unless written as programs do, the 'style'; those of kind date also 'order', 'origin', in days since 1970,
        'cycles' and, if all times have an offset or none has, 'has_zone'; those of kind categorical 'vocabulary'. The others
        are of kind text, target, id or weight.
      vocabulary_sizes: {'categorical': sizes}, with 1 for id 0; {} without such columns.
      moved_rows: see `SplitFile`, if a share of a single file is held out.
      task: classification, with class_names and num_classes; or regression, with target_mean and target_std; or, of several
        targets, several or multilabel, with 'targets', see `description.describe_targets`.
    """
    facts = read_metadata(_directory(data_dir, params))
    learned = {column['name']: column for column in params.metadata.get('columns', ())}
    columns = [_like_older(column, learned.get(column['name'], column)) for column in facts['columns']]
    return {**facts, 'columns': columns}


def _like_older(column, learned):
    """Returns a column with 'has_zone' only if the model has learned it, as older versions do not say it."""
    if 'has_zone' not in learned:
        return {name: value for name, value in column.items() if name != 'has_zone'}
    return {'has_zone': learned['has_zone'], **column}


def summary(data_dir: str, params: HParams) -> str:
    """Returns what was found in each column, and what was decided."""
    return read_summary(_directory(data_dir, params))


def read(split: str, data_dir: str, params: HParams) -> tf.data.Dataset:
    """Returns serialized examples with the cells by column: float for a number, bytes for text; without missing cells."""
    files, columns = _files(params), metadata(data_dir, params)['columns']
    check_same_columns(f'--hparams={files.name}={files.path}', params.metadata.get('columns', ()), columns)
    return records.read(_directory(data_dir, params), files.find(split).name_of(split))


def places(split: str, data_dir: str, params: HParams) -> Iterator[dict[str, Any]]:
    """Yields the file and the line, or the row, of each example of a split; also the picture, if a column names it."""
    file = _files(params).find(split).with_moved(metadata(data_dir, params))
    table, images = _open(file.path, params), of_kind(params.metadata['columns'], IMAGE)
    encode = make_encoder(table, params.metadata, _has_labels(file, table, params.metadata, params))
    yield from places_in_table(file, file.name_of(split), table, encode, images[0]['name'] if images else None)


def parse_batch(mode: str, params: HParams, serialized: tf.Tensor) -> tuple[dict[str, tf.Tensor], dict[str, tf.Tensor] | None]:
    """Returns the features 'numeric', 'categorical' and 'example_id', and the labels, of a batch.

    Each is present if such columns exist; see `parser.parse`. In PREDICT there are no labels.
    """
    return parser.parse(mode, params, serialized, encoded_features(params.metadata), are_rows=True)


def by_column(params: HParams, features: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
    """Returns the features under the names of the columns; see `named_columns.by_column`."""
    return named_columns.by_column(params, features, encoded_features(params.metadata))


def feature_columns(params: HParams) -> list[Any]:
    """Returns the tf.feature_columns of the features of `by_column`."""
    return named_columns.feature_columns(params, encoded_features(params.metadata))


def read_input(path: str, params: HParams) -> Iterator[tuple[dict[str, Any], bytes | RunError]]:
    """Yields ({'line': number}, record) for the rows of a table, with or without the target; an error for an invalid row."""
    table = _open(path, params)
    encode = _encoder(table, params.metadata, has_labels=False)
    yield from read_rows(table, encode, params.metadata, max_rows=_max_rows(params.metadata))


def read_labeled(path: str, params: HParams) -> Iterator[tuple[dict[str, Any], bytes | RunError]]:
    """Yields what `read_input` does, with the target and the weight; raises UsageError if there is no such column."""
    table = _open(path, params)
    required = [column['name'] for column in params.metadata['columns'] if column['kind'] in (TARGET, WEIGHT)]
    if missing := [name for name in required if name not in table.header]:
        raise UsageError(f'{path}: has no column {", ".join(missing)}, which evaluation requires')
    encode = _encoder(table, params.metadata, has_labels=True)
    yield from read_rows(table, encode, params.metadata, skips_empty=True, max_rows=_max_rows(params.metadata))


def _encoder(table, facts, has_labels):
    return picture_column.with_pictures(make_encoder(table, facts, has_labels), table, facts)


def _has_labels(file, table, facts, params):
    """Whether the examples of a file have labels: if all targets of one only to predict are missing, it is as without them."""
    names = [column['name'] for column in of_kind(facts['columns'], TARGET) if column['name'] in table.header]
    is_needed = not {params.train_split, *EVAL}.isdisjoint(file.splits)
    return is_needed or not names or has_values(table, names, cells.missing_values(facts.get('missing', ())))


def _max_rows(facts):
    return picture_column.MAX_ROWS if of_kind(facts['columns'], IMAGE) else None


def _open(path, params):
    return open_table(path, {column['name'] for column in params.metadata['columns']})


def _files(params):
    name = 'csv_file' if params.csv_file and not params.table_file else 'table_file'
    return find_files(name, params[name], SUFFIXES, params.eval_share, params.train_split, folds.divided(params))


def _directory(data_dir, params):
    """Returns the directory that `prepare` has written."""
    new = read_schema(params.schema, COLUMNS)
    if 'columns' not in params.metadata:
        return _path(data_dir, params, new)
    learned, scales = schema_of(params.metadata), _scales(params.metadata)
    tried = (_path(data_dir, params, schema, of_dates) for schema in (learned, new) for of_dates in (scales, None))
    return next(filter(records.is_written, tried), None) or _path(data_dir, params, new)


def _scales(facts):
    """Returns what the numbers that are stored of dates depend on: {name of the column: [its origin, its cycles]}."""
    return {one['name']: [one['origin'], [*one['cycles']]] for one in of_kind(facts.get('columns', ()), DATE)}


def _path(data_dir, params, schema, scales=None):
    names = ('eval_share', 'min_count', 'max_vocabulary', 'max_bad_share', 'missing', 'decimal', 'dates')
    (target, *others) = names_in(params.target) or ['']
    facts = [schema.content, params.train_split, params.target if others else target, *(params[name] for name in names)]
    facts += [*(['false first'] if others else []), *(['task of all rows'] if params.get('folds') else [])]
    facts += [*tokens.facts(params), *folds.facts(params), *cells.facts(params.missing)]
    facts += ['NFC'] if params.tokens == tokens.BYTES else []
    facts += [scales] if scales else []
    files = _files(params)
    facts += ['by class'] if folds.is_by_class(files.files, params.metadata) else []
    if 'image_column' not in params:
        return files.directory(data_dir, 'table', facts)
    facts += [f'image_dir={params.image_dir}'] if params.image_dir else []  # Which the metadata keeps.
    pictures = picture_column.state([file.path for file in files.files], params.image_column, params.image_dir)
    return files.directory(data_dir, 'image_list', [*facts, *pictures])


def _is_read_otherwise(data_dir, params, schema):
    """Whether a schema leads to other kinds of columns than those that the model of the metadata learned."""
    directory = _path(data_dir, params, schema)
    if records.is_written(directory):
        return schema_of(read_metadata(directory)) != schema_of(params.metadata)
    try:
        with silenced():
            return schema_of(_described(params, schema)[1]) != schema_of(params.metadata)
    except (UsageError, RunError):
        return True


def _scaled(column, scale):
    """Returns a column of dates with the origin and the cycles of a model."""
    if not scale or column['kind'] != DATE:
        return column
    origin, found = scale
    return {**column, 'mean': column['mean'] + column['origin'] - origin, 'origin': origin, 'cycles': found}


def _is_split(file, table, trained):
    """Whether a table is a split of the same columns; warns if it has few of them, as a sample_submission.csv has."""
    shared = {*filter(None, trained.header)} & {*table.header}
    if 2 * len(shared) > len(trained.header) or re.fullmatch(_SPLITS, file.splits[0]):
        return True
    tf.logging.warning('%s is ignored: it has few of the columns of %s.', table.path, trained.path)
    return False


def _described(params, schema):
    """Returns {file: table} of the splits, their metadata and its summary."""
    files = _files(params)
    trained = files.find(params.train_split)
    named = {*names_in(params.target), *by_name(schema.roles), *schema.given, params.group, params.get('image_column', '')}
    opened = {file: open_table(file.path, named) for file in files.files}
    tables = {file: table for file, table in opened.items() if _is_split(file, table, opened[trained])}
    images = [picture_column.find(opened[trained], params.image_column, params.image_dir)] if 'image_column' in params else []
    facts, text = describe(tables, trained, schema, params, folds.is_by_class(files.files, params.metadata), *images)
    return {file.with_moved(facts): table for file, table in tables.items()}, facts, text


def _converted(params, schema, scales=None):
    """Returns the metadata of the files, its summary, and their examples by splits; dates have given scales, of a model."""
    tables, facts, text = _described(params, schema)
    facts = {**facts, 'columns': [_scaled(column, (scales or {}).get(column['name'])) for column in facts['columns']]}
    examples = {}
    for file, table in tables.items():
        if not (has_labels := _has_labels(file, table, facts, params)):
            tf.logging.warning('%s: no row has a target: the split can be predicted, but not evaluated.', table.path)
        parts = functools.partial(parts_of_table, file, table, _encoder(table, facts, has_labels), _max_rows(facts))
        examples[file.splits] = FileExamples(file, parts, BadRows(params.max_bad_share))
    return facts, text, examples
