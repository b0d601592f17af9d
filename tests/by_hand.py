"""Changes of the library that no generator makes, for tests/mutate.py: wrong alternatives of what the lecture notes speak of,
files and processes that are not looked after, arrays that are misread.

A row says what is replaced and by what, an expression in which `was` is what stands there now. As code it is added to the
end of the file, so that processes that tests start have it too. `tests` have to notice: a file, or with :: those whose name
has a word in it. A row with several is one change for each of them, as each claim has to notice by itself.
"""
import ast
import pathlib
from collections.abc import Iterator
from dataclasses import dataclass

ROOT = pathlib.Path(__file__).parents[1]


@dataclass(frozen=True)
class Row:
    path: str
    target: str  # a function, a method or a variable of that file; of a file that is not Python, empty
    new: str
    tests: tuple[str, ...]


def claims(path: str, target: str, new: str, rows: str) -> Row:
    """A change that each of these claims of the lecture notes has to notice."""
    return Row(path, target, new, tuple(f"tests/study/test_claims.py::[{row}-" for row in rows.split()))


def after(path: str, kind: str, then: str, rows: str) -> Row:
    """A layer that is made otherwise: what follows its __init__, in which `self` is the layer."""
    return claims(path, f"{kind}.__init__", f"lambda self, *args, **options: (was(self, *args, **options), {then})[0]", rows)


