"""The packages nn, models and study, which stand beside minigrad under names that a user's own file may have."""
import importlib.util
import os

PACKAGES = "nn", "models", "study"  # each imports those before it
BESIDE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))


def refuse_shadows(package: str) -> None:
    """ImportError if Python finds another file or folder under the name of this package or of one that it imports.

    They import each other by these names, so another module of that name cannot be loaded beside them.
    """
    for name in PACKAGES[: PACKAGES.index(package) + 1]:
        spec = importlib.util.find_spec(name)
        found = spec.origin or str(*spec.submodule_search_locations or ()) if spec else None
        if found and os.path.realpath(found) != os.path.join(BESIDE, name, "__init__.py"):
            raise ImportError(f"{found} shadows minigrad's package {name!r}; rename it, or start Python in another folder")
