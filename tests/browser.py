"""Headless Chromium, for tests of pages: what they show, and how they respond."""
import importlib.util
import json
import pathlib
import shutil

import numpy as np

CELL = '[data-tensor="{}"][data-index="{}"][data-kind="{}"]'
SIZES = {"wide": (1280, 800), "narrow": (390, 844)}


def missing() -> str:
    """What is missing to run a browser; empty if nothing is."""
    packages = [name for name in ("selenium", "axe_playwright_python") if importlib.util.find_spec(name) is None]
    programs = {"Chromium": chromium(), "its chromedriver": shutil.which("chromedriver")}
    return " and ".join([name for name, path in programs.items() if path is None] + packages)


def chromium() -> str | None:
    return next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


class Browser:
    """Chromium with one page open."""

    def __init__(self):
        from selenium import webdriver  # an extra

        options = webdriver.ChromeOptions()
        options.binary_location = chromium()
        for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"):
            options.add_argument(argument)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        service = webdriver.ChromeService(shutil.which("chromedriver"))
        self.driver = webdriver.Chrome(options=options, service=service)
        # As if its window always had the focus:
        self.driver.execute_cdp_cmd("Emulation.setFocusEmulationEnabled", {"enabled": True})
        self.resize("wide")

    def quit(self) -> None:
        self.driver.quit()

    def resize(self, size: str) -> None:
        width, height = SIZES[size]
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {
            "width": width, "height": height, "deviceScaleFactor": 1, "mobile": size == "narrow"})

    def scheme(self, scheme: str) -> None:
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {
            "features": [{"name": "prefers-color-scheme", "value": scheme}]})

    def open(self, path: pathlib.Path) -> None:
        if left := [*self.errors(), *self.requests()]:
            raise AssertionError(f"the page before {path.name} has left {left}")
        self.driver.get(path.as_uri())

    def errors(self) -> list[str]:
        """What the page has written to the console since the last call."""
        return [entry["message"] for entry in self.driver.get_log("browser")]

    def requests(self) -> list[str]:
        """The addresses that pages have requested since the last call, other than files; not what Chromium asks for itself."""
        messages = [json.loads(entry["message"])["message"] for entry in self.driver.get_log("performance")]
        sent = [m["params"] for m in messages if m["method"] == "Network.requestWillBeSent"]
        urls = [one["request"]["url"] for one in sent if one["documentURL"].startswith(("file:", "blob:"))]
        return [url for url in urls if not url.startswith(("file:", "data:", "about:", "blob:"))]

    def run(self, script: str, *arguments):
        return self.driver.execute_script(script, *arguments)

    def wait_for(self, selector: str) -> None:
        """Until the page has such an element."""
        from selenium.webdriver.support.wait import WebDriverWait

        WebDriverWait(self.driver, 60).until(lambda driver: driver.find_elements("css selector", selector))

    def cells(self) -> dict[tuple[str, str], dict[str, dict]]:
        """{(tensor, kind): {index: {text, value, wrong, is_input}}} of all numbers on the page."""
        rows = self.run("""
            return [...document.querySelectorAll("[data-tensor]")].map(cell => {
              const {tensor, index, kind, value} = cell.dataset, isInput = cell.tagName === "INPUT";
              return [tensor, kind, index, {text: isInput ? cell.value : cell.textContent, value, is_input: isInput,
                wrong: cell.closest("td").classList.contains("wrong")}];
            })""")
        found = {}
        for tensor, kind, index, cell in rows:
            assert index not in found.setdefault((tensor, kind), {}), f"{tensor} {kind} {index} appears twice"
            found[tensor, kind][index] = cell
        return found

    def arrays(self, field: str = "value") -> dict[tuple[str, str], np.ndarray]:
        """{(tensor, kind): its numbers, or another field of `cells`} as arrays."""
        found = {}
        for key, cells in self.cells().items():
            places = [tuple(map(int, filter(None, index.split(",")))) for index in cells]
            found[key] = np.zeros([max(axis) + 1 for axis in zip(*places)], dtype=float if field == "value" else bool)
            for place, cell in zip(places, cells.values()):
                found[key][place] = cell[field]
        return found

    def cell(self, tensor: str, index: str, kind: str = "value"):
        return self.driver.find_element("css selector", CELL.format(tensor, index, kind))

    def focus(self, tensor: str, index: str, kind: str = "value") -> str:
        """Move to a cell, and return what the page says of it."""
        self.run("openBox(arguments[0]); arguments[0].focus()", self.cell(tensor, index, kind))
        return self.text("#number")

    def click(self, name: str) -> None:
        self.run("document.getElementById(arguments[0]).click()", name)

    def type(self, tensor: str, index: str, text: str, *, then: str = "\ue007") -> None:
        """Replace a number, and press Enter."""
        self.focus(tensor, index)
        self.cell(tensor, index).send_keys("\ue009a\ue000", text, then)

    def choose(self, selector: str, value) -> None:
        """Choose an option of a select, or fill in a field."""
        self.run("""
            const field = document.querySelector(arguments[0]);
            field.value = arguments[1];
            field.dispatchEvent(new Event("change"));""", selector, str(value))

    def text(self, selector: str) -> str:
        return self.run("return document.querySelector(arguments[0]).innerText", selector)

    def accessibility(self) -> list[str]:
        """The serious and critical violations that axe-core finds."""
        folder = pathlib.Path(importlib.util.find_spec("axe_playwright_python").origin).parent
        self.run((folder / "axe.min.js").read_text(encoding="utf-8") + "; window.axe = axe;")
        violations = self.driver.execute_async_script("""
            const done = arguments[arguments.length - 1];
            const failed = error => [{impact: "critical", id: String(error), nodes: []}];
            axe.run().then(result => done(result.violations), error => done(failed(error)));""")
        return [f"{v['id']}: {v['help']}: {[node['html'][:200] for node in v['nodes'][:3]]}" for v in violations
                if v["impact"] in ("serious", "critical")]
