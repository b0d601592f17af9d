"""What a command says when it refuses."""


def one_line(code_and_output: tuple[int, str, str], says: str, codes: tuple[int, ...] = (1, 2)) -> None:
    """AssertionError unless the command ended with one of the codes, and one line on stderr that says this."""
    code, out, err = code_and_output
    assert code in codes, err
    assert out == ""
    assert err.startswith("minigrad: error: ") and err.count("\n") == 1 and err.endswith("\n"), err
    assert says in err
