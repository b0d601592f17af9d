"""Mutants of the library that no generator makes, for tests/mutate.py: wrong versions of the lecture notes' systems, careless
use of files and processes, arrays that are misread.

Tables {what goes wrong: (place, new, tests)}: a name in a file is replaced by an expression, in which `was` is the original.
The replacement is appended to the file as code, so that processes started by tests have it as well. Each of the tests must
notice on its own: a claim of the notes, such as A6, or a test file, with :: those tests whose names match a pattern.
"""
import ast
import pathlib
from collections.abc import Iterator

ROOT = pathlib.Path(__file__).parents[1]
CLAIM = r"tests/study/test_claims.py::\[{}\b"


def made(then: str) -> str:
    """A layer's __init__, followed by an expression in which `self` is the layer."""
    return f"lambda self, *args, **options: (was(self, *args, **options), {then})[0]"


NOTES = {  # the claims of the lecture notes must notice
    "weights are not scaled": ("nn/functional/attention.py attention_weights",
        "lambda q, k, mask=None, is_causal=False, scale=None: was(q, k, mask, is_causal, 1.0)", "A6 A12 A13 A15 A16"),
    "weights are uniform": ("nn/functional/attention.py attention_weights",
        "lambda q, *args: was(q * 0, *args)", "G31 A47 M3 A25 A26 A27 E2"),
    "weights sum to 1 over the queries": ("nn/functional/attention.py attention_weights",
        "lambda q, k, *args: was(k, q, *args).mT", "A1 A3 L2 E36"),
    "packed heads are interleaved": ("nn/functional/attention.py packed_attention",
        "lambda packed, heads, *args, **options: was(packed.reshape(*packed.shape[:2], 3, -1, "
        "heads).mT.reshape(*packed.shape), heads, *args, **options)", "A13 R0 R1 R2"),
    "the future is not masked": ("study/notes/attention.py Attention.__init__",
        made("setattr(self, 'causal', False)"), "A1 A5 G11 E7 A34"),
    "the future is always masked": ("study/notes/attention.py Attention.__init__",
        made("setattr(self, 'causal', True)"), "C7 A46 A48"),
    "queries and keys are exchanged": ("study/notes/attention.py Attention.project",
        "lambda self, *args: (lambda q, k, v: (k, q, v))(*was(self, *args))", "A4 G11 E14 L2"),
    "keys are other tokens'": ("study/notes/attention.py Attention.project",
        "lambda self, *args: (lambda q, k, v: (q, k.flip(-2), v))(*was(self, *args))", "A2 A3 E1"),
    "values are keys": ("study/notes/attention.py Attention.project",
        "lambda self, *args: (lambda q, k, v: (q, k, k))(*was(self, *args))", "A11 E3 E5 A18 A28"),
    "values are not projected": ("study/notes/attention.py Attention.project",
        "lambda self, x, source: (*was(self, x, source)[:2], self._split(source, None))", "A7 A8 A9"),
    "heads are cut across features": ("study/notes/attention.py Attention._split",
        "lambda self, x, projection: was(self, x, None) if projection is None else "
        "projection(x).reshape(*x.shape[:-1], -1, self.heads).transpose(-3, -1).mT", "A10 A12"),
    "all heads are the first": ("study/notes/attention.py Attention._split",
        "lambda self, *args: (lambda heads: heads[..., :1, :, :].expand(*heads.shape))(was(self, *args))", "A45 E9"),
    "heads stand from the last to the first": ("study/notes/attention.py Attention._merge",
        "lambda self, heads: was(self, heads.flip(-3))", "A13 A14 E9 E29"),
    "heads are mixed up": ("study/notes/attention.py Attention._merge",
        "lambda self, heads: was(self, heads.transpose(-3, -2).reshape(*heads.shape))", "A6 A12 E25"),
    "scores are never scaled": ("study/notes/attention.py Attention.__init__",
        made("setattr(self, 'scale', 1.0)"), "A9 A14 A15 A16 A17 A21"),
    "distances have the other sign": ("nn/multi_head_attention.py MultiHeadAttention.position_bias",
        "lambda self, queries, keys, start=0: was(self, keys, queries).mT", "A20 P8"),
    "rotary positions are ignored": ("nn/multi_head_attention.py MultiHeadAttention.rotated",
        "lambda self, x, start=0: x", "P8"),
    "rotary positions are ignored by the kernel": ("nn/multi_head_attention.py MultiHeadAttention._rotation",
        "lambda self, x: None", "tests/nn/test_multi_head_attention.py"),
    "positions are not added": ("nn/position.py PositionEncoding.forward",
        "lambda self, x, start=0: x if self.combine == 'add' else was(self, x, start)", "P1"),
    "learned positions are one": ("nn/position.py PositionEncoding.table",
        "lambda self, T, start=0: was(self, 1).expand(T, self.position_width)", "P3"),
    "sines alone are sinusoids": ("nn/position.py FIXED['sine_only']",
        "FIXED['sinusoidal']", "P5 E11"),
    "additive attention sees padding": ("nn/additive_attention.py AdditiveAttention.forward",
        "lambda self, s, h, mask=None: was(self, s, h)", "A19 E10"),
    "additive attention looks at all alike": ("nn/additive_attention.py AdditiveAttention.forward",
        "lambda self, s, h, mask=None: (lambda weights: (weights @ h, weights))(was(self, 0 * s, 0 * h, mask)[1])",
        "G7"),
    "the first state is ignored": ("nn/recurrent.py RNN.forward",
        "lambda self, x, h_0=None: was(self, x)", "G4 G8"),
    "a recurrent network forgets": ("nn/recurrent.py Recurrent._run",
        "lambda self, x, name, h: (lambda time: [was(self, x.select(time, t).unsqueeze(time), name, (0 * h[0],))[0] for "
        "t in range(x.shape[time])])(self._time_axis(x))", "C2 C7 G6 G8 G11 G22 G23 G24 A46"),
    "a recurrent network reads from the end": ("nn/recurrent.py Recurrent._run",
        "lambda self, x, name, h: was(self, x.flip(self._time_axis(x)), name, h)", "G4 G23 G32"),
    "a stack has no positions": ("models/transformer.py Stack.embed",
        "lambda self, tokens, positions=None: self.dropout(self.token_embedding(tokens) if tokens.dtype.kind == 'i' else tokens)",
        "A22 A23 L3 P1 P3"),
    "an encoder sees padding": ("models/encoder_decoder.py Encoder.forward",
        "lambda self, tokens, padding=None: was(self, tokens)", "G2"),
    "the padding of the memory is seen": ("models/encoder_decoder.py Decoder.forward",
        "lambda self, tokens, memory, memory_padding=None: was(self, tokens, memory)", "G3 A18"),
    "the final norm is left out": ("models/transformer.py Stack.__init__",
        made("setattr(self, 'ln_f', nn.Identity())"), "L3"),
    "blocks are left out": ("models/transformer.py Stack.__init__",
        made("setattr(self, 'blocks', nn.ModuleList([]))"), "L3 G2 G3"),
    "the first block again and again": ("models/transformer.py Stack.__init__",
        made("setattr(self, 'blocks', nn.ModuleList([self.blocks[0]] * len(self.blocks)))"), "L3"),
    "cross attention has the norm of self-attention": ("models/transformer.py Block.__init__",
        made("setattr(self, 'ln_context', self.ln_1) if hasattr(self, 'cross_attention') else None"), "A18"),
    "a decoder attends to itself": ("models/transformer.py Block.forward",
        "lambda self, x, padding=None, memory=None, memory_padding=None: was(self, x, padding, None if memory is "
        "None else x)", "G3 E26"),
    "attention is left out": ("models/transformer.py Block.__init__",
        made("setattr(self, 'attends', False)"), "R0 C3 R1"),
    "a block has no residual connection": ("models/transformer.py Block.__init__",
        made("setattr(self, 'placement', tuple(dataclasses.replace(part, residual=None) for part in "
        "self.placement))"), "R1 R2 R4 R18 E15 G1 C6"),
    "post and pre are exchanged": ("models/transformer.py PLACEMENTS",
        "was | {'post': was['pre'], 'pre': was['post']}", "C5 N18 R2 R3"),
    "MLPs have no activation": ("models/transformer.py MLP.__init__",
        made("setattr(self.expand, 'activation', None)"), "M1 G21"),
    "layer norm is RMS norm": ("nn/layer_norm.py LayerNorm.forward",
        "lambda self, x: F.rms_norm(x, self.normalized_shape, self.weight, self.eps)", "N6 N17 N19"),
    "targets are the inputs": ("models/data.py windows",
        "lambda *args, **options: ((inputs, inputs) for inputs, _ in was(*args, **options))", "T2"),
    "the model with attention is the one without": ("models/architectures.py ARCHITECTURES['sequence']",
        "was | {'rnn': was['rnn-attention'], 'rnn-attention': was['rnn']}", "G6 G7"),
}
FILES_AND_PROCESSES = {  # and what an answer of a student may do
    "a file is not flushed": ("minigrad/serialization.py os.fsync",
        "lambda descriptor: None", "tests/minigrad/test_serialization.py"),
    "a file is written in place": ("minigrad/serialization.py replacing",
        "contextlib.contextmanager(lambda path, previous=None: (lambda file: ((yield file), "
        "file.close()))(open(path, 'wb')))", "tests/minigrad/test_serialization.py"),
    "the checkpoint before is not kept": ("minigrad/serialization.py replacing",
        "lambda path, previous=None: was(path)", "tests/models/test_checkpoint.py"),
    "a damaged file is read": ("minigrad/serialization.py zipfile.ZipExtFile._update_crc",
        "lambda self, data: None", "tests/models/test_checkpoint.py"),
    "masks of a resumed run begin anew": ("models/train.py Trainer.restore",
        "lambda self, *args: (was(self, *args), mg.manual_seed(0))[0]", "tests/models/test_run.py::resumed"),
    "batches of a resumed run begin anew": ("models/train.py Trainer.restore",
        "lambda self, *args: (was(self, *args), setattr(self, 'generator', np.random.default_rng(0)))[0]",
        "tests/models/test_run.py::resumed"),
    "two processes train one run": ("models/run.py locked",
        "lambda *args: contextlib.nullcontext()", "tests/models/test_run.py::lock"),
    "kernels of other sources are taken": ("minigrad/fast/kernels/cache.py _source_hash",
        "lambda sources: 'any'", "tests/minigrad/fast/kernels/test_cache.py"),
    "a rank sums its own": ("models/distributed.py Ranks.sum",
        "lambda self, values: np.asarray(values)", "tests/models/test_distributed.py"),
    "every rank has the rows of the first": ("models/distributed.py Alone.rows",
        "lambda self, size: slice(0, size // self.size)", "tests/models/test_distributed.py"),
    "gradients are not summed": ("models/distributed.py Ranks.sum_gradients",
        "lambda self, parameters: None", "tests/models/test_distributed.py"),
    "what an answer started lives on": ("study/exercises/sandbox.py os.killpg",
        "os.kill", "tests/study/exercises/test_sandbox.py"),
    "an answer is asked to end": ("study/exercises/sandbox.py signal.SIGKILL",
        "signal.SIGTERM", "tests/study/exercises/test_sandbox.py"),
    "an answer has the user's environment": ("study/exercises/sandbox.py ENVIRONMENT",
        "{**os.environ}", "tests/study/exercises/test_sandbox.py"),
    "a clock does not end an answer": ("study/exercises/sandbox.py Sandbox._in_time",
        "lambda self: None", "tests/study/exercises/test_sandbox.py"),
}
ENGINE = {  # captured steps, memory, the tape, kernels
    "steps: variables are not looked at": ("minigrad/fast/compiling/capture.py Capture._variables",
        "lambda self: iter(())", "tests/minigrad/fast/test_contract.py"),
    "steps: any transcript will do": ("minigrad/fast/compiling/transcript.py Transcript.difference",
        "lambda self, before: None", "tests/minigrad/fast/test_contract.py"),
    "steps: what a step changes is taken": ("minigrad/fast/compiling/reached.py Snapshot.changes",
        "lambda self: []", "tests/minigrad/fast/test_contract.py"),
    "steps: inputs lie apart": ("minigrad/fast/compiling/capture.py Capture.check",
        "lambda self, inputs: None", "tests/minigrad/fast/test_contract.py"),
    "steps: strides of inputs are not looked at": ("minigrad/fast/compiling/compiled.py _form",
        "lambda x: was(x)[:2]", "tests/minigrad/fast/test_compiled"),
    "steps: modes are not looked at": ("minigrad/fast/compiling/compiled.py _modes",
        "lambda: (0, True, True)", "tests/minigrad/fast/test_compiled"),
    "steps: values may be read": ("minigrad/fast/compiling/capture.py Capture.notice",
        "lambda self, *given: None", "tests/minigrad/fast/test_compiled"),
    "memory that is in use is given out": ("minigrad/fast/pool.py Pool.empty",
        "lambda self, shape, dtype: np.ndarray(shape, dtype, vars(self).setdefault('one', "
        "{}).setdefault(np.dtype(dtype).itemsize * math.prod(shape), np.empty(np.dtype(dtype).itemsize * "
        "math.prod(shape), 'u1')))", "tests/minigrad/test_ops.py"),
    "writes are not noted": ("minigrad/arrays/versions.py note_write",
        "lambda *arrays, is_on_tape=False: None", "tests/minigrad/test_in_place.py"),
    "writes on the tape are noted as others": ("minigrad/arrays/versions.py note_write",
        "lambda *arrays, is_on_tape=False: was(*arrays)", "tests/minigrad/test_in_place.py"),
    "saved arrays may have changed": ("minigrad/arrays/versions.py check_unchanged",
        "lambda title, arrays, since: None", "tests/minigrad/test_in_place.py"),
    "no implementation takes over": ("minigrad/implementations.py chosen",
        "lambda op, inputs: op", "tests/minigrad/fast/"),
    "gradients are added to arrays that others hold": ("minigrad/runner.py Runner.add",
        "lambda self, total, gradient, in_place: was(self, total, gradient, True)", "tests/minigrad/"),
    "of what was broadcast, one place has the gradient": ("minigrad/runner.py unbroadcast",
        "lambda gradient, shape, where='': gradient[(0,) * (gradient.ndim - len(shape))][tuple(slice(1) if n == 1 "
        "else slice(None) for n in shape)]", "tests/minigrad/test_ops.py"),
    "the gate lets strides through": ("minigrad/fast/kernels/jit.py ready",
        "lambda array: array if array.flags.aligned and array.flags.writeable else was(array)",
        "tests/minigrad/fast/kernels/test_jit.py"),
    "the gate lets read-only arrays through": ("minigrad/fast/kernels/jit.py ready",
        "lambda array: array if array.flags.aligned and array.flags.c_contiguous else was(array)",
        "tests/minigrad/fast/kernels/test_jit.py"),
    "code for other types is called": ("minigrad/fast/kernels/jit.py resolved",
        "lambda function, arguments: (next(iter(function.overloads.values())).entry_point, arguments) if "
        "getattr(function, 'overloads', None) else was(function, arguments)", "tests/minigrad/fast/kernels/test_jit.py"),
}
PAGE = {  # code to append, as there are no names to replace
    "a request": ("minigrad/tracing/page/page.js",
        'new Image().src = "http://localhost:9/";', "tests/minigrad/tracing/test_page.py"),
    "a slider without a name": ("minigrad/tracing/page/page.js",
        'document.querySelector("[aria-label=Step]").removeAttribute("aria-label");',
        "tests/minigrad/tracing/test_page.py"),
    "grey is too light": ("minigrad/tracing/page/page.css",
        ":root { --soft: #b0b6c4; }", "tests/minigrad/tracing/test_page.py"),
    "wide matrices widen the page": ("minigrad/tracing/page/page.css",
        ".scroll, .matrix { overflow: visible; }", "tests/minigrad/tracing/test_page.py"),
}
TABLES = {"by_hand": NOTES | FILES_AND_PROCESSES | ENGINE, "page": PAGE}

