"""An end for tools that would otherwise wait for something that never comes."""

import signal


def end_after(minutes):
    """Has the process raise a TimeoutError if it is still at work then."""

    def end(*unused):
        raise TimeoutError(f'not done after {minutes} minutes')

    signal.signal(signal.SIGALRM, end)
    signal.alarm(60 * minutes)
