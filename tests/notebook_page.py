"""What a notebook shows: the cells and the text of `_repr_html_`."""
import re
from html.parser import HTMLParser


class Page(HTMLParser):
    """The cells of a page, (text, background), and its text; every element must be closed."""

    def __init__(self, text: str):
        super().__init__()
        self.open, self.cells, self.text, self.tags = [], [], "", set()
        self.feed(text)
        assert not self.open

    def handle_starttag(self, tag, attributes):
        self.open.append(tag)
        self.tags.add(tag)
        if tag == "td":
            (colour,) = re.findall("background:#([0-9a-f]{6})", dict(attributes)["style"])
            self.cells.append(["", tuple(bytes.fromhex(colour))])

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data + "\n"
        if self.open[-1] == "td":
            self.cells[-1][0] += data
