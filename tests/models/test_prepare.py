"""`minigrad prepare`: the tokens of the text in memory, whatever is killed on the way; bad input; training on its folder; damage."""
import contextlib
import errno
import gzip
import json
import os
import pathlib
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import models
from models import load_corpus, text_files
from models.commands.shared import show_progress
from models.data import windows
from models.prepare import Request, prepare
from models.shards import INDEX, SPLITS, Index, MappedTokens, ShardError, check_content, load_shards
from models.text_files import TextFile
from models.tokenizers import BytePairs
from models.tokenizers.byte_pairs import LLAMA3_PATTERN
from ranks import descendants, has_ended
from refusals import all_refused, one_line
from small_runs import assert_same_runs

TINY = ["--layers", "1", "--heads", "2", "--width", "16", "--context", "16", "--batch-size", "2", "--steps", "6",
        "--eval-every", "3", "--eval-windows", "2"]


@pytest.fixture(autouse=True)
def no_fsync(monkeypatch):
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)  # it takes most of the time


@pytest.fixture
def small_pieces(monkeypatch):
    monkeypatch.setattr(text_files, "PIECE_BYTES", 64)


def prepared(*paths, folder="tokens", field="text", workers=1, **request) -> Index:
    request = Request(tuple(TextFile.of(str(path), field) for path in paths), **request)
    return prepare(request, folder, workers)


def content(folder) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in pathlib.Path(folder).iterdir()}


def text_of(folder, split) -> str:
    index = Index.read(folder)
    return load_shards(folder).tokenizer.decode(MappedTokens(index, folder, split)[:])


# ---- tokens ----

def test_a_folder_is_the_corpus_of_its_text(text_file, small_pieces):
    """Batches and windows across shards are those of one array in memory."""
    corpus = load_corpus(str(text_file))
    for shard_tokens, shards in ((1 << 24, 1), (1000, 4), (1, 57)):
        folder = str(shard_tokens)
        index, mapped = prepared(text_file, shard_tokens=shard_tokens, folder=folder), load_shards(folder)
        assert len(index.shards["train"]) == shards
        assert mapped.tokenizer == corpus.tokenizer and mapped.description == corpus.description
        for seed in range(5):
            batches = (data.batch(np.random.default_rng(seed), 9, 100) for data in (mapped, corpus))
            for one, other in zip(*batches):
                np.testing.assert_array_equal(one, other)
                assert one.dtype == other.dtype == np.int64
        for split in SPLITS:
            for limit in (None, 7):
                for pair in zip(*(windows(getattr(data, split), 30, 4, limit) for data in (mapped, corpus)), strict=True):
                    np.testing.assert_array_equal(*pair)
            np.testing.assert_array_equal(getattr(mapped, split)[5:-5:3], getattr(corpus, split)[5:-5:3])


def test_files_do_not_depend_on_the_number_of_workers(text_file, small_pieces):
    pathlib.Path("ends.txt").write_bytes("Ωmega\r\nund\r\n".encode() * 50)
    pathlib.Path("more.jsonl.gz").write_bytes(gzip.compress(b'{"text": "a b"}\n{"text": "c"}\n' * 50))
    for workers in (1, 2):
        prepared(text_file, "ends.txt", "more.jsonl.gz", folder=str(workers), shard_tokens=700, workers=workers)
    assert content("1") == content("2") and len(content("1")) > 5


def test_each_source_has_its_own_split(small_pieces):
    pathlib.Path("a.txt").write_text("a" * 90 + "b" * 10)
    pathlib.Path("c.txt").write_text("c " * 90 + "d " * 10)
    pathlib.Path("e.jsonl").write_text("\n".join(json.dumps({"body": letter * 8}) for letter in "efghi" * 2))
    prepared("a.txt", "c.txt", "e.jsonl", field="body", shard_tokens=70)
    assert text_of("tokens", "train") == "a" * 90 + "c " * 90 + "".join(letter * 8 + "\n\n" for letter in "efghiefgh")
    assert text_of("tokens", "validation") == "b" * 10 + "d " * 10 + "i" * 8 + "\n\n"


