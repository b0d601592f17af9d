"""`minigrad notes`: its table, document and exit codes, on made-up claims and a few real ones."""
import dataclasses
import functools
import pathlib
import re

import pytest

import minigrad as mg
import nn
import nn.functional as F
from minigrad.drawing.figures import new_figure
from refusals import one_line
from study.notes import CLAIMS, Claim, Refuted, document, plots, report, training
from study.notes.claims import FALSE, TRUE, claims_of, require
from study.notes.contents import NOTES

CHEAP = ["A2", "P1", "N5"]  # in the notes' order
DOCUMENT = document.ROOT / "study/notes/lecture_notes.md"
REWRITE = "run `minigrad notes --row ROW --write` for the rows that changed"


def water_is_wet():
    """Water
    is | wet."""
    return "100 % of | it"


def misprint():
    """A misprint."""
    return "1.0 instead of 2.0"


def stones_float():
    """Stones float."""
    require(False, "none of 3 floated")


def crash():
    """A claim that cannot be checked."""
    raise ZeroDivisionError("by zero")


WET = Claim("A2", "000", TRUE, water_is_wet, section="Self-Attention", formula="w | et", ours="nn.Water(1)",
            code="nn/attention.py:Attention, nn/init.py", also=("003: Self-attention", "002", "000: Attention"), formerly=("A7", "M3"))
CONDITIONAL = Claim("A10", "001", "true if measured", water_is_wet)
MISPRINT = Claim("E1", "000", FALSE, misprint, section="Preliminaries", formula="1 = 2")
FLOAT = Claim("C5", "004", TRUE, stones_float, section="Transformers")
CRASH = Claim("L1", "003", TRUE, crash, section="Attention")


@pytest.fixture(autouse=True)
def own_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def made_up(monkeypatch):
    """A function that replaces all claims."""
    return lambda *claims: monkeypatch.setattr(report, "CLAIMS", list(claims))


@pytest.fixture
def few_pictures(monkeypatch):
    """Only an empty picture, for A2 and E1, and one that fails."""
    def empty():
        """A picture."""
        return new_figure(1, 1, 1, 1)[0]

    def fail():
        """Nothing."""
        raise AssertionError("this picture is not asked for")

    monkeypatch.setattr(plots, "PICTURES", {"positions": (empty, ("A2", "E1")), "other": (fail, ("C5",))})


@pytest.fixture
def run(run):
    return functools.partial(run, "notes")


def test_outcomes():
    outcome = report.check(WET)
    assert (outcome.holds, outcome.verdict, outcome.finding) == (True, "true", "100 % of | it")
    assert outcome.seconds >= 0
    outcome = report.check(FLOAT)
    assert (outcome.holds, outcome.verdict, outcome.finding) == (False, "REFUTED", "none of 3 floated")
    assert report.check(CRASH).finding == "ZeroDivisionError: by zero" and not report.check(CRASH).holds


def test_a_difference_of_zero_is_exact():
    found = "a within 0e+00; b within 0. c within 0.5, d (within 0e+00), e within 1e-16, f differs by 0e+00"
    assert report.check(dataclasses.replace(WET, check=lambda: found)).finding == (
        "a exactly; b exactly. c within 0.5, d (exactly), e within 1e-16, f differs by 0")


def test_training_is_recorded():
    recipe = training.Recipe("Adam", 300, 3e-3, 32)
    seeds_of = {recipe: {0, 1}, dataclasses.replace(recipe, lr=0.01): {0, 1}, dataclasses.replace(recipe, optimizer="SGD"): {0}}
    assert training.in_words({}) == ""
    assert training.in_words(seeds_of) == (
        "Trained with Adam: 300 steps at a rate of 0.003 on batches of 32, 300 steps at a rate of 0.01 on batches of 32; 2 seeds "
        "each. SGD: 300 steps at a rate of 0.003 on batches of 32; 1 seeds each")

    def train():
        """It trains."""
        for lr in (0.1, 0.2, 0.1):
            training.after_fit(lambda: nn.Linear(2, 2), lambda generator: (generator.random((3, 2)).astype("f"), [0, 1, 1]),
                               lambda *_: 0.0, 1, lr, lambda model, x, y: F.cross_entropy(model(x), y))
        return "it learns"

    outcome = report.check(dataclasses.replace(WET, check=train))
    assert outcome.training.endswith("1 steps at a rate of 0.1 on batches of 3, 1 steps at a rate of 0.2 on batches of 3; 5 seeds each")
    assert report.check(WET).training == ""


