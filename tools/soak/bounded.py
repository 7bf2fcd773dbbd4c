"""A time limit for tools that might wait forever."""

import signal


def end_after(minutes):
    """Raises TimeoutError in this process after the given minutes."""

    def end(*unused):
        raise TimeoutError(f'not done after {minutes} minutes')

    signal.signal(signal.SIGALRM, end)
    signal.alarm(60 * minutes)