def test_a_document_belongs_to_the_split_in_which_it_begins():
    pathlib.Path("a.jsonl").write_text("\n".join(json.dumps({"text": letter * 38}) for letter in "abc"))
    for validation, count in ((0.67, 1), (0.65, 2), (0.34, 2), (0.32, 3)):
        prepared("a.jsonl", folder=str(validation), validation=validation)
        assert Index.read(str(validation)).tokens("train") == 40 * count


MIXED = "ab1 \n\t.,'!é日\u3000\xa0🙂"  # characters that byte pairs may join, and others


@pytest.mark.parametrize("words, vocabulary_size", [("bytes", None), ("gpt2", 400), ("llama3", None)])
@pytest.mark.parametrize("workers", [1, 2])
def test_tokens_are_those_of_the_whole_text(monkeypatch, words, vocabulary_size, workers):
    """In this process, and in several that are sent the tokenizer."""
    pytest.importorskip("tokenizers")
    monkeypatch.setattr(text_files, "PIECE_BYTES", 500 if workers == 1 else 30_000)
    letters = np.random.default_rng(0).choice(list(MIXED), size=30_000)
    pathlib.Path("a.txt").write_text("".join(letters))
    tokenizer = "bytes" if words == "bytes" else "bpe"
    if words == "llama3":
        described = load_corpus("a.txt", tokenizer="bpe", vocabulary_size=400).tokenizer.state()["tokenizer"]
        pattern = {"type": "Split", "pattern": {"Regex": LLAMA3_PATTERN}, "behavior": "Isolated", "invert": False}
        bytes_ = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
        described["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": [pattern, bytes_]}
        tokenizer = BytePairs(described)
    prepared("a.txt", tokenizer=tokenizer, vocabulary_size=vocabulary_size, shard_tokens=3000, workers=workers)
    corpus, mapped = load_corpus("a.txt", 1, tokenizer, vocabulary_size), load_shards("tokens")
    assert mapped.tokenizer.state() == corpus.tokenizer.state() and mapped.validation_bytes == corpus.validation_bytes
    for split in SPLITS:
        np.testing.assert_array_equal(getattr(mapped, split)[:], getattr(corpus, split))


def test_byte_pairs_are_learnt_from_part_of_a_large_text(monkeypatch, small_pieces):
    pytest.importorskip("tokenizers")
    monkeypatch.setattr("models.prepare.LEARNT_FROM", 500)
    pathlib.Path("a.txt").write_text("".join(f"{letter * 20} " * 50 for letter in "abcdefghij"))
    told = set()
    prepare(Request((TextFile.of("a.txt", "text"),), "bpe"), "tokens", show=lambda what, done, total: told.add(what))
    tokenizer = load_shards("tokens").tokenizer
    assert "learning byte pairs from 0 MB of" in told
    learnt = [letter for letter in "abcdefghij" if len(tokenizer.encode(" " + letter * 20)) < 10]
    assert 5 <= len(learnt) < 10 and learnt[-1] in "hi", "from pieces of all of the text but its validation part"


def test_ids_are_as_wide_as_the_vocabulary_needs():
    for count, dtype in ((1 << 16, "uint16"), ((1 << 16) + 1, "uint32")):
        text = "".join(map(chr, range(0x10000, 0x10000 + count)))
        pathlib.Path("a.txt").write_text(text)
        index = prepared("a.txt", folder=dtype)
        assert index.dtype == dtype and index.bytes("train") == 4 * index.tokens("train")
        assert os.path.getsize(f"{dtype}/train-00000.bin") == int(0.9 * count) * np.dtype(dtype).itemsize
        assert text_of(dtype, "train") + text_of(dtype, "validation") == text


# ---- interruptions ----

class Killed(BaseException):
    pass


@contextlib.contextmanager
def killed_at(moment: int, when: str):
    """The process ends before or after it renames the file of this number."""
    replace, moments = os.replace, iter(range(1_000_000))

    def replace_or_die(*paths):
        is_now = next(moments) == moment
        if not is_now or when == "after":
            replace(*paths)
        if is_now:
            raise Killed

    with pytest.MonkeyPatch.context() as patch, contextlib.suppress(Killed):
        patch.setattr(os, "replace", replace_or_die)
        yield


