"""The two errors that end a run with one line instead of a traceback."""


class UsageError(Exception):
    """The command line, a hyper-parameter or a plug-in is wrong. The message names it and the cure; exit code 2."""


class RunError(Exception):
    """The data, a checkpoint or the disk stops the run. The message names the file and the cure; exit code 1."""