WEIGHTS, ATTENTION, POSITIONS = "nn/functional/attention.py", "nn/attention.py", "nn/position.py"
RNN, ADDITIVE = "nn/recurrent.py", "nn/additive_attention.py"
MODEL, STACKS, MODELS = "models/transformer.py", "models/encoder_decoder.py", "models/architectures.py"
NOTES = {
    "weights are not scaled": claims(
        WEIGHTS, "attention_weights", "lambda q, k, mask=None, is_causal=False, scale=None: was(q, k, mask, is_causal, 1.0)",
        "A6 A12 A13 A15 A16"),
    "weights are uniform": claims(
        WEIGHTS, "attention_weights", "lambda q, *args: was(q * 0, *args)", "G31 A47 M3 A25 A26 E2"),
    "weights sum to 1 over the queries": claims(
        WEIGHTS, "attention_weights", "lambda q, k, *args: was(k, q, *args).mT", "A1 A3 L2 E36"),
    "packed heads are interleaved": claims(
        WEIGHTS, "packed_attention", "lambda packed, heads, *args, **options: was("
        "packed.reshape(*packed.shape[:2], 3, -1, heads).mT.reshape(*packed.shape), heads, *args, **options)", "A10 A13 R2 C2"),
    "the future is not masked": after(ATTENTION, "Attention", "setattr(self, 'causal', False)", "A1 A5 G11 E7 A34"),
    "the future is always masked": after(ATTENTION, "Attention", "setattr(self, 'causal', 'mask')", "C7 A46"),
    "queries and keys are exchanged": claims(
        ATTENTION, "Attention.project", "lambda self, *args: (lambda q, k, v: (k, q, v))(*was(self, *args))", "A4 G11 E14 L2"),
    "keys are other tokens'": claims(
        ATTENTION, "Attention.project", "lambda self, *args: (lambda q, k, v: (q, k.flip(2), v))(*was(self, *args))", "A2 A3 E1"),
    "values are keys": claims(
        ATTENTION, "Attention.project", "lambda self, *args: (lambda q, k, v: (q, k, k))(*was(self, *args))", "A11 E3 E5 A18"),
    "values are not projected": claims(
        ATTENTION, "Attention.project", "lambda self, x, source: (*was(self, x, source)[:2], self._split(source, None))",
        "A7 A8 A9"),
    "heads are cut across features": claims(
        ATTENTION, "Attention._split", "lambda self, x, projection, heads=None: was(self, x, None, heads) if projection is None"
        " else projection(x).reshape(*x.shape[:2], -1, heads or self.heads).permute(0, 3, 1, 2)", "A10 A12"),
    "all heads are the first": claims(
        ATTENTION, "Attention._split", "lambda self, *args: (lambda heads: heads[:, :1].expand(*heads.shape))(was(self, *args))",
        "A45 E9"),
    "heads stand from the last to the first": claims(
        ATTENTION, "Attention._merge", "lambda self, heads: was(self, heads.flip(1))", "A13 A14 E9"),
    "heads are mixed up": claims(
        ATTENTION, "Attention._merge", "lambda self, heads: was(self, heads.transpose(1, 2).reshape(*heads.shape))",
        "A6 A12 E25"),
    "the factors for d_k and d_model are exchanged": claims(
        ATTENTION, "Attention._factor",
        "lambda self, scale: was(self, {'d_k': 'd_model', 'd_model': 'd_k'}.get(scale, scale))", "A14 A15"),
    "scores are never scaled": claims(ATTENTION, "Attention._factor", "lambda self, scale: 1.0", "A9 A16 A17 A21"),
    "distances have the other sign": claims(
        ATTENTION, "Attention.position_bias", "lambda self, queries, keys: was(self, keys, queries).mT", "A20 P8"),
    "rotary positions are ignored": claims(ATTENTION, "Attention._rotation", "lambda self, x: None", "P8"),
    "positions are not added": claims(
        POSITIONS, "PositionEncoding.forward", "lambda self, x, start=0: x if self.combine == 'add' else was(self, x, start)",
        "P1 P4 A22 A23 A45 E38"),
    "learned positions are one": claims(
        POSITIONS, "PositionEncoding.table", "lambda self, T, start=0: was(self, 1).expand(T, self.position_width)", "E38"),
    "sines alone are sinusoids": claims(POSITIONS, "FIXED['sine_only']", "FIXED['sinusoidal']", "P5 E11"),
    "additive attention sees padding": claims(ADDITIVE, "AdditiveAttention.forward", "lambda self, s, h, mask=None: was(self, s, h)",
                                              "A19 E10"),
    "additive attention looks at all alike": claims(
        ADDITIVE, "AdditiveAttention.forward",
        "lambda self, s, h, mask=None: (lambda weights: (weights @ h, weights))(was(self, 0 * s, 0 * h, mask)[1])", "G7 G32"),
    "the first state is ignored": claims(RNN, "RNN.forward", "lambda self, x, h_0=None: was(self, x)", "G4 G8"),
    "a recurrent network forgets": claims(
        RNN, "RNN._run", "lambda self, x, name, h: (lambda time: [was(self, x.select(time, t).unsqueeze(time), name, None)[0]"
        " for t in range(x.shape[time])])(self._time_axis(x))", "C2 C7 G6 G8 G11 G33 A46"),
    "a recurrent network reads from the end": claims(
        RNN, "RNN._run", "lambda self, x, name, h: was(self, x.flip(self._time_axis(x)), name, h)", "G4 G32"),
    "a stack has no positions": claims(
        STACKS, "Stack.embed",
        "lambda self, tokens: self.dropout(self.token_embedding(tokens) if tokens.dtype.kind == 'i' else tokens)",
        "L3 A22 A23 P1 P3 G2"),
    "an encoder sees padding": claims(STACKS, "Encoder.forward", "lambda self, tokens, padding=None: was(self, tokens)", "G2 G9"),
    "the padding of the memory is seen": claims(
        STACKS, "Decoder.forward", "lambda self, tokens, memory, padding=None: was(self, tokens, memory)", "G2 G3 A18"),
    "the final norm is left out": after(STACKS, "Stack", "setattr(self, 'ln_f', nn.Identity())", "R7 L3 A22"),
    "blocks are left out": after(STACKS, "Stack", "setattr(self, 'blocks', nn.ModuleList([]))", "L3 G2 G3 G10"),
    "the first block again and again": after(
        STACKS, "Stack", "setattr(self, 'blocks', nn.ModuleList([self.blocks[0]] * len(self.blocks)))", "L3"),
    "cross attention has the norm of self-attention": after(
        MODEL, "Block", "setattr(self, 'ln_context', self.ln_1) if hasattr(self, 'cross_attention') else None", "G2 A18"),
    "a decoder attends to itself": claims(
        MODEL, "Block.forward", "lambda self, x, padding=None, memory=None, memory_padding=None: "
        "was(self, x, padding, None if memory is None else x)", "G3 E26"),
    "attention is left out": after(MODEL, "Block", "setattr(self, 'attends', False)", "G10 R0 C3 R1"),
    "a block has no residual connection": after(
        MODEL, "Block", "setattr(self, 'placement', tuple(dataclasses.replace(part, residual=None) for part in self.placement))",
        "R1 R8 R2 R4 E15 G1 C6 R18"),
    "post and pre are exchanged": claims(MODEL, "PLACEMENTS", "was | {'post': was['pre'], 'pre': was['post']}", "C5 R2 R3"),
    "MLPs have no activation": after(MODEL, "MLP", "setattr(self.expand, 'activation', None)", "M1 G21"),
    "layer norm is RMS norm": claims(
        "nn/layer_norm.py", "LayerNorm.forward",
        "lambda self, x: F.rms_norm(x, self.normalized_shape, self.weight, self.eps)", "N6 N17"),
    "targets are the inputs": claims(
        "models/data.py", "windows", "lambda *args, **options: ((inputs, inputs) for inputs, _ in was(*args, **options))", "T2"),
    "the model with attention is the one without": claims(
        MODELS, "ARCHITECTURES['sequence']", "was | {'rnn': was['rnn-attention'], 'rnn-attention': was['rnn']}", "G6 G7 G32"),
}

