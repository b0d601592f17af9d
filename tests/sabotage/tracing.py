"""Sabotages of `mg.trace` and of what is shown of it; and of what notebooks show of tensors and reports."""
from sabotage.edit import edits

TRACE = ("tests/minigrad/tracing/test_trace.py", "-k", "not random_programs")
FORMULAS = ("tests/minigrad/tracing/test_formulas.py",)

HTML = "tests/minigrad/drawing/test_html.py",

SABOTAGES = [
    *edits(TRACE, "minigrad.tracing.trace", {
        "trace: runner not given back": ("Trace.__exit__", "super().__exit__(*exception)", "super()"),
        "trace: variables at the end not named": ("Trace.__exit__", "self._name_variables(self._outermost)", "pass"),
        "trace: what an op does inside is a step": ("Trace.forward", "if self._is_inside:", "if False:"),
        "trace: never spelled out": ("Trace.forward", "self.spelled_out and", "False and"),
        "trace: always spelled out": ("Trace.forward", "self.spelled_out and", ""),
        "trace: the definition's tensor not taken": ("Trace.made", "return self._spelled.pop()", "return tensor"),
        "trace: the definition's result unnamed": (
            "Trace.forward", 'self._fallback[self._traced(result)] = "output", sys.maxsize', "pass"),
        "trace: a Function's backward shows its inside": (
            "Trace.backward", "self._is_inside or not is_tensor(dout)", "self._is_inside"),
        "trace: a second walk adds": ("Trace._keep_gradients", "self._keep_the_last_walk()", "pass"),
        "trace: a gradient in the broadcast shape": (
            "Trace._keep_gradients", "unbroadcast(_copy(gradient), value.shape, step.op)", "_copy(gradient)"),
        "trace: the last use's gradient only": (
            "_add_up", "value.gradient + sent", "sent"),
        "trace: a gradient before its hooks": ("Trace._keep_gradients", "step.output.gradient = _copy(dout)", "pass"),
        "trace: changes in place unseen": (
            "Trace._traced", "known is not None and np.array_equal", "known is not None or np.array_equal"),
        "trace: a write in place cuts": ("Trace._of", "isinstance(node, Identity)", "False"),
        "trace: values not copied": ("Trace._keep", "np.array(tensor.array)", "tensor.array"),
        "trace: given names ignored": ("Trace._keep", 'self._given.get(id(tensor), "")', '""'),
        "trace: a tensor's own name ignored": (
            "Trace._name_variables", "kept.name = tensor.name", "pass"),
        "trace: the innermost name wins": ("Trace._name_variables", "and not kept.name", ""),
        "trace: all parts of an expression have its name": (
            "Trace._expect_a_name", "if instruction == self._instruction:", "if False:"),
        "trace: what is returned has no name": ("Trace._expect_a_name", "if name is not None:", "if False:"),
        "trace: an input has no right to its name": ("Trace._name_and_rank", 'if kept.kind == "input"', "if False"),
        "trace: the innermost variable has the name": ("Trace._name_and_rank", "(2, depth, -i)", "(2, -depth, -i)"),
        "trace: the first value has the name": ("Trace._name_and_rank", "(2, depth, -i)", "(2, depth, i)"),
        "trace: leaves accumulate": ("trace", ", found={})", ")"),
        "trace: the given gradient ignored": ("trace", "result.upstream(gradient)", "result.upstream(None)"),
        "trace: inputs not in their order": ("trace", 'kept._traced(value).kind = "input"', "pass"),
        "trace: inputs learn nothing": ("_leaf", 'requires_grad=array.dtype.kind == "f"', "requires_grad=False"),
        "trace: results' gradients not in JSON": (
            "Trace.as_dict", '"gradient": plain(t.gradient)', '"gradient": None'),
    }),
    *edits(TRACE, "minigrad.tracing.names", {
        "names: globals unseen": ("tensors_in", "{**used, **frame.f_locals}", "frame.f_locals"),
        "names: parameters unseen": ("tensors_in", "yield from value.named_parameters()", "pass"),
        "names: definitions unseen": ("has_names", "or _is_spelled_out(frame) ", ""),
        "names: inwards first": ("frames_within", "found[::-1]", "found"),
        "names: the library's variables": ("has_names", "not frame.f_code.co_filename.startswith(INSIDE)", "True"),
        "names: not those of what is traced": ("has_names", "frame.f_code is traced or ", ""),
        "names: the library's tensors beside its parameters": ("tensors_in", "if has_names:", "if True:"),
        "names: numbers from 2": ("numbered", "counts[name] += 1", "counts[name] += 2"),
        "names: the first has it": ("numbered", "key=lambda item: ranks[item[0]]", "key=lambda item: item[0]"),
        "names: a name twice": ("numbered", "if i != keeper[name]:", "if False:"),
    }),
    *edits(TRACE, "minigrad.tracing.plain", {
        "json: infinity as a number": ("plain", "value if math.isfinite(value)", "value if value == value"),
        "json: 64 bits as a number": ("plain", "value if abs(value) <= 2**53 else str(value)", "value"),
        "json: infinities positive": ("plain", 'if value > 0 else "-Infinity"', 'if True else "-Infinity"'),
    }),
    *edits(TRACE, "minigrad.tracing.steps", {
        "table: backward in forward's order": ("as_table", "reversed(ran)", "ran"),
        "table: gradients left out": ("as_table", "if totals:", "if False:"),
        "table: what was sent left out": ("as_table", "if sent is not None]", "if False]"),
    }),
    *edits(FORMULAS, "minigrad.tracing.formulas", {
        "formula: from a docstring of its own only": ("formula", "op.__mro__", "(op,)"),
        "formula: from the first line only": ("formula", '.partition("\\n\\n")', '.partition("\\n")'),
        "formula: lines not joined": ("formula", 're.sub(r"\\n\\s*", "  ", paragraph)', "paragraph"),
        "formula: any sentence with a colon": ("formula", '.partition(":  ")', '.partition(":")'),
    }),
    *edits(FORMULAS, "minigrad.autograd.function", {
        "formula: a Function's docstring unread": ("Function.apply", '"__doc__": cls.__doc__', '"__doc__": None'),
    }),
    *edits(TRACE, "minigrad.drawing.graph", {
        "graph: values left out": ("Graph.numbers", "if self.values and", "if False and"),
        "graph: gradients left out": ("Graph.numbers", "if self.gradients and", "if False and"),
        "graph: values unasked": ("Graph.numbers", "if self.values and", "if"),
        "graph: what was not kept drawn without a word": ("graph_of", "if (values or gradients)", "if False"),
    }),
    *edits(HTML, "minigrad.drawing.html", {
        "html: tensors not escaped": ("html_of_tensor", "{escape(name)}", "{name}"),
        "html: reports not escaped": ("html_of_report", "{escape(text)}", "{text}"),
        "html: verdicts of one colour": ("html_of_report", "COLOURS[verdict]", "COLOURS[min(COLOURS)]"),
        "html: gradient left out": ("html_of_tensor", "() if gradient is None else (gradient,)", "()"),
        "html: all numbers of any tensor": ("_numbers", "if array.size > MOST_NUMBERS or columns > MOST_COLUMNS or array.size == 0:",
            "if False:"),
        "html: any number of columns": ("_numbers", "columns > MOST_COLUMNS or", ""),
        "html: any number of numbers": ("_numbers", "array.size > MOST_NUMBERS or", ""),
        "html: parts without index": ("_numbers", "if index else", "if False else"),
        "html: one colour for both signs": ("_cell", "BLUE if value > 0 else RED", "BLUE"),
        "html: colours whatever the size": ("_cell", "abs(float(value)) / largest if largest else 0.0", "1.0"),
        "html: no finite number has a size": ("_cell", "if not np.isfinite(value):", "if False:"),
        "html: all digits": ("_cell", 'f"{value:.{DIGITS}g}" if', "str(value) if"),
        "html: a summary of what is not finite": ("summary", "array[np.isfinite(array)].astype", "array.astype"),
        "html: a summary warns of overflow": ("summary", 'over="ignore"', 'over="warn"'),
    }),
    *edits(HTML, "minigrad.tensor", {
        "html: looking makes a Tensor of the gradient": ("Tensor._repr_html_", "self.grad_array()",
            "None if self.grad is None else self.grad.array"),
        "html: names left out": ("Tensor._repr_html_", "self.name or", "self.name and"),
        "html: requires_grad left out": ("Tensor._repr_html_", "if self.requires_grad else", "if False else"),
    }),
]