@pytest.mark.parametrize("when", ["before", "after"])
def test_finished_shards_are_kept(text_file, small_pieces, when):
    index = prepared(text_file, folder="at once", shard_tokens=900)
    moments = 2 + 2 * sum(map(len, index.shards.values()))  # the index first and last, and after each shard
    for moment in range(moments):
        folder = str(moment)
        with killed_at(moment, when):
            prepared(text_file, folder=folder, shard_tokens=900)
            pytest.fail("it was not killed")
        index = Index.read(folder) if os.path.exists(folder) else None
        recorded = [path for split in SPLITS for path, _ in index.paths(folder, split)] if index else []
        inodes = [os.stat(path).st_ino for path in recorded]
        assert len(recorded) == max(0, (moment - (when == "before")) // 2)
        prepared(text_file, folder=folder, shard_tokens=900)
        assert content(folder) == content("at once")
        assert [os.stat(path).st_ino for path in recorded] == inodes, "a finished shard was written again"


def test_half_written_files_are_ignored(text_file, small_pieces):
    prepared(text_file, folder="at once")
    os.mkdir("tokens")
    for name in (".index.json-12.tmp", ".train-00000.bin-3456.tmp"):
        pathlib.Path("tokens", name).write_bytes(b"half")
    prepared(text_file)
    assert content("tokens") == content("at once")


@pytest.mark.long
@pytest.mark.skipif(not os.path.exists("/proc/self/task"), reason="looks for processes in /proc")
def test_real_processes_are_killed(run, monkeypatch):
    """First the parent, whose workers end with it, then a worker, then all by Ctrl-C; then the work is finished."""
    monkeypatch.setenv("PYTHONPATH", str(pathlib.Path(models.__file__).parents[1]))
    text = "".join(f"Line {i} of many.\n" for i in range(1_000_000))
    pathlib.Path("a.txt").write_text(text)
    arguments = "prepare", "a.txt", "--to", "tokens", "--workers", "2", "--shard-tokens", "1500000"

    def shards() -> int:
        return len(list(pathlib.Path().glob("tokens/train-*")))

    def begin() -> subprocess.Popen:
        """A process that has written a shard."""
        before, process = shards(), subprocess.Popen([sys.executable, "-m", "minigrad", *arguments], stderr=subprocess.PIPE,
                                                     stdout=subprocess.PIPE, text=True)
        while process.poll() is None and shards() < before + 1:
            time.sleep(0.005)
        return process

    with begin() as process:
        workers = descendants(process.pid)
        process.kill()
        while not all(map(has_ended, workers)):  # a test that never ends fails too
            time.sleep(0.01)
    assert len(workers) >= 2 and not Index.read("tokens").is_whole
    for name, killed, code, says in (
        (signal.SIGKILL, lambda process: descendants(process.pid)[-1:], 1,
         "minigrad: error: a process was killed, or could not start; what has been written"),
        (signal.SIGINT, lambda process: [process.pid, *descendants(process.pid)], 130,
         "minigrad: stopped; what has been written to tokens is intact: resume with the same command"),
    ):
        with begin() as process:
            for pid in killed(process):
                os.kill(pid, name)
            _, error = process.communicate()
        assert process.returncode == code and error.splitlines()[-1].startswith(says)
    assert run(*arguments)[0] == 0 and run("prepare", "--to", "tokens", "--check")[0] == 0
    assert text_of("tokens", "train") + text_of("tokens", "validation") == text


def test_a_full_disk(run, text_file, small_pieces, monkeypatch):
    for moment in range(6):
        folder, calls = f"at {moment}", []
        prepare = "prepare", text_file, "--to", folder, "--workers", 1, "--shard-tokens", 2000

        def fill_up(descriptor, calls=calls, moment=moment):
            calls.append(descriptor)
            if len(calls) > 2 * moment:  # a file, and its folder
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        with monkeypatch.context() as disk:
            disk.setattr(os, "fsync", fill_up)
            answer = run(*prepare)
        one_line(answer, f"minigrad: error: {folder}/", codes=(1,))
        one_line(answer, f"No space left on device; what has been written to {folder} is intact")
        assert run(*prepare)[0] == 0
        assert text_of(folder, "train") + text_of(folder, "validation") == text_file.read_text()


# ---- bad input ----

BAD_INPUT = [
    ([], "no FILE to prepare"),
    (["a.txt", "nowhere.txt"], "cannot read nowhere.txt (No such file or directory)"),
    (["."], "cannot read . (Is a directory)"),
    ([""], "cannot read '' (No such file or directory)"),
    (["pipe"], "pipe is a pipe, socket or device"),
    (["/dev/zero"], "/dev/zero is a pipe, socket or device"),
    (["a.txt", "empty.txt"], "empty.txt is empty"),
    (["a.txt", "blank.jsonl"], "blank.jsonl holds no text"),
    (["nothing.gz"], "nothing.gz holds no text"),
    (["a.txt", "latin.txt"], "latin.txt is not UTF-8 (byte 600 is 0xe4)"),
    (["a.jsonl", "--field", "body"], "a.jsonl, line 1 has no field 'body', only ['text']; name the field"),
    (["a.txt", "--vocabulary-size", "50"], "vocabulary_size is 50, but the tokenizer has 8 tokens; leave it out"),
    (["a.txt", "--tokenizer", "nowhere"], "--tokenizer 'nowhere' is none of characters, bytes, bpe, and not a readable file"),
    (["a.txt", "--validation", "0"], "validation must be more than 0 and less than 1"),
    (["a.txt", "--validation", "nan"], "validation must be"),
    (["a.txt", "--workers", "0"], "--workers must be from 1 to"),
    (["a.txt", "--workers", "5000"], "--workers must be from 1 to"),
    (["a.txt", "--tokeniser", "bytes"], "(did you mean --tokenizer?)"),
    (["a.txt", "--check"], "--check reads what is in --to"),
]


def test_bad_input(refused):
    for name, text in (("a.txt", b"abc def\n" * 99), ("empty.txt", b""), ("blank.jsonl", b"\n \n"),
                       ("a.jsonl", b'{"text": "a"}'), ("nothing.gz", gzip.compress(b"")),
                       ("latin.txt", b"abc def " * 75 + "ä".encode("latin-1"))):
        pathlib.Path(name).write_bytes(text)
    os.mkfifo("pipe")
    before = sorted(os.listdir("."))
    refused(BAD_INPUT, "prepare", "--workers", 1, "--to", "new", codes=(1, 2))
    refused([([], "new holds no index.json")], "prepare", "--check", "--to", "new", codes=(1, 2))
    assert sorted(os.listdir(".")) == before


def test_folders_that_hold_something_else(refused, text_file):
    for name in ("full", "closed"):
        os.mkdir(name)
    pathlib.Path("full/precious").write_text("precious")
    pathlib.Path("file").write_text("precious")
    os.chmod("closed", 0o500)
    refused([
        (["--to", "full"], "full holds precious, and no index.json; name a new or"),
        (["--to", "file"], "file is not a folder; name another with --to"), (["--to", ""], "--to is empty"),
        *([(["--to", "closed"], "Permission denied")] if os.geteuid() != 0 else []),
    ], "prepare", text_file, codes=(1, 2))
    assert os.listdir("full") == ["precious"] and pathlib.Path("file").read_text() == "precious"


@pytest.mark.parametrize("is_whole", [True, False])
def test_other_arguments_for_the_same_folder(is_whole):
    text = "abc " * 1000
    pathlib.Path("a.txt").write_text(text)
    pathlib.Path("b.txt").write_text("b")
    with contextlib.nullcontext() if is_whole else killed_at(5, "before"):
        prepared("a.txt", shard_tokens=1000)
    before = content("tokens")

    def again(change):
        change = dict(shard_tokens=1000) | change
        pathlib.Path("a.txt").write_text(change.pop("text", text))
        prepared(*change.pop("files", ["a.txt"]), **change)

    all_refused(again, [
        (dict(validation=0.2), "tokens was started with --validation 0.1, not 0.2"),
        (dict(shard_tokens=9), "tokens was started with --shard-tokens 1000, not 9"),
        (dict(files=["b.txt"]), "tokens was started with another text or --field than that of"),
        (dict(files=["a.txt", "b.txt"]), "tokens was started with 1 sources, not 2"),
        (dict(text="abd " * 999), "tokens was started with another text or --field")])
    assert content("tokens") == before
    again({})
    os.rename("a.txt", "c.txt")  # a source may be renamed
    assert prepared("c.txt", shard_tokens=1000).is_whole


def test_the_default_vocabulary_size_is_part_of_the_request():
    pytest.importorskip("tokenizers")
    pathlib.Path("a.txt").write_text("abc " * 1000)
    for size in (None, 1024):
        assert prepared("a.txt", tokenizer="bpe", vocabulary_size=size).is_whole
    with pytest.raises(ValueError, match="was started with --vocabulary-size 1024, not 999"):
        prepared("a.txt", tokenizer="bpe", vocabulary_size=999)


LINE = json.dumps({"text": "a b " * 12 + "abc"}) + "\n"  # as long as a piece


def test_a_source_that_changes_between_the_passes(small_pieces, monkeypatch):
    path, begin = pathlib.Path("a.jsonl"), models.prepare.start_or_resume
    for other in (LINE.replace("c", "d"), LINE + LINE, "", LINE[:-9]):
        path.write_text(LINE)
        monkeypatch.setattr("models.prepare.start_or_resume", lambda *arguments, other=other: (path.write_text(other), begin(*arguments))[1])
        with pytest.raises(ShardError, match="a.jsonl changed while it was read"):
            prepared(path, folder=f"of {len(other)}")
        assert not Index.read(f"of {len(other)}").is_whole


def test_a_folder_is_locked(run, text_file):
    prepared(text_file)
    with models.run.locked(pathlib.Path("tokens")):
        one_line(run("prepare", text_file, "--to", "tokens"), "another process is preparing a text in tokens; wait")


@pytest.mark.parametrize("is_terminal", [True, False])
def test_progress(capsys, monkeypatch, is_terminal):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: is_terminal)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setattr("models.progress.SECONDS_BETWEEN_LINES", -1)
    with show_progress() as show:
        for what in ("reading", "writing"):
            for megabytes in (1, 4):
                show(what, megabytes * 1_000_000, 4_000_000)
    lines = capsys.readouterr().err.splitlines()
    if is_terminal:
        assert [bar.split("|")[0].strip() for bar in lines if "100%" in bar] == ["reading 100%", "writing 100%"]
        assert "4.00MB/4.00MB" in lines[-1]
    else:
        assert lines == [f"{what}: {megabytes} of 4 MB" for what in ("reading", "writing") for megabytes in (1, 4)]