SAVING = "tests/minigrad/test_serialization.py", "tests/models/test_checkpoint.py"
FILES = {
    "a file is not flushed": Row("minigrad/serialization.py", "os.fsync", "lambda descriptor: None", SAVING[:1]),
    "a file is written in place": Row(
        "minigrad/serialization.py", "replacing", "contextlib.contextmanager(lambda path, previous=None: "
        "(lambda file: ((yield file), file.close()))(open(path, 'wb')))", SAVING[:1]),
    "the checkpoint before is not kept": Row(
        "minigrad/serialization.py", "replacing", "lambda path, previous=None: was(path)", SAVING[1:]),
    "a damaged file is read": Row("minigrad/serialization.py", "zipfile.ZipExtFile._update_crc", "lambda self, data: None", SAVING[1:]),
    "masks of a resumed run begin anew": Row(
        "models/train.py", "Trainer.restore", "lambda self, *args: (was(self, *args), mg.manual_seed(0))[0]",
        ("tests/models/test_train.py::resume",)),
    "batches of a resumed run begin anew": Row(
        "models/train.py", "Trainer.restore",
        "lambda self, *args: (was(self, *args), setattr(self, 'generator', np.random.default_rng(0)))[0]",
        ("tests/models/test_train.py::resume",)),
    "two processes train one run": Row(
        "models/run.py", "locked", "lambda *args: contextlib.nullcontext()", ("tests/models/test_run.py::lock",)),
    "kernels of other sources are taken": Row(
        "minigrad/fast/kernels/cache.py", "_source_hash", "lambda sources: 'any'", ("tests/minigrad/fast/kernels/test_cache.py",)),
}
SANDBOX, WORKER = ("tests/study/exercises/test_sandbox.py",), "study/exercises/worker/guard.py"
PROCESSES = {
    "results come in another order": Row(
        "models/processes.py", "in_order", "lambda *args: iter([*was(*args)][::-1])", ("tests/models/test_processes.py",)),
    "a rank sums its own": Row(
        "models/distributed.py", "Ranks.sum", "lambda self, values: np.asarray(values)", ("tests/models/test_distributed.py",)),
    "every rank has the rows of the first": Row(
        "models/distributed.py", "Alone.rows", "lambda self, size: slice(0, size // self.size)",
        ("tests/models/test_distributed.py",)),
    "gradients are not summed": Row(
        "models/distributed.py", "GradientSums._send", "lambda self: None", ("tests/models/test_distributed.py",)),
    "what an answer started lives on": Row("study/exercises/sandbox.py", "os.killpg", "os.kill", SANDBOX),
    "an answer is asked to end": Row("study/exercises/sandbox.py", "signal.SIGKILL", "signal.SIGTERM", SANDBOX),
    "an answer has the user's environment": Row("study/exercises/sandbox.py", "ENVIRONMENT", "{**os.environ}", SANDBOX),
    "an answer may do anything": Row(WORKER, "Guard.hear", "lambda self, event, arguments: None", SANDBOX),
    "an answer may read anything": Row(WORKER, "Guard.is_readable", "lambda self, path: True", SANDBOX),
    "an answer may write anywhere": Row(WORKER, "Guard.is_own", "lambda self, path: True", SANDBOX),
    "what is refused is forgotten": Row(WORKER, "Guard.refuse", "lambda self, *args: None", SANDBOX),
    "Ctrl-C is obeyed amid a pass": Row(
        "minigrad/fast/kernels/interrupts.py", "postponed", "contextlib.nullcontext", (
            "tests/minigrad/fast/kernels/test_interrupts.py",)),
}
PYTHON, COMPILED = ("tests/minigrad/fast/test_compiled_python.py",), ("tests/minigrad/fast/test_compiled",)
TAPE, OPS, GATE = ("tests/minigrad/test_tape.py", "tests/minigrad/test_in_place.py"), ("tests/minigrad/test_ops.py",), (
    "tests/minigrad/fast/kernels/test_jit.py",)
