"""Why a run stops in the middle, and what the loop knows of it."""

from __future__ import annotations

import enum
from typing import Any, NamedTuple

from ..system.base import Array

# A component larger than this (SI units) is a blow-up, not a mechanism.
BLOW_UP = 1e15


class Failure(enum.IntEnum):
    """Why a run cannot go on, each with a sentence that says what happened.

    Of a step: `NOT_FINITE` to `TOO_SMALL`. Of an event, whose name goes before the sentence: those
    that begin with `EVENT`. Of one run of an ensemble: those from `NOT_ASSEMBLED` on.
    """

    NONE = 0, "all is well"
    NOT_FINITE = 1, "the state became non-finite (NaN or infinity)"
    BLOWN_UP = 2, f"the solution blew up (a component above {BLOW_UP:g})"
    NOT_CONVERGED = 3, "the iteration for the equations of the step did not converge"
    EVENT_SPOILT = 4, "made the state non-finite"
    EVENT_ENDLESS = 5, "followed upon itself without end, as if it had come to rest there"
    LOST_BRANCH = (
        6,
        "the projection onto the constraints turned the velocities around: the step is too long "
        "for the motion, or ends near a configuration where branches of it meet",
    )
    JUMPED = 7, "a constraint jumps, or is over within one step"
    EVENT_WRONG_SIDE = 8, "is a contact, but its gap is on the wrong side of zero"
    EVENT_JAMMED = (
        9,
        "is a contact that no impulse or force can keep from closing: it contradicts a joint, a "
        "driver or another contact",
    )
    EVENT_NOT_FINITE = 10, "has a function that is not finite (NaN or infinity) there"
    TOO_SMALL = 11, "the error control asked for a step too small for the time to notice"
    NOT_ASSEMBLED = 12, "the mechanism cannot be assembled at the start"
    TOO_MANY = 13, "more steps than max_steps were needed"
    INTERRUPTED = 14, "it was interrupted before its end"
    NOT_GIVEN = 15, "a number of its start or of its parameters is not finite"

    sentence: str

    def __new__(cls, number: int, sentence: str) -> Failure:
        made = int.__new__(cls, number)
        made._value_, made.sentence = number, sentence
        return made


class SolverStatus(NamedTuple):
    """The state of `StabilizedSolver`: the method's own, the number of the `Failure` that stopped
    the loop, the time of the last good state, and what the formulation carries."""

    method: Any
    code: Array
    t: Array
    carry: Any
