"""A wheel has all files of the packages."""
import configparser
import pathlib

ROOT = pathlib.Path(__file__).parents[1]
PACKAGES = "minigrad", "nn", "models", "study"


def test_setup_cfg_names_every_file_that_is_not_python():
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg", encoding="utf-8")
    patterns = [pattern.strip() for pattern in setup["options.package_data"]["*"].split(",")]
    packages = [file.parent for name in PACKAGES for file in (ROOT / name).rglob("__init__.py")]
    named = {path for package in packages for pattern in patterns for path in package.glob(pattern)}
    files = {path for name in PACKAGES for path in (ROOT / name).rglob("*")
             if path.is_file() and path.suffix not in (".py", ".pyc") and not path.name.startswith(".")}
    assert files - named == set()
