"""Take the pictures of docs/study.md in headless Chromium. The run is of `minigrad train --preset micro --recipe nanogpt
--steps 4000`:

    PYTHONPATH=.:tests python docs/study_pictures.py runs/micro
"""
import io
import pathlib
import sys
import tempfile
from collections.abc import Callable

from PIL import Image

from browser import Browser
from minigrad.tracing.page import write
from study.page import pages
from study.page.attention import DEFAULT
from study.page.trained import head_of_run

FOLDER = pathlib.Path(__file__).parent / "study"
HEIGHTS = {"wide": 900, "narrow": 844}


def untouched(browser: Browser) -> None:
    pass


def at_station(browser: Browser) -> None:
    """A station of the guided path, with its question still open."""
    browser.run("visit(5)")


def mistaken(browser: Browser) -> None:
    """The sum over the row is missing; one wrong number in detail."""
    browser.choose("#mistakes", 0)
    browser.run("const cell = arguments[0]; cell.scrollIntoView({block: 'center'}); cell.focus(); point(cell)",
                browser.cell("scores", "3,1", "gradient"))


def at_softmax(browser: Browser) -> None:
    """The backward step of softmax."""
    while "backward: Softmax" not in browser.text("#step-name"):
        browser.run("document.getElementById('next').click()")


def at_weights(browser: Browser) -> None:
    """Where a letter looks."""
    browser.run("const cell = arguments[0]; cell.scrollIntoView({block: 'center'}); cell.focus(); point(cell)",
                browser.cell("weights", "4,1"))


def take(browser: Browser, page: pages.Page, touch: Callable[[Browser], None], name: str) -> None:
    """The page after it was touched, wide and narrow."""
    with tempfile.TemporaryDirectory() as folder:
        path = write(page.trace, pathlib.Path(folder) / "page.html", extras=page.extras, backwards=page.backwards)
        browser.driver.execute_cdp_cmd("Emulation.setScrollbarsHidden", {"hidden": True})
        for size, height in HEIGHTS.items():
            browser.resize(size)
            browser.open(path)
            touch(browser)
            browser.driver.execute_async_script("setTimeout(arguments[0], 500)")  # what moves comes to rest
            image = Image.open(io.BytesIO(browser.driver.get_screenshot_as_png())).convert("RGB")
            image = image.crop((0, 0, image.width, min(height, image.height)))
            suffix = "" if size == "wide" else "_narrow"
            image.quantize(128, dither=Image.Dither.NONE).save(FOLDER / f"{name}{suffix}.png", optimize=True)


def main(run: str) -> None:
    FOLDER.mkdir(exist_ok=True)
    default = pages.page_of_head(DEFAULT)
    trained = pages.page_of_head(head_of_run(run, "function", layer=1, head=2), "Head 2 of layer 1",
                                 "As runs/micro computes it on 'function', in float64.")
    browser = Browser()
    try:
        for name, page, touch in (
                ("default", default, untouched), ("step", default, at_softmax), ("station", default, at_station),
                ("mistake", default, mistaken), ("trained", trained, at_weights)):
            take(browser, page, touch, name)
    finally:
        browser.quit()


if __name__ == "__main__":
    main(*sys.argv[1:])
