"""Events: times at which a function of the state changes sign, and what happens then.

`event` has what a user writes, `check` refuses what cannot be evaluated, `watch` finds events while
the loop runs, `contact` decides what contacts do at one instant, `happen` puts it all together.
"""

from .check import as_events, check_events
from .event import Event, Impact
from .happen import (
    Happened,
    Wrong,
    happen,
    wrong_side,
)
from .watch import Watch, WatchState

__all__ = [
    "Event",
    "Happened",
    "Impact",
    "Watch",
    "WatchState",
    "Wrong",
    "as_events",
    "check_events",
    "happen",
    "wrong_side",
]
