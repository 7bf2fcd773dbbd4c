import tf_estimator

tf_estimator.enable(tf1=True)
import modeling
import run_classifier

config = modeling.BertConfig(100, 16, 2, 2, 32, max_position_embeddings=16)
model_fn = run_classifier.model_fn_builder(config, 2, None, 1e-3, 60, 6, False, False)


def input_fn(split, params):
    build = run_classifier.file_based_input_fn_builder
    return build(f'{split}.tf_record', 16, split == 'train', False)({'batch_size': 8})
