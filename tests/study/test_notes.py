"""`minigrad notes`: its table, document and exit codes, on made-up claims and a few real ones."""
import pathlib

import pytest

import minigrad as mg
from cli.__main__ import main
from study.notes import CLAIMS, Claim, Refuted, plots, report
from study.notes.claims import FALSE, TRUE, claim, require

CHEAP = ["A2", "N5", "P4"]


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


WET = Claim("A2", "000", TRUE, water_is_wet)
CONDITIONAL = Claim("A10", "001", "true if measured", water_is_wet)
MISPRINT = Claim("E1", "002", FALSE, misprint)
FLOAT = Claim("C5", "004", TRUE, stones_float)
CRASH = Claim("L1", "003", TRUE, crash)


@pytest.fixture(autouse=True)
def own_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def made_up(monkeypatch):
    """A function that replaces all claims."""
    return lambda *claims: monkeypatch.setattr(report, "CLAIMS", list(claims))


@pytest.fixture
def few_pictures(monkeypatch):
    """Only the fastest picture."""
    monkeypatch.setattr(plots, "PICTURES", {"positions": (plots.positions, ("A2", "E1"))})


@pytest.fixture
def run(capsys):
    """A function that calls the command in this process, and returns its exit code, stdout and stderr."""
    def call(*arguments) -> tuple[int, str, str]:
        code = main(["notes", *map(str, arguments)])
        return code, *capsys.readouterr()

    return call


def test_outcomes():
    outcome = report.check(WET)
    assert (outcome.holds, outcome.verdict, outcome.measured) == (True, "true", "100 % of | it")
    assert outcome.seconds >= 0
    outcome = report.check(FLOAT)
    assert (outcome.holds, outcome.verdict, outcome.measured) == (False, "REFUTED", "none of 3 floated")
    assert report.check(CRASH).measured == "ZeroDivisionError: by zero" and not report.check(CRASH).holds


def test_claims_are_registered_and_require_refutes():
    count = len(CLAIMS)
    try:
        assert claim("Z1", "000", FALSE)(misprint) is misprint
        assert CLAIMS[-1] == Claim("Z1", "000", FALSE, misprint) and CLAIMS[-1].name == "misprint"
    finally:
        del CLAIMS[count:]
    require(True, "never said")
    with pytest.raises(Refuted, match="this was found"):
        require(False, "this was found")


def test_select_sorts_by_family_and_number(made_up):
    made_up(MISPRINT, CONDITIONAL, FLOAT, WET, CRASH)
    assert report.select() == [CRASH, WET, CONDITIONAL, FLOAT, MISPRINT]
    assert report.select(["e1", "A10"]) == [CONDITIONAL, MISPRINT]
    with pytest.raises(ValueError, match="there is no row A3, Z9; there are L1, A2, A10, C5, E1"):
        report.select(["A2", "Z9", "A3"])


def test_table_of_claims_that_hold(run, made_up):
    made_up(MISPRINT, WET, CONDITIONAL)
    code, out, err = run()
    lines = out.splitlines()
    assert (code, err) == (0, "")
    assert lines[0].split() == ["row", "note", "verdict", "measured", "seconds"] and set(lines[1]) == {"-"}
    assert [line.split()[:2] for line in lines[2:5]] == [["A2", "000"], ["A10", "001"], ["E1", "002"]]
    assert "100 % of | it" in lines[2] and "false as printed" in lines[4]
    assert lines[5:] == ["3 claims: 1 true, 1 true under a condition, 1 false as printed"]


def test_long_cells_go_on_below(made_up):
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


