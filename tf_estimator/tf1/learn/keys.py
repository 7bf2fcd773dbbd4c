"""Names of predictions, and kinds of problems."""


class PredictionKey:
    CLASSES, PROBABILITIES, LOGITS, LOGISTIC = 'classes', 'probabilities', 'logits', 'logistic'
    SCORES, TOP_K, GENERIC = 'scores', 'top_k', 'output'


class ProblemType:
    UNSPECIFIED, CLASSIFICATION, LINEAR_REGRESSION, LOGISTIC_REGRESSION = range(4)