def test_claims_are_registered_and_require_refutes():
    count = len(CLAIMS)
    try:
        assert claims_of("000")("Z1", "", FALSE)(misprint) is misprint
        assert CLAIMS[-1] == Claim("Z1", "000", FALSE, misprint) and CLAIMS[-1].name == "misprint"
    finally:
        del CLAIMS[count:]
    require(True, "never said")
    with pytest.raises(Refuted, match="this was found"):
        require(False, "this was found")


def test_select_keeps_the_notes_order(made_up):
    later = Claim("M1", "000", TRUE, water_is_wet, section="Self-Attention")
    made_up(WET, FLOAT, CONDITIONAL, later, MISPRINT, CRASH)
    assert report.select() == [MISPRINT, WET, later, CONDITIONAL, CRASH, FLOAT]
    assert report.select(["e1", "A10"]) == [MISPRINT, CONDITIONAL]
    assert report.select(["M3", "A7"]) == [WET]
    assert report.select(notes=["4", "000"]) == [MISPRINT, WET, later, FLOAT]
    with pytest.raises(ValueError, match="there is no row A3; there are L1, A2, A10, M1, C5, E1"):
        report.select(["A2", "A3", "Z9"])


def test_table_of_claims_that_hold(run, made_up):
    made_up(MISPRINT, WET, CONDITIONAL)
    code, out, err = run()
    lines = out.splitlines()
    assert (code, err) == (0, "")
    assert lines[0].split() == ["row", "note", "verdict", "finding", "seconds"] and set(lines[1]) == {"-"}
    assert [line for line in lines if line.startswith("note")] == [
        "note 000: Preliminaries", "note 000: Self-Attention", "note 001: without a section"]
    assert [line.split()[:2] for line in lines[4::3]] == [["E1", "000"], ["A2", "000"], ["A10", "001"]]
    assert "false as printed" in lines[4] and "100 % of | it" in lines[7]
    assert lines[-1] == "3 claims: 1 true, 1 true under a condition, 1 false as printed"


def test_table_of_a_note(run, made_up):
    made_up(WET, FLOAT, MISPRINT)
    out = run("--note", "3", "004")[1]
    assert "REFUTED" in out and "A2   000" not in out
    assert out.endswith("1 claims: 0 true, 0 true under a condition, 0 false as printed\n"
                        "also stated in note 003: A2 (note 000), water is wet\n")
    assert "also stated" not in run("--note", "000")[1]


def test_long_cells_are_wrapped(made_up):
    long = report.Outcome(WET, True, "many words " * 20, 1.0)
    lines = report.as_line(long).splitlines()
    assert len(lines) > 3 and max(map(len, lines)) <= len(report.header().splitlines()[1])
    assert " ".join(lines).split()[3:].count("many") == 20


def test_refuted_claims_end_in_one_line(run, made_up, few_pictures):
    made_up(WET, FLOAT, CRASH)
    code, out, err = run("--write", "notes.md", "--plot", "pictures")
    assert (code, err) == (1, "minigrad: error: refuted: L1 (note 003), C5 (note 004)\n")
    assert "REFUTED" in out and "none of 3 floated" in out and "ZeroDivisionError: by zero" in out
    assert not pathlib.Path("notes.md").exists() and not list(pathlib.Path("pictures").iterdir())


def test_document(run, made_up, few_pictures, monkeypatch):
    monkeypatch.delitem(plots.PICTURES, "other")
    made_up(MISPRINT, WET, CONDITIONAL)
    code, out, _ = run("--plot", "here/notes", "--write", "here/notes.md")
    assert code == 0 and out.endswith("here/notes/positions.png\nhere/notes.md\n")
    text = pathlib.Path("here/notes.md").read_text()
    assert "| [Note 000](#note-000): Transformers | 2 | 1 | 0 | 1 |\n" in text and "| all | 3 | 1 | 1 | 1 |\n" in text
    assert "| Preliminaries |  | [E1](#e1) misprint |\n" in text and "| Implementation | empty in the note |  |\n" in text
    assert "### Self-Attention\n\n| row | the note | here | verdict |\n| --- |" in text
    wet = next(line for line in text.splitlines() if '<a id="a2">' in line)
    assert "test_notes.py) | Water is \\| wet.<br>`w \\| et` | `nn.Water(1)`<br>[" in wet
    assert "nn/attention.py: Attention](" in wet and "[nn/init.py](" in wet and "**true**: 100 % of \\| it" in wet
    (link,) = (link for link in links_of(wet) if link.endswith("init.py"))
    assert pathlib.Path("here", link).samefile(document.ROOT / "nn/init.py")
    assert "### Attention\n\nAlso stated here, covered under: [A2](#a2) water is wet.\n" in text
    assert "### Self-attention\n\nAlso stated here, covered under: [A2](#a2) water is wet (note 000).\n" in text
    assert "### Without a section\n\nAlso stated here, covered under: [A2](#a2) water is wet (note 000).\n" in text
    assert "| A: Attention | [A2](#a2), A7 (now [A2](#a2)), [A10](#a10) |\n" in text and "| M: " in text
    assert "![positions](notes/positions.png)" in text
    assert pathlib.Path("here/notes/positions.png").read_bytes().startswith(b"\x89PNG")
    assert run("--write")[0] == 0  # without pictures it shows none
    assert "## Pictures" not in pathlib.Path("study/notes/lecture_notes.md").read_text()


