"""Figures for files."""
import os
import subprocess
import sys

SCRIPT = """
import os
from minigrad.drawing.figures import new_figure
figure, panels = new_figure(2, 3, 5, 4, squeeze=False)
figure.savefig("picture.png")
print(panels.shape, figure.get_size_inches(), os.environ["MPLBACKEND"])
"""


def test_a_backend_that_does_not_exist_does_no_harm(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(path or os.getcwd() for path in sys.path))
    monkeypatch.setenv("MPLBACKEND", "nonsense")
    process = subprocess.run([sys.executable, "-c", SCRIPT], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (process.stdout, process.stderr) == ("(2, 3) [5. 4.] nonsense\n", "")
    assert (tmp_path / "picture.png").read_bytes().startswith(b"\x89PNG")
