import pytest

from minigrad.fast import IS_FAST

if IS_FAST:
    from minigrad.fast.compiling import compiled


@pytest.fixture
def captures(monkeypatch, kernels):
    """Grows by one whenever a step is captured."""
    made, capture = [], compiled.Capture
    monkeypatch.setattr(compiled, "Capture", lambda *arguments: made.append(1) or capture(*arguments))
    return made