FIRST = "lambda self, x, *rest, **options: was(self, {}, *rest, **options)"
CONTIGUOUS = ("np.lib.stride_tricks.as_strided({0}, strides=np.empty({0}.shape, {0}.dtype).strides) "
              "if isinstance({0}, np.ndarray) and all(step >= 0 for step in {0}.strides) else {0}")
DOUBLE = "{0}.astype(np.float64) if getattr({0}, 'dtype', None) == np.float32 else {0}"
OF_AN_OP = {  # {what goes wrong: (method, its replacement)}
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
    for name, (place, new, tests) in TABLES.get(package, {}).items():
        path, _, target = place.partition(" ")
        for test in tests.split():
            yield path, f"{name} ({test if '/' in test else CLAIM.format(test)})", target, new
    if package == "arrays":
        for folder in ("minigrad/ops", "minigrad/fast"):
            for file in sorted((ROOT / folder).glob("*.py")):
                for kind in ast.parse(file.read_bytes()).body:
                    methods = {part.name for part in getattr(kind, "body", ()) if isinstance(part, ast.FunctionDef)}
                    if isinstance(kind, ast.ClassDef) and methods >= {"forward", "backward"}:
                        for name, (method, new) in OF_AN_OP.items():
                            its = f"{kind.name} {name} (tests/minigrad/test_ops.py::\\[{kind.name}\\b)"
                            yield f"{folder}/{file.name}", its, f"{kind.name}.{method}", new


def code(target: str, new: str) -> str:
    """What is appended to the file."""
    return f"{target} = (lambda was: {new})({target})" if target else new


def tests(name: str) -> tuple[str, str]:
    """The file, or a prefix of file names, and the pattern of the tests that must notice."""
    file, _, pattern = name.rpartition(" (")[2].removesuffix(")").partition("::")
    return file, pattern
