"""Sabotages of what the claims of note 003 are about: each is to be noticed by the claim itself."""
from sabotage.base import Sabotage
from sabotage.edit import edit

CLAIMS = "tests/study/test_claims.py", "-k"


def noticed_by(row: str, rows: dict[str, tuple[str, str, str]]) -> list[Sabotage]:
    """Sabotages {what is broken: (place, old, new)}, see `edit`, which the claim of this row has to notice."""
    return [Sabotage(f"{row}: {name}", (*CLAIMS, f"{row}-note"), edit(place, old, new)) for name, (place, old, new) in rows.items()]


SABOTAGES = [
    *noticed_by("A7", {
        "values are not projected": ("nn.attention:Attention._project", "self.value if self.projects_value", "None if True"),
    }),
]