# ---- training ----

@pytest.fixture
def tokens(text_file, small_pieces):
    prepared(text_file, shard_tokens=1000)


def test_train_resume_and_move_the_folder(run, refused, tokens, text_file):
    code, _, err = run("train", *TINY, "--text", "tokens", "--out", "here")
    assert code == 0 and "3,600 training tokens, 400 validation tokens" in err
    assert run("train", *TINY, "--text", text_file, "--out", "plain")[0] == 0
    assert_same_runs("here", "plain")
    assert run("train", "--resume", "here", "--steps", 8)[0] == 0
    os.rename("tokens", "moved")
    one_line(run("train", "--resume", "here", "--steps", 9), "tokens (No such file or directory); give a text file")
    assert run("train", "--resume", "here", "--steps", 9, "--text", "moved")[0] == 0
    prepared(text_file, folder="other", validation=0.2)
    assert run("train", *TINY, "--text", "moved", "--init-from", "here", "--out", "further")[0] == 0
    pathlib.Path("b.txt").write_text("xyz " * 100)
    prepared("b.txt", folder="b")
    refused([
        (["--resume", "here", "--steps", 10, "--text", "other"], "other is not the text that here was"),
        (["--resume", "here", "--steps", 10, "--text", text_file], "words.txt is not the text that here was"),
        ([*TINY, "--text", "b", "--init-from", "here", "--out", "no"], "b was not prepared with the tokenizer of the model"),
        ([*TINY, "--text", "b", "--tokenizer", "bytes"], "--tokenizer makes no sense with --text b, which holds"),
    ], "train")
    one_line(run("prepare", "b.txt", "--tokenizer", "here", "--to", "c", "--workers", 1),
             "b.txt, from byte 0 on: the vocabulary has no 'x' 'y' 'z'")
    pathlib.Path("d.txt").write_text("abc " * 100)
    assert run("prepare", "d.txt", "--tokenizer", "here", "--to", "d", "--workers", 1)[0] == 0
    assert run("train", *TINY, "--text", "d", "--init-from", "here", "--out", "of d")[0] == 0