COMPILING = "minigrad/fast/compiling"
ENGINE = {
    "steps: variables are not looked at": Row(
        f"{COMPILING}/surroundings.py", "Surroundings.to_check", "lambda self, apart: []", PYTHON),
    "steps: any transcript will do": Row(f"{COMPILING}/transcript.py", "Transcript.difference", "lambda self, before: None", PYTHON),
    "steps: what a step changes is taken": Row(f"{COMPILING}/compiled.py", "_refuse_changes", "lambda around, changed: None", PYTHON),
    "steps: inputs lie apart": Row(f"{COMPILING}/compiled.py", "_Captured.may_write_to", "lambda self, inputs: False", PYTHON),
    "steps: strides of inputs are not looked at": Row(f"{COMPILING}/compiled.py", "_form", "lambda x: was(x)[:2]", COMPILED),
    "steps: modes are not looked at": Row(f"{COMPILING}/compiled.py", "_modes", "lambda: (0, True, True)", COMPILED),
    "steps: nothing is refused": Row(f"{COMPILING}/capture.py", "Capture.refuse", "lambda self, what, instead: None", COMPILED),
    "steps: values may be read": Row(f"{COMPILING}/capture.py", "Capture.refuse_read", "lambda self, tensor: None", COMPILED),
    "memory that is in use is given out": Row(
        "minigrad/fast/pool.py", "Pool.empty", "lambda self, shape, dtype: np.ndarray(shape, dtype, vars(self).setdefault("
        "'one', {}).setdefault(np.dtype(dtype).itemsize * math.prod(shape), np.empty(np.dtype(dtype).itemsize * math.prod(shape), 'u1')))",
        OPS),
    "writes are not noted": Row("minigrad/arrays/versions.py", "note_write", "lambda *arrays, is_on_tape=False: None", TAPE[1:]),
    "writes on the tape are noted as others": Row(
        "minigrad/arrays/versions.py", "note_write", "lambda *arrays, is_on_tape=False: was(*arrays)", TAPE[1:]),
    "saved arrays may have changed": Row("minigrad/tape.py", "Op._check_saved", "lambda self: None", TAPE[1:]),
    "no implementation takes over": Row("minigrad/tape.py", "chosen", "lambda op, inputs: op", ("tests/minigrad/fast/",)),
    "gradients are kept without a copy": Row(
        "minigrad/runner.py", "Runner.accumulate", "lambda self, node, gradient, is_fresh: was(self, node, gradient, True)", OPS),
    "of what was broadcast, one place has the gradient": Row(
        "minigrad/runner.py", "unbroadcast", "lambda gradient, shape, where='': gradient[(0,) * (gradient.ndim - len(shape))]"
        "[tuple(slice(1) if n == 1 else slice(None) for n in shape)]", OPS),
    "the gate lets strides through": Row(
        "minigrad/fast/kernels/jit.py", "ready",
        "lambda array: array if array.flags.aligned and array.flags.writeable else was(array)", GATE),
    "the gate lets read-only arrays through": Row(
        "minigrad/fast/kernels/jit.py", "ready",
        "lambda array: array if array.flags.aligned and array.flags.c_contiguous else was(array)", GATE),
    "code for other types is called": Row(
        "minigrad/fast/kernels/jit.py", "resolved", "lambda function, arguments: (next(iter(function.overloads.values()))"
        ".entry_point, arguments) if getattr(function, 'overloads', None) else was(function, arguments)", GATE),
}
PAGE = ("tests/minigrad/tracing/test_page.py",)
ON_THE_PAGE = {
    "a request": Row("minigrad/tracing/page/page.js", "", 'new Image().src = "http://localhost:9/";', PAGE),
    "a slider without a name": Row(
        "minigrad/tracing/page/page.js", "", 'document.querySelector("[aria-label=Step]").removeAttribute("aria-label");', PAGE),
    "grey is too light": Row("minigrad/tracing/page/page.css", "", ":root { --soft: #b0b6c4; }", PAGE),
    "wide matrices widen the page": Row("minigrad/tracing/page/page.css", "", ".scroll { overflow-x: visible; }", PAGE),
}
TABLES = {"by_hand": NOTES | FILES | PROCESSES | ENGINE, "page": ON_THE_PAGE}

