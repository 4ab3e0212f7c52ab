"""Tables of explicit Runge-Kutta methods, each made when it is first asked for.

z_i = y_0 + h sum_{j<i} a_ij k_j,    k_i = f(t_0 + c_i h, z_i),    y_1 = y_0 + h sum_i b_i k_i
"""

from __future__ import annotations

from fractions import Fraction
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from . import dop853_numbers


class Tableau(NamedTuple):
    """Coefficients of the stages after the first, of the solution and of its errors.

    `a_lower` has one row for each stage after the first and `c` their nodes; `b_error` weighs the k
    of an estimate of the error, `b_third` those of a second one.
    """

    a_lower: tuple[np.ndarray, ...]
    b_sol: np.ndarray
    b_error: np.ndarray
    c: np.ndarray
    b_third: np.ndarray | None = None


@cache
def second_order(c: float) -> Tableau:
    """The method of order 2 whose second stage is at `c`; its error is the distance to Euler's."""
    share = 1 / (2 * c)
    return Tableau(
        a_lower=(np.array([c]),),
        b_sol=np.array([1 - share, share]),
        b_error=np.array([share, -share]),
        c=np.array([c]),
    )


@cache
def kutta() -> Tableau:
    """The classical method of order 4, which has no estimate of its error."""
    return Tableau(
        a_lower=(np.array([0.5]), np.array([0.0, 0.5]), np.array([0.0, 0.0, 1.0])),
        b_sol=np.array([1 / 6, 1 / 3, 1 / 3, 1 / 6]),
        b_error=np.zeros(4),
        c=np.array([0.5, 0.5, 1.0]),
    )


def _solved(rows: list[list[Fraction]], values: list[Fraction]) -> list[Fraction]:
    """The solution of linear equations of full column rank that agree with each other."""
    equations = [[*row, value] for row, value in zip(rows, values, strict=True)]
    unknowns = len(rows[0])
    for k in range(unknowns):
        at = next(i for i in range(k, len(equations)) if equations[i][k])
        equations[k], equations[at] = equations[at], equations[k]
        pivot = [x / equations[k][k] for x in equations[k]]
        equations = [
            pivot if i == k else [x - row[k] * p for x, p in zip(row, pivot, strict=True)]
            for i, row in enumerate(equations)
        ]
    return [equations[k][-1] for k in range(unknowns)]


@cache
def dopri5() -> Tableau:
    """Dormand and Prince's table, from its nodes and the conditions of order 5.

    With b_2 = 0 the other weights integrate polynomials of degree 4. The rows satisfy

        sum_j a_ij c_j = c_i^2 / 2,    and for i > 3    sum_j a_ij c_j^2 = c_i^3 / 3,

    the columns sum_i b_i a_ij = b_j (1 - c_j), and sum_i b_i c_i a_i2 = 0 (Hairer, Nørsett, Wanner
    1993, II.5). A seventh stage is the first one of the next step. It enters the error alone,
    whose weights are as published.
    """
    c = [Fraction(*x) for x in ((0, 1), (1, 5), (3, 10), (4, 5), (8, 9), (1, 1))]
    n = len(c)
    first, *others = _solved(
        [[c[j] ** k for j in range(n) if j != 1] for k in range(n - 1)],
        [Fraction(1, k + 1) for k in range(n - 1)],
    )
    b = [first, Fraction(0), *others]

    entries = [(i, j) for i in range(2, n) for j in range(1, i)]
    rows: list[list[Fraction]] = []
    values: list[Fraction] = []

    def demand(weight: Any, value: Fraction) -> None:
        """The sum of all a_ij, each times its weight, is `value`."""
        rows.append([Fraction(weight(i, j)) for i, j in entries])
        values.append(value)

    for k in range(2, n):
        demand(lambda i, j, k=k: c[j] if i == k else 0, c[k] ** 2 / 2)
        if k > 2:
            demand(lambda i, j, k=k: c[j] ** 2 if i == k else 0, c[k] ** 3 / 3)
    for k in range(1, n - 1):
        demand(lambda i, j, k=k: b[i] if j == k else 0, b[k] * (1 - c[k]))
    demand(lambda i, j: b[i] * c[i] if j == 1 else 0, Fraction(0))
    found = dict(zip(entries, _solved(rows, values), strict=True))

    a = [[found.get((i, j), Fraction(0)) for j in range(1, i)] for i in range(1, n)]
    lower = [[ci - sum(row, Fraction(0)), *row] for ci, row in zip(c[1:], a, strict=True)]
    numbers = lambda xs: np.array([float(x) for x in xs])  # noqa: E731
    return Tableau(
        a_lower=tuple(numbers(row) for row in [*lower, b]),
        b_sol=numbers([*b, Fraction(0)]),
        b_error=np.array(
            [71 / 57600, 0, -71 / 16695, 71 / 1920, -17253 / 339200, 22 / 525, -1 / 40]
        ),
        c=numbers([*c[1:], Fraction(1)]),
    )


@cache
def dop853() -> Tableau:
    """Dormand and Prince's table of order 8 in 12 stages, with errors of the orders 5 and 3."""
    return Tableau(
        a_lower=tuple(np.array(row) for row in dop853_numbers.STAGES),
        b_sol=np.array(dop853_numbers.SOLUTION),
        b_error=np.array(dop853_numbers.ERROR_OF_ORDER_5),
        c=np.array(dop853_numbers.NODES[1:]),
        b_third=np.array(dop853_numbers.ERROR_OF_ORDER_3),
    )


def dop853_stages() -> tuple[np.ndarray, np.ndarray]:
    """(a, c) of DOP853's 12 stages and, as a last row, of the solution at the end of the step."""
    rows = [(), *dop853_numbers.STAGES, dop853_numbers.SOLUTION]
    a = np.array([[*row, *[0.0] * (len(rows) - len(row))] for row in rows])
    return a, np.array([*dop853_numbers.NODES, 1.0])