def test_unfinished_and_short_folders(run, text_file, small_pieces):
    with killed_at(5, "before"):
        prepared(text_file, shard_tokens=1000)
    one_line(run("train", *TINY, "--text", "tokens"), "tokens is unfinished: resume it with the same `minigrad prepare` command")
    prepared(text_file, shard_tokens=1000)
    one_line(run("train", "--context", 400, "--text", "tokens"),
             "tokens is too short: it has 400 tokens in split 'validation', and needs context + 1 = 401")

# ---- damage ----

HOSTILE_CHANGES = [
    (lambda index: index.update(format="minigrad tokens 0"), "its format is not 'minigrad tokens 1'"),
    (lambda index: index.pop("format"), "'format'"),
    (lambda index: index.pop("dtype"), "dtype"),
    (lambda index: index.update(more=1), "more"),
    (lambda index: index.update(dtype="uint32"), "its ids are 'uint32', but those of 11 tokens are uint16"),
    (lambda index: index.update(dtype="O"), "its ids are 'O'"),
    (lambda index: index.update(dtype=["<u2", 1 << 40]), "its ids are"),
    (lambda index: index.update(is_whole=1), "its Index has is_whole 1"),
    (lambda index: index.update(tokenizer={"kind": "magic"}), "'magic'"),
    (lambda index: index.update(tokenizer={"kind": "characters", "symbols": "ba"}), "ascending order"),
    (lambda index: index.update(tokenizer={"kind": "characters", "symbols": "".join(map(chr, range(0x10000, 0x20001)))}),
     "its ids are 'uint16', but those of 65,537 tokens are uint32"),
    (lambda index: index.update(shards=[]), ""),
    (lambda index: index["shards"].update(test=[]), "its Index has shards"),
    (lambda index: index["shards"]["train"][0].update(tokens=-1), "its Shard has tokens -1"),
    (lambda index: index["shards"]["train"][0].update(tokens=1 << 70), "its Shard has tokens 1180591620717411303424"),
    (lambda index: index["shards"]["train"][0].update(tokens=1020.0), "its Shard has tokens 1020.0"),
    (lambda index: index["shards"]["train"][0].update(tokens=True), "its Shard has tokens True"),
    (lambda index: index["shards"]["train"][0].update(sha256="0" * 63), "its Shard has sha256"),
    (lambda index: index["shards"]["train"][0].update(path="/etc/passwd"), "path"),
    (lambda index: index["shards"]["train"][0].update(tokens=1 << 50), "bytes, expected 2,251,799,813,685,248"),
    (lambda index: index["shards"]["train"].append(index["shards"]["train"][0]), "tokens/train-00004.bin is missing"),
]


