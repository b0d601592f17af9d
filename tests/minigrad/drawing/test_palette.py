"""One palette: pictures, notebooks and the page have the same colours."""
import itertools
import pathlib
import re

import numpy as np
import pytest

import minigrad
from minigrad.drawing import figures

CSS = (pathlib.Path(minigrad.__file__).parent / "tracing/page/page.css").read_text()


@pytest.mark.parametrize("name, colours", [
    ("positive", [figures.POSITIVE, figures.DARK_POSITIVE]), ("negative", [figures.NEGATIVE, figures.DARK_NEGATIVE]),
])
def test_the_page_has_the_same_colours(name, colours):
    found = [tuple(map(int, rgb.split())) for rgb in re.findall(rf"--{name}: (\d+ \d+ \d+);", CSS)]
    assert found == colours  # light, then dark


def test_maps_end_in_the_palettes_colours():
    def shown(colour_map, share):
        return tuple(round(255 * part) for part in colour_map(share)[:3])

    ends = [shown(colours, share) for colours in (figures.signed(), figures.sizes()) for share in (0.0, 1.0)]
    assert ends == [figures.NEGATIVE, figures.POSITIVE, figures.WHITE, figures.STRONGEST]
    assert shown(figures.sizes(), float("nan")) == shown(figures.signed(), float("nan")) == figures.HIDDEN


SEEN = {  # linear RGB as seen with one kind of cones missing (Machado, Oliveira and Fernandes 2009)
    "by all cones": np.eye(3),
    "without red": [[0.152, 1.053, -0.205], [0.115, 0.786, 0.099], [-0.004, -0.048, 1.052]],
    "without green": [[0.367, 0.861, -0.228], [0.280, 0.673, 0.047], [-0.012, 0.043, 0.969]],
    "without blue": [[1.256, -0.077, -0.179], [-0.078, 0.931, 0.148], [0.005, 0.691, 0.304]],
}
TO_XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])


def lab(linear: np.ndarray) -> np.ndarray:
    """CIE Lab, in which a difference of 2 can just be seen."""
    x, y, z = np.cbrt(TO_XYZ @ linear / TO_XYZ.sum(1))
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


@pytest.mark.parametrize("how", SEEN)
def test_curves_can_be_told_apart(how):
    linear = [(np.array([int(colour[i:i + 2], 16) for i in (1, 3, 5)]) / 255) ** 2.2 for colour in figures.CURVES]
    seen = [lab((SEEN[how] @ rgb).clip(0, 1)) for rgb in linear]
    assert min(np.linalg.norm(a - b) for a, b in itertools.combinations(seen, 2)) > 15
    assert len(set(figures.MARKERS)) == len(figures.MARKERS) == len(figures.CURVES)
