"""Sabotages of prepared texts: pieces that lose or cut something, shards that are done again, checks that are left out."""
from sabotage.edit import edits

PROCESSES = ("tests/models/test_processes.py", "-o", "faulthandler_timeout=20")
PIECES = ("tests/models/test_text_files.py",)
WRITTEN = ("tests/models/test_prepare.py", "-k", "corpus or processes or split or counted or ids or pieces_are and 1- or learnt")
KILLED = ("tests/models/test_prepare.py", "-k", "not_done_again or half or changes or moved or another_request or one_at_a_time")
WRONG = ("tests/models/test_prepare.py", "-k", "bad_input or folders or hostile or shard or share or unfinished or resume")

SHOWN = ("tests/models/test_prepare.py", "-k", "progress")

SABOTAGES = [
    *edits(PIECES, "models.text_files", {
        "pieces: the rest is lost": ("TextFile.pieces", "        if rest:\n", "        if False:\n"),
        "pieces: cut anywhere": ("TextFile.pieces", "last_cut(content)", "len(content)"),
        "pieces: lines of .jsonl cut in two": ("TextFile.pieces", 'content.rfind(b"\\n") + 1 if self.field else ', ""),
        "pieces: without end": ("TextFile.pieces", "not end and len(content) > LONGEST", "False"),
        "pieces: all at one offset": ("TextFile.pieces", "offset += len(content)", "offset = 0"),
        "pieces: all begin with line 1": ("TextFile.pieces", 'line += content.count(b"\\n") if self.field else 0', "line = 1"),
        "pieces: characters cut in two": ("TextFile._cut_anywhere", "content[end] & 0xC0 == 0x80 or ", ""),
        "pieces: cut within a line's end": ("TextFile._cut_anywhere", ' or content[end - 1:end + 1] == b"\\r\\n"', ""),
        "pieces: .gz read as it is": ("TextFile._blocks", 'self.path.endswith(".gz")', "False"),
        "pieces: cut after the blank": ("last_cut", "tail[found.end():]", "tail[found.end() + 1:]"),
        "documents: joined": ("document", " + DOCUMENT_END", ""),
        "documents: blank lines are some": ("Piece.texts", "if text.strip():", "if True:"),
        "documents: offsets within the piece": ("Piece.texts", "offset = [], self.offset", "offset = [], 0"),
        "documents: halves of pairs": ("document", "        text.encode()\n", "        pass\n"),
        "documents: of any type": ("document", "not isinstance(text, str)", "False"),
    }),
    *edits(WRITTEN, "models.prepare", {
        "prepare: sources split together": ("training_characters", "sum(seen.characters)", "9999"),
        "prepare: validation ignored": ("training_characters", "1 - validation", "0.5"),
        "prepare: documents cut in two": ("split_texts", "return texts[:count], texts[count:]",
            'return ["".join(texts)[:training]], ["".join(texts)[training:]]'),
        "prepare: a document of the split in which it ends": ("split_texts", "[0, *itertools", "[*itertools"),
        "prepare: characters counted as bytes": ("tokenise", "len(text.encode())", "len(text)"),
        "prepare: byte pairs of everything": ("learn", "split_texts(*arguments)[0]", "sum(split_texts(*arguments), [])"),
        "prepare: byte pairs of the beginning": ("learn", "int((number + 1) * part) > int(number * part)", "number < 20"),
    }),
    *edits(PROCESSES, "models.processes", {
        "processes: results as they come": ("in_order", "waiting.popleft()\n                yield", "waiting.pop()\n                yield"),
        "processes: everything at once": ("in_order", "len(waiting) > 2 * processes", "False"),
        "processes: exceptions are results": ("Worker.do", "if error:", "if False:"),
        "processes: what is under way is waited for": ("workers", "worker.process.kill()", "pass"),
        "processes: one that is gone is waited for": ("workers", "free.put(worker)", "pass"),
        "processes: this one keeps their ends, too": ("Worker", "theirs.close()", "pass"),
    }),
    *edits(WRITTEN, "models.shards", {
        "shards: windows end with a shard": ("MappedTokens.__getitem__", 'side="right"', 'side="left"'),
        "shards: always the first": ("MappedTokens.__getitem__", "self._arrays[number]", "self._arrays[0]"),
        "shards: bytes of the training text": ("load_shards", 'index.bytes("validation")', 'index.bytes("train")'),
    }),
    *edits(WRITTEN, "models.data", {"dtype: one too many": ("dtype_for", "<= 1 << 16", "<= (1 << 16) + 1")}),
    *edits(KILLED, "models.prepare", {
        "prepare: shards are done again": ("ShardWriter", "self._shards[-1].pieces if self._shards else 0", "0"),
        "prepare: the index at the end alone": ("ShardWriter.write", "self._index.write(self._folder)", "pass"),
        "prepare: half-written files stay": ("prepare_in", "(folder / name).unlink()", "pass"),
        "prepare: changed pieces go unnoticed": ("split_texts", "zlib.crc32(piece.content) != checksum", "False"),
        "prepare: new pieces go unnoticed": ("pieces_to_tokenise", "if next(pieces, None):", "if False:"),
        "prepare: other flags go on": ("check_same", "index.asked.get(name) != value", "False"),
        "prepare: other texts go on": ("check_same", "(old.field, old.sha256) != (new.field, new.sha256)", "False"),
        "prepare: texts must not move": ("check_same", "(old.field, old.sha256) != (new.field, new.sha256)", "old != new"),
        "prepare: no lock": ("prepare", 'with locked(folder, "is preparing a text", "--to"):', "if True:"),
    }),
    *edits(WRONG, "models.prepare", {
        "prepare: writes into any folder": ("check_folder", "folder.exists() and not (folder / INDEX)", "False and (folder / INDEX)"),
        "prepare: leaves an empty folder": ("prepare", "folder.rmdir()", "pass"),
        "prepare: nothing is text, too": ("examine_all", "not any(seen.characters)", "False"),
    }),
    *edits(SHOWN, "models.commands.shared", {
        "prepare: one bar for both passes": ("show_progress", "bar is None or bar.desc != what", "bar is None"),
        "prepare: no lines": ("show_progress", "time.monotonic() - last_line > SECONDS_BETWEEN_LINES", "False"),
    }),
    *edits(WRONG, "models.shards", {
        "shards: sizes unchecked": ("Index.read", "check_size(file,", "(file,"),
        "shards: a pipe is a file": ("check_size", "not stat.S_ISREG(found.st_mode) or ", ""),
        "shards: any dtype": ("Index.__post_init__", "self.dtype != dtype_for(size)", "False"),
        "shards: other formats": ("Index._of", 'values.pop("format") != FORMAT', 'values.pop("format") is None'),
        "shards: unfinished ones do": ("load_shards", "not index.is_whole", "False"),
        "shards: short ones do": ("load_shards", "index.tokens(split) < context + 1", "False"),
        "shards: any tokenizer": ("load_shards", "tokenizer.state() != index.tokenizer", "False"),
        "shards: all have one hash": ("Index.sha256", "[self.tokenizer, self.dtype, content]", "[]"),
        "shards: any ids": ("MappedTokens.__getitem__", "found[is_here].max() >= self._vocabulary_size", "False"),
        "check: any ids": ("check_content", "np.frombuffer(block, dtype).max() >= size", "False"),
        "check: any content": ("check_content", "digest.hexdigest() != shard.sha256", "False"),
        "check: unreadable files": ("check_content", "except OSError", "except KeyError"),
        "check: all files by each rank": ("check_content", "[part]", ""),
        "shards: counts below one": ("is_count", "0 < value", "-9 < value"),
        "shards: counts of any type": ("is_count", "type(value) is int", "True"),
    }),
    *edits(WRONG, "models.commands.train", {
        "train: damaged tokens do": ("start", "check_text(trainer.dataset, ranks)", "pass"),
        "train: damaged tokens do when it goes on": ("resume", "check_text(dataset, ranks)", "pass"),
    }),
]