def test_hostile_index(run, tokens):
    path = pathlib.Path("tokens", INDEX)
    good = path.read_bytes()
    for change, says in HOSTILE_CHANGES:
        change(values := json.loads(good))
        path.write_text(json.dumps(values))
        answer = run("train", *TINY, "--text", "tokens")
        one_line(answer, says, codes=(1,))
        one_line(answer, "remove the folder, and prepare the text again")
    for text in [b"", b"{", b"[]", b"\xff", b"[" * 100_000, b"null", b'{"format": 9' + b"9" * 5000 + b"}"]:
        path.write_bytes(text)
        one_line(run("train", *TINY, "--text", "tokens"), "tokens/index.json is damaged, or of another version", codes=(1,))


def test_a_shard_of_another_size_is_noticed_at_once(refused, tokens, text_file):
    for name in ("train-00001.bin", "validation-00000.bin"):
        path = pathlib.Path("tokens", name)
        good = path.read_bytes()
        for damage, says in ((lambda path: path.write_bytes(path.read_bytes()[:-1]), "is damaged: it has"),
                             (os.unlink, "is missing"), (os.mkfifo, "is damaged: it has 0 bytes")):
            damage(path)
            refused([(command, f"{path} {says}") for command in (
                ["train", *TINY, "--text", "tokens"], ["prepare", "--to", "tokens", "--check"],
                ["prepare", text_file, "--to", "tokens", "--shard-tokens", 1000, "--workers", 1])], codes=(1,))
        path.unlink()
        path.write_bytes(good)