def test_a_document_keeps_the_rows_that_are_not_run(run, made_up, few_pictures):
    path, trained = pathlib.Path("notes.md"), training.Recipe("Adam", 300, 3e-3, 32)

    def train():
        """It trains: a | b."""
        training.SEEDS[trained] = {0, 1}
        return "**x** | y<z: 1"

    others = [dataclasses.replace(CONDITIONAL, check=train), MISPRINT]
    made_up(WET, *others)
    assert run("--write", path)[0] == 0
    before = path.read_text()
    dried = dataclasses.replace(WET, check=lambda: "10 % of | it")
    dried.check.__doc__, dried.check.__name__ = water_is_wet.__doc__, water_is_wet.__name__
    made_up(dried, *others)
    code, out, _ = run("--row", "A2", "--write", path)
    assert code == 0 and "E1" not in out and path.read_text() == before.replace("100 % of", "10 % of") != before
    assert run("--note", "000", "--write", path)[0] == 0 and path.read_text() == before.replace("100 % of", "10 % of")
    for changed in (dataclasses.replace(MISPRINT, verdict=TRUE), dataclasses.replace(MISPRINT, row="E3")):
        made_up(dried, others[0], changed)
        code, out, err = run("--row", "A2", "--write", path)
        assert (code, out) == (2, "") and err == (
            f"minigrad: error: notes.md has no finding for {changed.row} with the verdict {changed.verdict!r}; write this row "
            "too, or all of them, without --row and --note\n")


def links_of(text: str) -> set[str]:
    return set(re.findall(r"\]\(([^)\s]+)\)", text))


def test_links_in_the_document_work():
    text = DOCUMENT.read_text()
    anchors, links = set(re.findall(r'<a id="([^"]+)">', text)), links_of(text)
    assert len(links) > 150 and {link.partition("#")[0] for link in links} > {"", "lecture_notes/depth.png"}
    for link in links:
        file, _, place = link.partition("#")
        if not file:
            assert place in anchors, f"nothing is called {link}; {REWRITE}"
        else:
            assert (DOCUMENT.parent / file).is_file(), f"{link} leads nowhere; {REWRITE}"


def test_the_document_has_the_current_claims():
    """Everything but the measurements."""
    outcomes = document.kept(DOCUMENT, report.select())
    assert document.as_markdown(outcomes, plots.legends(), "lecture_notes", "../..") == DOCUMENT.read_text(), REWRITE


def is_there(place: str) -> bool:
    """Does "nn/attention.py:Attention" exist?"""
    path, _, name = place.strip().partition(":")
    source = (document.ROOT / path).read_text()
    return all(re.search(rf"^\s*(class|def) {part}\b|^{part}\b", source, re.MULTILINE) for part in name.split(".") if part)


def test_claims_are_complete_and_their_places_exist():
    missing = [claim.row for claim in CLAIMS if not (claim.section and claim.formula and claim.ours and claim.code)]
    assert not missing, f"without section, formula, spelling or code: {missing}"
    lost = [(claim.row, place) for claim in CLAIMS for place in claim.code.split(",") if not is_there(place)]
    lost += [(claim.row, *place) for claim in CLAIMS for place in claim.places if place[1] not in NOTES[place[0]].sections]
    assert not lost, f"these places are not there: {lost}"
    rows = [row for claim in CLAIMS for row in (claim.row, *claim.formerly)]
    assert len(rows) == len(set(rows)), f"twice: {sorted(row for row in set(rows) if rows.count(row) > 1)}"
    assert {claim.note for claim in CLAIMS} == NOTES.keys()


