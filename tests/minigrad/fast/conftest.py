import pytest

import minigrad as mg


@pytest.fixture
def thread_counts():
    """A function that yields 1 and the number of cores, and sets the number of threads to each; it is restored at the end."""
    before = mg.get_num_threads()
    yield lambda: (mg.set_num_threads(count) or count for count in sorted({1, before}))
    mg.set_num_threads(before)