def flip(path: pathlib.Path, bit: int = 0) -> None:
    """Flip a bit of the last id."""
    ids = np.fromfile(path, "<u2")
    ids[-1] ^= 1 << bit
    path.write_bytes(ids.tobytes())


def test_a_shard_of_other_content_is_noticed_before_training(run, refused, tokens):
    code, out, _ = run("prepare", "--to", "tokens", "--check")
    assert code == 0 and out.startswith("tokens/ holds 3,600 tokens of 3,600 bytes for training and 400 tokens of 400 bytes")
    assert run("train", *TINY, "--text", "tokens", "--out", "here")[0] == 0
    before = content("here")
    os.symlink("tokens", "moved")
    for name in ("train-00002.bin", "validation-00000.bin"):
        for bit, says in ((0, "is damaged: its content is not what"), (4, "is damaged: it holds ids of 11 or more")):
            flip(pathlib.Path("tokens", name), bit)
            refused([(command, f"{folder}/{name} {says}") for folder, command in (
                ("tokens", ["prepare", "--to", "tokens", "--check"]), ("tokens", ["train", *TINY, "--text", "tokens"]),
                ("tokens", ["train", "--resume", "here", "--steps", 9]),
                ("moved", ["train", "--resume", "here", "--steps", 9, "--text", "moved"]))], codes=(1,))
            flip(pathlib.Path("tokens", name), bit)
    assert not os.path.exists("runs") and content("here") == before


def test_ranks_of_a_machine_share_the_check(tokens):
    """One of them reads each file; the first shows the progress of its part."""
    index, names = Index.read("tokens"), sorted(path.name for path in pathlib.Path("tokens").glob("*.bin"))
    for size in (1, 2, 3):
        for name in names:
            flip(pathlib.Path("tokens", name))
            found = []
            for rank in range(size):
                try:
                    check_content(index, "tokens", part=slice(rank, None, size))
                except ShardError as error:
                    found.append(str(error).split()[0])
            assert found == [f"tokens/{name}"]
            flip(pathlib.Path("tokens", name))
        shown = []
        check_content(index, "tokens", lambda *arguments, shown=shown: shown.append(arguments), slice(0, None, size))
        assert shown[-1] == ("checking", *[sum(os.path.getsize(f"tokens/{name}") for name in names[::size])] * 2)


def test_a_shard_that_is_damaged_while_training_or_cannot_be_read(refused, tokens, monkeypatch):
    corpus, path = load_shards("tokens"), pathlib.Path("tokens/train-00002.bin")
    with open(path, "r+b") as file:
        file.write(b"\xff\xff")
    with pytest.raises(ShardError, match=f"{path} is damaged: it holds token 65535, but there are 11"):
        corpus.train[:]
    monkeypatch.setattr("models.shards.open", lambda path, mode: (_ for _ in ()).throw(OSError(errno.EIO, os.strerror(errno.EIO))),
                        raising=False)
    refused([([], "tokens/train-00000.bin cannot be read (Input/output error)")], "train", *TINY, "--text", "tokens", codes=(1,))
