"""Lists of cases of which a few stand for all: the others are run among the slow tests."""

import pytest


def in_part(cases, left_out, ids=None):
    """The cases as parameters of a test; those whose name is in `left_out` are slow ones."""
    cases = list(cases)
    names = [str(x) for x in cases] if ids is None else list(ids)
    unknown = set(left_out) - set(names)
    assert not unknown, f"no cases of the names {unknown}"
    return [
        pytest.param(x, id=name, marks=pytest.mark.slow if name in left_out else ())
        for x, name in zip(cases, names, strict=True)
    ]
