"""A user's own file beside a script that has the name of one of the packages."""
import os
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[3]
USES = {"nn": "import minigrad as mg; mg.nn.Linear(2, 3)", "models": "import minigrad as mg; mg.models.PRESETS", "study": "import models"}


def output(folder: pathlib.Path, *arguments: str) -> tuple[int, str]:
    done = subprocess.run([sys.executable, *arguments], cwd=folder, env={**os.environ, "PYTHONPATH": str(ROOT)}, check=False,
                          capture_output=True, text=True)
    return done.returncode, done.stderr.strip()


@pytest.mark.parametrize("use, file, is_refused", [
    ("nn", "study/__init__.py", False), ("models", "nn.py", True), *[pytest.param(*row, marks=pytest.mark.long) for row in (
        ("nn", "nn.py", True), ("nn", "models.py", False), ("models", "models/__init__.py", True),
        ("study", "nn/__init__.py", True), ("study", "study.py", False), ("models", "models/weights.txt", False))],
])
def test_one_line_says_what_shadows_what(tmp_path, use, file, is_refused):
    path = tmp_path / file
    path.parent.mkdir(exist_ok=True)
    path.write_text("", encoding="utf-8")
    code, errors = output(tmp_path, "-c", USES[use])
    name = file.split("/")[0].removesuffix(".py")
    line = f"{path} shadows minigrad's package '{name}'; rename it, or start Python in another folder"
    assert (code, errors.splitlines()[-1:]) == ((1, [f"ImportError: {line}"]) if is_refused else (0, []))
    if use == "models" and is_refused or file == "study.py":  # the command lives in it
        assert output(tmp_path, "-m", "minigrad", "info") == (2, f"minigrad: error: cannot start: {line}")
