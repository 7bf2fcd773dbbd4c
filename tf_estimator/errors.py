"""The error that ends `python -m tf_estimator` with one line."""


class CommandError(Exception):
    """Args:
    message: for the user.
    code: the exit code.
    """

    def __init__(self, message: str, code: int = 1) -> None:
        super().__init__(message)
        self.code = code
