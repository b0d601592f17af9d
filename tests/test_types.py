"""Programs of users, in tests/typed, and the packages as pyright and mypy see them."""
import inspect
import json
import os
import pathlib
import subprocess
import sys

import pytest

import minigrad

mypy = pytest.importorskip("mypy")
pyright = pytest.importorskip("pyright")

ROOT = pathlib.Path(__file__).parent.parent
PROGRAMS = sorted((ROOT / "tests/typed").glob("*.py"))


def run(folder: pathlib.Path, *arguments: str) -> tuple[int, str]:
    """Python's exit code and what it prints in this folder, where the packages are found as if they were installed."""
    done = subprocess.run([sys.executable, *arguments], cwd=folder, env={**os.environ, "PYTHONPATH": str(ROOT)}, text=True,
                          encoding="utf-8", stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    return done.returncode, done.stdout


def asked_pyright(folder: pathlib.Path, *arguments: str) -> dict:
    return json.loads(run(folder, "-m", "pyright", "--outputjson", "--pythonpath", sys.executable, *arguments)[1])


@pytest.fixture(scope="module")
def users_folder(tmp_path_factory) -> pathlib.Path:
    """A folder with the programs."""
    folder = tmp_path_factory.mktemp("users")
    for program in PROGRAMS:
        (folder / program.name).write_text(program.read_text(encoding="utf-8"), encoding="utf-8")
    (folder / "pyrightconfig.json").write_text('{"typeCheckingMode": "strict"}', encoding="utf-8")
    return folder


def test_pyright_strict_finds_nothing_in_the_programs_of_users(users_folder):
    found = asked_pyright(users_folder)
    assert found["summary"]["filesAnalyzed"] == len(PROGRAMS) >= 10
    errors = [f"{pathlib.Path(row['file']).name}:{row['range']['start']['line'] + 1}: {row['message']}"
              for row in found["generalDiagnostics"]]
    assert not errors, "\n".join(errors)


def test_mypy_strict_finds_nothing_in_the_programs_of_users(users_folder):
    code, said = run(users_folder, "-m", "mypy", "--strict", *(program.name for program in PROGRAMS))
    assert code == 0, said


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.stem)
def test_the_programs_run(program, tmp_path):
    code, said = run(tmp_path, str(program))
    assert code == 0, said


def test_mypy_finds_nothing_in_the_packages(tmp_path):
    packages = [word for package in ("minigrad", "nn", "models", "study") for word in ("-p", package)]
    code, said = run(ROOT, "-m", "mypy", "--cache-dir", str(tmp_path), *packages)
    assert code == 0, said


@pytest.mark.parametrize("package", ["nn", "models"])
def test_what_a_package_exports_has_a_known_type_and_a_docstring(package, users_folder):
    found = asked_pyright(users_folder, "--verifytypes", package, "--ignoreexternal")["typeCompleteness"]
    unknown = [symbol["name"] for symbol in found["symbols"] if symbol["isExported"] and not symbol["isTypeKnown"]]
    assert found["completenessScore"] >= 0.98, unknown
    silent = [said["message"] for symbol in found["symbols"] if symbol["name"].count(".") == 1  # a name of the package
              for said in symbol.get("diagnostics", ()) if "docstring" in said["message"]]
    assert silent == []


def test_pyright_knows_the_type_of_every_public_name(users_folder):
    """Those of minigrad, with all that their classes have; of its inner files, pyright counts each function too."""
    found = asked_pyright(users_folder, "--verifytypes", "minigrad", "--ignoreexternal")["typeCompleteness"]["symbols"]
    classes = {f"{base.__module__}.{base.__qualname__}" for value in vars(minigrad).values() if inspect.isclass(value)
               for base in value.__mro__}
    known = {symbol["name"]: symbol["isTypeKnown"] for symbol in found
             if symbol["name"].rpartition(".")[0] in {"minigrad", *classes}}
    assert len(known) > 500
    assert [name for name, is_known in known.items() if not is_known] == []
