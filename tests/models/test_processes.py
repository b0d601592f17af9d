"""in_order: results in order, exceptions, and killed processes. (`faulthandler_timeout` ends a test that hangs.)"""
import itertools
import operator
import os

import pytest

from models.processes import ProcessLost, in_order

DIE_AMID_THE_RESULT = """
import os
from multiprocessing.connection import Connection
Connection._send = lambda self, data: (os.write(self.fileno(), data[:3]), os._exit(9))
"""


@pytest.mark.parametrize("processes", [1, 2])
def test_results_are_in_the_order_of_the_tasks(processes):
    tasks = ((number, (100_000 * (number % 3), [number])) for number in range(20))
    found = [(label, len(result), result[0] if result else None) for label, result in in_order(operator.mul, tasks, processes)]
    assert found == [(number, 100_000 * (number % 3), number if number % 3 else None) for number in range(20)]


def test_few_tasks_are_started_ahead():
    taken = itertools.count()
    results = in_order(abs, ((0, (next(taken),)) for _ in range(100)), 2)
    assert next(results) == (0, 0) and next(taken) <= 6
    results.close()


def test_exceptions_are_raised_in_the_parent():
    with pytest.raises(ZeroDivisionError, match="division by zero"):
        list(in_order(operator.truediv, [(0, (1, 1)), (1, (1, 0)), (2, (1, 1))], 2))


@pytest.mark.parametrize("last_words", ["import os; os._exit(9)", DIE_AMID_THE_RESULT])
def test_a_killed_process_raises(last_words):
    """The others, which are busy, are not waited for."""
    tasks = [(0, (last_words,)), *[(1, ("import time; time.sleep(10_000)",))] * 5]
    with pytest.raises(ProcessLost, match="a process was killed"):
        list(in_order(exec, tasks, 2))


def test_closing_ends_the_processes():
    results = in_order(exec, [(0, ("",)), *[(1, ("import time; time.sleep(10_000)",))] * 9], 2)
    next(results)
    results.close()


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="needs /proc")
def test_nothing_stays_open():
    list(in_order(abs, [(0, (-1,))], 2))  # starts the server that forks, which stays
    before = os.listdir("/proc/self/fd")
    with pytest.raises(TypeError) as caught:  # its traceback keeps the frames
        list(in_order(abs, [(0, ("",))], 2))
    assert os.listdir("/proc/self/fd") == before, caught
