"""Inspection: hooks, anomalies, names, and drawings of the graph."""
import xml.etree.ElementTree

import numpy as np
import pytest

import minigrad as mg
import nn


def leaf(*values):
    return mg.tensor(values, dtype=mg.float64, requires_grad=True)


GAIN = leaf(2.0)  # a global that a test uses


def test_a_hook_sees_the_whole_gradient_once_and_may_replace_it():
    x, seen = leaf(1.0, 2.0), []
    y = x * 2.0
    handle = y.register_hook(lambda g: seen.append(g.tolist()))
    y.register_hook(lambda g: g * 10.0)
    (y * y + y).backward(mg.ones(2), retain_graph=True)
    assert seen == [[5.0, 9.0]] and x.grad.tolist() == [100.0, 180.0]
    handle.remove()
    x.grad = None
    (y + 0.0).backward(mg.ones(2))
    assert len(seen) == 1 and x.grad.tolist() == [20.0, 20.0]


def test_a_hook_on_a_leaf_comes_before_accumulation():
    x = leaf(1.0)
    x.register_hook(lambda g: -g)
    for times in (1, 2):
        (x * 3.0).backward()
        assert x.grad.item() == -3.0 * times


def test_a_wrong_result_of_a_hook_is_refused():
    x = leaf(1.0, 2.0)
    x.register_hook(lambda g: g.sum())
    with pytest.raises(RuntimeError, match=r"None or a Tensor of shape \(2,\), got \(\)"):
        (x * 1.0).backward(mg.ones(2))


@pytest.mark.parametrize("make", [mg.detect_anomaly, mg.count_flops])
def test_an_observer_cannot_observe_itself(make):
    observer, x = make(), leaf(1.0)
    for _ in range(2):  # one after the other is allowed
        with observer, make():
            with pytest.raises(RuntimeError, match="already entered; make another one"):
                with observer:
                    pass
            assert (x * 2.0).item() == 2.0


def test_an_anomaly_in_forward_names_op_place_and_line():
    with mg.detect_anomaly():
        x = leaf(1.0, 0.0)
        with pytest.raises(RuntimeError, match=r"Log made -inf at \(1,\) from finite inputs, applied in .*test_inspection"):
            x.log()
        masked = x.masked_fill(x == 0, -np.inf)  # an infinity on purpose
        masked.softmax(0).backward(mg.ones(2))
    assert np.isneginf(x.log().array[1])  # no error outside


def test_an_anomaly_in_backward_names_op_input_and_line():
    with mg.detect_anomaly():
        x = leaf(0.0, 4.0)
        y = x.sqrt()  # this line
        with pytest.raises(RuntimeError, match="backward of Sqrt made a NaN or infinity at .* input 0 .*# this line"):
            y.backward(mg.ones(2))


def named_graph():
    x, w = leaf(1.0, 2.0), leaf(3.0, 4.0)
    x.name = "x"
    y = x * w
    y.name = "y"
    return mg.graph((y + x).sum(), names={'w "quoted" <1>': w})


def test_the_graph_as_text():
    assert [line.split() for line in str(named_graph()).splitlines()] == [
        ["0", "x", "(2,)", "input"],
        ["1", "w", '"quoted"', "<1>", "(2,)", "input"],
        ["2", "y", "=", "Mul", "(2,)", "from", "0,", "1"],
        ["3", "Add", "(2,)", "from", "2,", "0"],
        ["4", "Sum", "()", "from", "3"],
    ]


def test_the_graph_as_mermaid_and_svg():
    graph = named_graph()
    mermaid = graph.mermaid().splitlines()
    assert mermaid[0] == "flowchart TD" and "    n2 --> n3" in mermaid and len(mermaid) == 1 + 5 + 5
    assert '    n1(["w #34;quoted#34; #60;1#62;<br/>(2,)"])' in mermaid
    tree = xml.etree.ElementTree.fromstring(graph.svg())
    texts = [element.text for element in tree.iter("{http://www.w3.org/2000/svg}text")]
    assert "y = Mul" in texts and 'w "quoted" <1>' in texts
    assert len([e for e in tree.iter("{http://www.w3.org/2000/svg}path") if "marker-end" in e.attrib]) == 5


def labels_of(graph):
    return [graph.label(i) for i in range(len(graph.boxes))]


def test_the_graph_has_the_names_that_its_caller_sees():
    _ = _12 = leaf(2.0)  # what a notebook's cells returned
    rate, given, layer = leaf(1.0), leaf(3.0), nn.Linear(1, 1).double()
    given.name = "by hand"
    hidden = layer(rate * given) + _
    loss = (hidden * GAIN).sum()
    assert labels_of(mg.graph(loss)) == [
        "GAIN", "input", "rate", "by hand", "weight", "bias", "Mul", "Linear", "hidden = Add", "Mul", "loss = Sum"]
    assert labels_of(mg.graph(loss, names={"last": rate}))[2] == "last"


def test_operands_stand_and_arrows_end_in_order():
    x, w = leaf([1.0, 2.0], [3.0, 4.0]), leaf([1.0, 0.0], [0.0, 1.0])
    product = w @ x  # x is the older one
    tree = xml.etree.ElementTree.fromstring(mg.graph(product * product - w).svg())
    found = list(tree.iter("{http://www.w3.org/2000/svg}text"))
    left = {text.text: int(text.attrib["x"]) for text in found}
    assert left["w"] < left["x"]
    ends = [path.attrib["d"].rpartition("C")[2].split()[-2:] for path in tree.iter("{http://www.w3.org/2000/svg}path")
            if "marker-end" in path.attrib]
    assert len(set(map(tuple, ends))) == 6  # two of each of the three results
    for row in {y for _, y in ends}:
        x_first, x_second = [int(x) for x, its_row in ends if its_row == row]
        assert x_first < x_second


def test_a_name_is_text_in_mermaid():
    x = mg.ones(2, requires_grad=True)
    x.name = "`<script>alert(1)</script>`\n&#lt;"
    text = mg.graph(x.sum()).mermaid()
    assert "#96;#60;script#62;alert(1)#60;/script#62;#96;#10;#38;#35;lt;<br/>(2,)" in text and len(text.splitlines()) == 1 + 2 + 1