def test_document(run, made_up, few_pictures):
    made_up(MISPRINT, WET)
    code, out, _ = run("--plot", "here/notes", "--write", "here/notes.md")
    assert code == 0 and out.endswith("here/notes/positions.png\nhere/notes.md\n")
    text = pathlib.Path("here/notes.md").read_text()
    assert "## Attention\n\n| row | note | it says | verdict | measured |\n| --- |" in text and "## Layout" not in text
    assert "| A2 | 000 | Water is \\| wet. | true | 100 % of \\| it |\n" in text
    assert "| E1 | 002 | A misprint. | false as printed | 1.0 instead of 2.0 |\n" in text
    assert "![positions](notes/positions.png)" in text
    assert pathlib.Path("here/notes/positions.png").read_bytes().startswith(b"\x89PNG")


def test_without_pictures_the_document_shows_none(run, made_up):
    made_up(WET)
    assert run("--write")[0] == 0
    assert "## Pictures" not in pathlib.Path("docs/lecture_notes.md").read_text()


@pytest.mark.parametrize("row", CHEAP)
def test_real_rows(run, row):
    code, out, _ = run("--row", row)
    assert code == 0 and out.startswith(f"{row}, note 00")


def test_rows_in_full(run, made_up):
    made_up(MISPRINT, WET, CONDITIONAL)
    code, out, _ = run("--row", "A2", "E1")
    wet, misprint = out.split("E1, note 002: ")
    assert code == 0 and wet.startswith("A2, note 000: transformers, tokens as rows\n")
    assert "  it says   Water is | wet.\n  verdict   true\n  measured  100 % of | it\n  seconds   0.00\n" in wet
    assert "  verdict   false as printed\n" in misprint and misprint.endswith("misprint\n")


def test_pictures_of_rows(run, made_up, few_pictures):
    made_up(MISPRINT, WET, CONDITIONAL)
    assert run("--row", "E1", "A10", "--plot", "here")[1].endswith("here/positions.png\n")
    expected = "minigrad: error: there is no picture of A10; there are pictures of A2, E1\n"
    assert run("--row", "A10", "--plot", "there") == (2, "", expected) and not pathlib.Path("there").exists()


def test_pictures_are_of_rows_that_exist():
    rows = {claim.row for claim in CLAIMS}
    assert all(its_rows and rows.issuperset(its_rows) for _, its_rows in plots.PICTURES.values())


@pytest.mark.parametrize("arguments, says", [
    (["--row", "Z9"], "there is no row Z9; there are"),
    (["--row"], "--row: expected at least one argument"),
    (["--row", "A2", "--write"], "--write takes all rows, got --row; leave one of the two out"),
    (["--plot", "file"], "cannot write to file (File exists); choose another folder with --plot"),
    (["--write", "file/notes.md"], "cannot write to file (File exists); choose another folder with --write"),
    (["--plots"], "unrecognized arguments: --plots (did you mean --plot?); see `minigrad notes --help`"),
    (["--write", ""], "'' is a folder; name a file with --write"),
    (["--write", "."], ". is a folder; name a file with --write"),
])
def test_bad_input(run, made_up, arguments, says):
    pathlib.Path("file").write_text("")
    made_up(WET)
    code, out, err = run(*arguments)
    assert (code, out) == (2, "")
    assert err.startswith("minigrad: error: ") and err.count("\n") == 1 and says in err


@pytest.mark.parametrize("T, D", [(3, 8), (8, 8), (10, 4)])
def test_cost_in_the_picture_is_the_closed_form(T, D):
    for layer, closed_form in plots.make_layers(D).values():
        assert plots.counted_and_seconds(layer, T, D, repeats=1)[0] == closed_form(T, D)


def test_jacobians_of_softmax_in_the_picture():
    scores = mg.tensor([0.3, -1.0, 2.0], dtype=mg.float64)
    expected = mg.jacobian(lambda x: x.softmax(0), scores).array
    assert plots.softmax_jacobians(scores.softmax(0).array[None])[0] == pytest.approx(expected, abs=1e-12)


def test_pictures_have_captions():
    captions = plots.captions()
    assert captions.keys() == {f"{name}.png" for name in plots.PICTURES}
    assert all(len(caption) > 40 for caption in captions.values())