FIRST = "lambda self, x, *rest, **options: was(self, {}, *rest, **options)"
CONTIGUOUS = ("np.lib.stride_tricks.as_strided({0}, strides=np.empty({0}.shape, {0}.dtype).strides) "
              "if isinstance({0}, np.ndarray) and all(step >= 0 for step in {0}.strides) else {0}")
DOUBLE = "{0}.astype(np.float64) if getattr({0}, 'dtype', None) == np.float32 else {0}"
OF_AN_OP = {  # method, and what comes in its place
    "reads input 0 without its strides": ("forward", FIRST.format(CONTIGUOUS.format("x"))),
    "gives float64": ("forward", f"lambda *args, **options: (lambda y: {DOUBLE.format('y')})(was(*args, **options))"),
    "writes to input 0": ("forward", "lambda self, x, *rest, **options: (was(self, x, *rest, **options), x.fill(7))[0]"),
    "reads dout without its strides": ("backward", FIRST.format(CONTIGUOUS.format("x"))),
    "writes to dout": ("backward", "lambda self, x, *rest, **options: (was(self, x, *rest, **options), "
                       "x.fill(7) if isinstance(x, np.ndarray) else None)[0]"),
    "gives no gradient": ("backward", "lambda *args, **options: None"),
}


def rows(package: str) -> Iterator[tuple[str, str, str, str]]:
    """(path, what goes wrong, target, new)"""
    for name, row in TABLES.get(package, {}).items():
        yield from ((row.path, f"{name} ({test})", row.target, row.new) for test in row.tests)
    if package == "arrays":
        for folder in ("minigrad/ops", "minigrad/fast"):
            for file in sorted((ROOT / folder).glob("*.py")):
                for kind in ast.parse(file.read_bytes()).body:
                    methods = {part.name for part in getattr(kind, "body", ()) if isinstance(part, ast.FunctionDef)}
                    if isinstance(kind, ast.ClassDef) and methods >= {"forward", "backward"}:
                        yield from ((f"{folder}/{file.name}", f"{kind.name} {name} (tests/minigrad/test_ops.py::[{kind.name}-)",
                                     f"{kind.name}.{method}", new) for name, (method, new) in OF_AN_OP.items())


def code(target: str, new: str) -> str:
    """What is added to the file."""
    return f"{target} = (lambda was: {new})({target})" if target else new


def tests(name: str) -> tuple[str, str]:
    """The file, or what files' names begin with, and the word that the tests which have to notice have in their name."""
    file, _, word = name.rpartition(" (")[2].removesuffix(")").partition("::")
    return file, word