def test_real_rows(run):
    code, out, _ = run("--row", *CHEAP)
    assert code == 0 and [line[:11] for line in out.splitlines() if line[:1].strip()] == [f"{row}: note 00" for row in CHEAP]


def test_rows_in_full(run, made_up, few_pictures):
    made_up(MISPRINT, WET, CONDITIONAL)
    code, out, _ = run("--row", "A2", "E1")
    misprint, wet = out.split("A2: ")
    assert code == 0 and wet.startswith('note 000, Transformers, section "Self-Attention"\n')
    for line in ("  it says   Water is | wet.\n  formula   w | et\n  here      nn.Water(1)\n  verdict   true\n",
                 "  finding   100 % of | it (0.00 s)\n", "  picture   `minigrad notes --row A2 --plot` draws positions\n",
                 "  see       nn/attention.py:Attention, nn/init.py; study/notes/lecture_notes.md#a2; the claim", f"_notes.py:{WET.line}\n",
                 '  also in   note 003, "Self-attention"; note 002; note 000, "Attention"\n', "  formerly  A7, M3\n"):
        assert line in wet
    assert "  verdict   false as printed\n" in misprint and not {"here", "also", "formerly"} & {*misprint.split()}
    assert "\n\n" not in out and run("--row", "m3")[1].startswith("A2: ")
    pathlib.Path("study/notes/lecture_notes").mkdir(parents=True)
    pathlib.Path("study/notes/lecture_notes/positions.png").touch()
    assert "  picture   study/notes/lecture_notes/positions.png\n" in run("--row", "A2")[1]


def test_pictures_of_rows(run, made_up, few_pictures):
    made_up(MISPRINT, WET, CONDITIONAL)
    for choice in (["--row", "E1", "A10"], ["--note", "000"]):
        assert run(*choice, "--plot", "here")[1].endswith("here/positions.png\n")
    expected = "minigrad: error: there is no picture of A10; there are pictures of A2, E1, C5\n"
    for choice in (["--row", "A10"], ["--note", "001"]):
        assert run(*choice, "--plot", "there") == (2, "", expected) and not pathlib.Path("there").exists()


@pytest.mark.parametrize("arguments, says", [
    (["--row", "Z9"], "there is no row Z9; there are"),
    (["--row"], "--row: expected at least one argument"),
    (["--note", "005"], "there is no note 005; there are 000, 001, 002, 003, 004"),
    (["--note", "000", "--row", "A2"], "argument --row: not allowed with argument --note"),
    (["--plot", "file"], "cannot write to file (File exists); choose another folder with --plot"),
    (["--write", "file/notes.md"], "cannot write to file (File exists); choose another folder with --write"),
    (["--plots"], "unrecognized arguments: --plots (did you mean --plot?); see `minigrad notes --help`"),
    (["--write", ""], "'' is a folder; name a file with --write"),
    (["--write", "."], ". is a folder; name a file with --write"),
])
def test_bad_input(run, made_up, arguments, says):
    pathlib.Path("file").write_text("")
    made_up(WET)
    one_line(run(*arguments), says, (2,))


@pytest.mark.long
def test_real_pictures(tmp_path):
    for path in plots.draw(["depth", "distance", "saturation", "positions"], tmp_path):
        assert path.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("T, D", [(3, 8), (8, 8), (10, 4)])
def test_the_cost_in_the_picture_matches_the_closed_form(T, D):
    for layer, closed_form in plots.make_layers(D).values():
        assert plots.counted_and_seconds(layer, T, D, repeats=1)[0] == closed_form(T, D)


def test_jacobians_of_softmax_in_the_picture():
    scores = mg.tensor([0.3, -1.0, 2.0], dtype=mg.float64)
    expected = mg.jacobian(lambda x: x.softmax(0), scores).array
    assert plots.softmax_jacobians(scores.softmax(0).array[None])[0] == pytest.approx(expected, abs=1e-12)


def test_pictures_have_captions_and_existing_rows():
    legends = plots.legends()
    assert legends.keys() == {f"{name}.png" for name in plots.PICTURES}
    rows = {claim.row for claim in CLAIMS}
    assert all(len(caption) > 40 and its_rows and rows.issuperset(its_rows) for caption, its_rows in legends.values())
