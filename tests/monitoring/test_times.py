"""The time of a step, by what it was spent on."""

from estimator_trainer.common.monitoring.times import CHECKPOINTS, EVALUATION, LOGGING, Times, to_text


def test_each_second_counts_once_for_the_innermost_part_from_the_first_line_of_the_log_on():
    clock = [100.0]

    def work(seconds):
        clock[0] += seconds

    times = Times(lambda: clock[0])
    work(50)  # Of the start, as all before the first line.
    with times.spent(LOGGING):
        work(3)
        assert times.log(1, 40.0) == {}
        work(1)
    work(20)
    with times.spent(CHECKPOINTS):
        work(2)
        with times.spent(EVALUATION):
            work(6)
        work(3)
    expected = {'computing': 150.0, 'input': 50.0, 'logging': 10.0, 'checkpoints': 50.0, 'evaluation': 60.0}
    assert times.log(101, 5.0) == expected  # Milliseconds of 100 steps.
    work(8)
    assert times.log(141, 4.0) == {**dict.fromkeys(expected, 0.0), 'computing': 100.0, 'input': 100.0}
    work(30)  # Until the end.
    assert times.describe()[0] == (
        'A step took 500 ms: 350 computing, 64.3 input, 7.14 logging, 35.7 checkpoints, 42.9 evaluation.'
    )


def test_little_is_left_out_and_much_that_is_not_computed_gets_a_cure():
    seconds = {'computing': 8.0, 'input': 0.0, 'logging': 0.05, 'checkpoints': 0.95, 'evaluation': 1.0}
    assert to_text(seconds, 1000) == ['A step took 10 ms: 8 computing, 0.95 checkpoints, 1 evaluation.']
    lines = to_text({**seconds, 'input': 2.0, 'logging': 1.0, 'checkpoints': 0.0, 'computing': 6.0}, 1000)
    assert [line.split(':')[0] for line in lines[1:]] == ['Input took 20% of the time', 'Logging took 10% of the time']
    assert 'parse_batch' in lines[1] and '--save_summary_steps' in lines[2]
    assert len(to_text({**seconds, 'input': 2.0}, 5000)) == 1  # Of 0.4 ms per step, little can be saved.


def test_a_short_training_has_no_line():
    times = Times()
    assert times.describe() == []
    times.log(1, 0.0)
    times.log(100, 0.0)
    assert times.describe() == []
    times.log(101, 0.0)
    assert len(times.describe()) >= 1
