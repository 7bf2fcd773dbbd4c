"""tf.contrib.distribute: strategies with the arguments that they had."""

import tensorflow.compat.v1 as tf


def MirroredStrategy(
    devices=None,
    num_gpus=None,
    num_gpus_per_worker=None,
    cross_device_ops=None,
    auto_shard_dataset=False,  # Means several machines.
    cross_tower_ops=None,
):
    count = num_gpus if num_gpus is not None else num_gpus_per_worker
    if devices is None and count:
        devices = [f'/device:GPU:{i}' for i in range(count)]
    elif devices is None and count == 0:
        devices = ['/device:CPU:0']
    return tf.distribute.MirroredStrategy(devices, cross_device_ops or cross_tower_ops)


def CollectiveAllReduceStrategy(num_gpus_per_worker=0, **unused_options):
    return tf.distribute.experimental.MultiWorkerMirroredStrategy()


def ParameterServerStrategy(num_gpus_per_worker=0, **unused_options):
    return tf.distribute.experimental.ParameterServerStrategy()


def AllReduceCrossDeviceOps(all_reduce_alg='nccl', num_packs=1, **unused_options):
    kinds = {'nccl': tf.distribute.NcclAllReduce, 'hierarchical_copy': tf.distribute.HierarchicalCopyAllReduce}
    return kinds[all_reduce_alg](num_packs)


AllReduceCrossTowerOps = AllReduceCrossDeviceOps
