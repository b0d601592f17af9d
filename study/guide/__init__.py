"""The guide to backpropagation through attention: Markdown, a notebook, and the page of `minigrad study --guide`."""
import base64
import pathlib
import re

GUIDE = pathlib.Path(__file__).with_name("backprop_through_attention.md")
PAGE = """\
<!doctype html>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>{title}</title>
<style>
body {{ max-width: 60rem; margin: 2rem auto; padding: 0 1rem; font: 16px/1.5 system-ui, sans-serif }}
body {{ color: #1d2433; background: #fbfaf8 }}
a {{ color: #3a4fd0 }} img {{ max-width: 100% }} code {{ font-size: 0.875em }}
pre {{ overflow-x: auto; padding: 0.75rem; background: #f1f1f4 }}
table {{ display: block; overflow-x: auto; border-collapse: collapse }}
td, th {{ border: 1px solid #dcdfe6; padding: 0.25rem 0.75rem; text-align: left; vertical-align: top }}
</style>
{body}
"""


def write(folder: pathlib.Path) -> pathlib.Path:
    """Write the guide's page into a folder."""
    path = folder / f"{GUIDE.stem}.html"
    path.write_text(as_page(GUIDE), encoding="utf-8")
    return path


def as_page(document: pathlib.Path) -> str:
    """A document as docs/notebook.py has put it into HTML, with its pictures. Links lead to installed files;
    what is not installed has none."""
    def picture(found: re.Match) -> str:
        data = base64.b64encode((document.parent / found[1]).read_bytes()).decode()
        return f'src="data:image/png;base64,{data}"'

    def link(found: re.Match) -> str:
        target = (document.parent / found[1]).resolve()
        return f'<a href="{target.as_uri()}{found[2]}">{found[3]}</a>' if target.is_file() else found[3]

    body = document.with_suffix(".html").read_text(encoding="utf-8")
    title = re.search(r"<h1.*?>(.*?)</h1>", body)[1]
    body = re.sub(r'src="([^"]+)"', picture, body)
    body = re.sub(r'<a href="([^"#:]+)(#[^"]*|)">(.*?)</a>', link, body, flags=re.DOTALL)
    return PAGE.format(title=title, body=body)
