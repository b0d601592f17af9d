"""Take the pictures of docs/study.md and of README.md in headless Chromium. The run is of `minigrad train --preset micro
--recipe nanogpt --steps 4000`; without one, its picture stays as it is:

    PYTHONPATH=.:tests python docs/study_pictures.py [runs/micro]
"""
import io
import pathlib
import sys
import tempfile
import time
from collections.abc import Callable

from PIL import Image

from browser import Browser
from minigrad.tracing.page import write
from study.page import pages
from study.page.attention import next_words
from study.page.trained import head_of_run

FOLDER = pathlib.Path(__file__).parent / "study"
HEIGHTS = {"wide": 900, "narrow": 844}
FILM, FRAMES, SECONDS = (1200, 720), 80, 8  # Play, about three times as fast
SLOWER = "const plain = setTimeout; window.setTimeout = (then, pause, ...given) => plain(then, 3 * pause, ...given)"


def untouched(browser: Browser) -> None:
    pass


def at_station(browser: Browser) -> None:
    """A station of the guided path, with its question still open."""
    browser.run("visit(1 + stations.findIndex(one => one.name === '5')); rest()")


def mistaken(browser: Browser) -> None:
    """The sum over the row is missing; one wrong number in detail."""
    browser.choose("#mistakes", 0)
    browser.run("const cell = arguments[0]; cell.scrollIntoView({block: 'center'}); cell.focus(); point(cell)",
                browser.cell("scores", "3,0", "gradient"))


def at_softmax(browser: Browser) -> None:
    """The backward step of softmax."""
    browser.run("goTo(1 + steps.findIndex(step => step.isBackward && step.name === 'weights'))")


def at_weights(browser: Browser) -> None:
    """Where a letter looks."""
    browser.run("const cell = arguments[0]; cell.scrollIntoView({block: 'center'}); cell.focus(); point(cell)",
                browser.cell("weights", "4,1"))


def picture_of(browser: Browser) -> Image.Image:
    return Image.open(io.BytesIO(browser.driver.get_screenshot_as_png())).convert("RGB")


def few_colours(image: Image.Image) -> Image.Image:
    return image.quantize(128, dither=Image.Dither.NONE)


def take(browser: Browser, path: pathlib.Path, touch: Callable[[Browser], None], name: str) -> None:
    """The page after it was touched, wide and narrow."""
    for size, height in HEIGHTS.items():
        browser.resize(size)
        browser.open(path)
        touch(browser)
        browser.driver.execute_async_script("setTimeout(arguments[0], 500)")  # what moves comes to rest
        image = picture_of(browser)
        image = image.crop((0, 0, image.width, min(height, image.height)))
        suffix = "" if size == "wide" else "_narrow"
        few_colours(image).save(FOLDER / f"{name}{suffix}.png", optimize=True)


def film(browser: Browser, path: pathlib.Path, name: str) -> None:
    """All steps, as Play shows them, in an animated PNG."""
    width, height = FILM
    browser.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {
        "width": width, "height": height, "deviceScaleFactor": 1, "mobile": False})
    browser.open(path)
    browser.run(SLOWER)  # so that there are pictures enough
    taken = [picture_of(browser)]
    browser.click("play")
    while browser.run("return isPlaying"):
        taken.append(picture_of(browser))
        time.sleep(0.1)
    some = taken[::len(taken) // 12]
    all_colours = Image.new("RGB", (width, height * len(some)))
    for i, image in enumerate(some):
        all_colours.paste(image, (0, height * i))
    palette = all_colours.quantize(192, dither=Image.Dither.NONE)
    first, *others = (taken[i * (len(taken) - 1) // (FRAMES - 1)].quantize(palette=palette, dither=Image.Dither.NONE)
                      for i in range(FRAMES))
    first.save(FOLDER / f"{name}.png", save_all=True, append_images=others, duration=1000 * SECONDS // FRAMES, loop=0,
               optimize=True)


def main(run: str = "") -> None:
    FOLDER.mkdir(exist_ok=True)
    words = pages.page_of_head(next_words())
    wanted = [("default", words, untouched), ("step", words, at_softmax), ("station", words, at_station),
              ("mistake", words, mistaken)]
    if run:
        wanted.append(("trained", pages.page_of_head(
            head_of_run(run, "function", layer=1, head=2), "Head 2 of layer 1",
            "As runs/micro computes it on 'function', in float64."), at_weights))
    browser = Browser()
    browser.driver.execute_cdp_cmd("Emulation.setScrollbarsHidden", {"hidden": True})
    try:
        with tempfile.TemporaryDirectory() as folder:
            for name, page, touch in wanted:
                path = pathlib.Path(folder) / f"{name}.html"
                take(browser, write(page.trace, path, extras=page.extras, backwards=page.backwards), touch, name)
            film(browser, pathlib.Path(folder) / "default.html", "play")
    finally:
        browser.quit()


if __name__ == "__main__":
    main(*sys.argv[1:])
