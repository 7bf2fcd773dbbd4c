"""The messages of tf.contrib.training.HParams, as hparam.proto of TensorFlow 1 defines them."""

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

_Field = descriptor_pb2.FieldDescriptorProto
# {name of a kind: its type, its number, that of its list}
_KINDS = {
    'int64': (_Field.TYPE_INT64, 1, 4),
    'float': (_Field.TYPE_FLOAT, 2, 5),
    'bytes': (_Field.TYPE_BYTES, 3, 6),
    'bool': (_Field.TYPE_BOOL, 7, 8),
}
_SCOPE = '.tensorflow.HParamDef'


def _describe():
    file = descriptor_pb2.FileDescriptorProto(name='tf_estimator/hparam.proto', package='tensorflow', syntax='proto3')
    definition = file.message_type.add(name='HParamDef')
    value = definition.nested_type.add(name='HParamType')
    value.oneof_decl.add(name='kind')
    for name, (kind, number, list_number) in _KINDS.items():
        items = definition.nested_type.add(name=f'{name.capitalize()}List')
        items.field.add(name='value', number=1, type=kind, label=_Field.LABEL_REPEATED)
        value.field.add(name=f'{name}_value', number=number, type=kind, oneof_index=0)
        of_list = {'type': _Field.TYPE_MESSAGE, 'type_name': f'{_SCOPE}.{items.name}'}
        value.field.add(name=f'{name}_list', number=list_number, oneof_index=0, **of_list)
    entry = definition.nested_type.add(name='HparamEntry', options={'map_entry': True})
    entry.field.add(name='key', number=1, type=_Field.TYPE_STRING)
    entry.field.add(name='value', number=2, type=_Field.TYPE_MESSAGE, type_name=f'{_SCOPE}.HParamType')
    of_map = {'type': _Field.TYPE_MESSAGE, 'type_name': f'{_SCOPE}.HparamEntry', 'label': _Field.LABEL_REPEATED}
    definition.field.add(name='hparam', number=1, **of_map)
    return file


_POOL = descriptor_pool.DescriptorPool()  # Of its own: programs may have the file, too.
_POOL.AddSerializedFile(_describe().SerializeToString())
_found = _POOL.FindMessageTypeByName('tensorflow.HParamDef')
_class_of = getattr(message_factory, 'GetMessageClass', None) or message_factory.MessageFactory(_POOL).GetPrototype
HParamDef = _class_of(_found)
