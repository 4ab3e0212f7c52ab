"""Events found while the loop runs, inside of the compiled program.

Each step is looked at, at its end and at points between: the solution there is the polynomial
through position, velocity and acceleration at both ends, and the rate of an event function along it
says how many points it takes to see each change of its sign. A step within which one changes is
shortened until it ends at the change, located to rounding by the Illinois method (regula falsi) on
the length of the step itself: what is followed in the end is the method's own solution. The loop
then ends, the state is changed if it is to be, and a new one begins.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ..._modules import Module
from ...problem import StepContext
from ...result.interpolation import between
from ...system.base import Array, System
from ...system.held import HeldSystem
from ...system.timed import untimed
from .event import Event

_EPS = float(np.finfo(float).eps)
_SURVEY = 4  # parts of a step in which the rates of event functions are looked at
_POINTS = 3  # points for each time that a function passes through its own size
_MOST = 4096  # points within one step
_CLOSER = 6  # times that a step is shortened towards where a function has no value
_DIPS = 4  # minima looked at between two points


def observed(events: tuple[Event, ...], system: System, t: Array, q: Array, v: Array) -> Array:
    """What is watched: the event functions, and for contacts that are closed what holds them so."""
    t, system = untimed(system, t)
    if not isinstance(system, HeldSystem):
        return jnp.stack([event.value(system, t, q, v) for event in events])
    margins = dict(zip([gap.name for gap in system.gaps], system.margins(q, v, t), strict=True))
    return jnp.stack(
        [
            margins[event.name] if event.name in margins else event.value(system.base, t, q, v)
            for event in events
        ]
    )


class WatchState(NamedTuple):
    """The side of zero each function is on, and by how much it may be on the other one (a contact
    that is touched); its values at both ends of the bracket, the bracket's ends, whether an event
    is being located, whether the upper end was reached by a step, which end moved last, the trials;
    whether the loop is to end after this step; what was found, and which functions are not finite;
    the acceleration at the beginning of the step."""

    signs: Array
    bands: Array
    low: Array
    high: Array
    t_low: Array
    t_high: Array
    locating: Array
    reached: Array
    side: Array
    trials: Array
    pausing: Array
    found: Array
    bad: Array
    a: Array


class Seen(NamedTuple):
    """Whether the step must be taken again, to which end, and whether the loop ends after it."""

    again: Array
    end: Array
    stop: Array
    state: WatchState


class Spotted(NamedTuple):
    """What was seen between the ends of a step, at shares of it: the last point before a change of
    sign and the first one after it, with values; whether there is one; whether the function had
    another sign at the step's beginning; whether one is not finite there."""

    before: Array
    after: Array
    low: Array
    high: Array
    hit: Array
    turned: Array
    bad: Array


class Watch(Module):
    """Looks for events within each step, and shortens the steps that pass one."""

    events: tuple[Event, ...]
    sides: Array  # at the start, (2, events): the side of zero, and the allowance beyond it

    @property
    def _wanted(self) -> Array:
        return jnp.asarray([e.sign for e in self.events])

    def first(self, context: StepContext, t: Array, y: tuple[Array, Array]) -> WatchState:
        """At the beginning of a loop."""
        signs, bands = self.sides
        values = observed(self.events, context.system, t, y[0], y[1]) + signs * bands
        no, none, zero = jnp.asarray(False), jnp.zeros(signs.shape, bool), jnp.asarray(0)
        a = _acceleration(context, t, y)
        return WatchState(signs, bands, values, values, t, t, no, no, zero, zero, no, none, none, a)

    def judge(
        self,
        context: StepContext,
        t0: Array,
        y0: tuple[Array, Array],
        t1: Array,
        y1: tuple[Array, Array],
        keep: Array,
        state: WatchState,
    ) -> Seen:
        """What becomes of a step to (t1, y1) that is otherwise to be kept, or not."""
        signs, wanted, keep = state.signs, self._wanted, jnp.asarray(keep)
        values = observed(self.events, context.system, t1, y1[0], y1[1]) + signs * state.bands
        a = _acceleration(context, t1, y1)
        fresh = keep & ~state.locating
        spotted = self._between(context, t0, y0, t1, y1, a, fresh, state)
        passed = (signs * values <= 0) & (signs != 0) & (signs != wanted)
        crossed = keep & jnp.any(passed)
        bad = keep & ~jnp.isfinite(values)
        # A sign that changed twice: the step ends between, and the next one sees the second time.
        # A function without a value: the step ends before, or there.
        nowhere = spotted.bad & (spotted.after < 1) & (state.trials < _CLOSER)
        point = jnp.where(spotted.before > 0, spotted.before, spotted.after)
        t_early = t0 + point * (t1 - t0)
        early = spotted.hit & (spotted.turned | nowhere) & (t_early > t0 + 8 * _EPS * jnp.abs(t0))
        # The bracket: where nothing has happened yet, and where something has.
        start = jnp.where(state.locating, state.t_low, t0)
        hinted = spotted.hit & ~spotted.turned & ~spotted.bad
        missed = keep & state.locating & ~crossed
        t_low = jnp.where(missed, t1, start)
        low = jnp.where(missed, values, state.low)
        t_high = jnp.where(crossed, t1, state.t_high)
        high = jnp.where(crossed, values, state.high)
        t_seen = jnp.where(spotted.after < 1, t0 + spotted.after * (t1 - t0), t1)
        t_high = jnp.where(hinted, t_seen, t_high)
        high = jnp.where(hinted, spotted.high, high)
        reached = jnp.where(hinted, spotted.after >= 1, crossed | state.reached) & (
            crossed | hinted | state.locating
        )
        # Illinois: an end that stays twice counts half.
        side = jnp.where(crossed, 1, jnp.where(missed, -1, 0))
        twice = (side == state.side) & state.locating
        low = jnp.where(twice & crossed, low / 2, low)
        high = jnp.where(twice & missed, high / 2, high)
        narrow = t_high - t_low <= 2 * _EPS * jnp.maximum(jnp.abs(t_high), t_high - t0)
        found = crossed & narrow & ~hinted & ~early
        nothing = missed & (t1 >= t_high)  # what was seen between the steps is not there
        ended = jnp.any(bad) & ~early & ~hinted
        locating = (crossed | hinted | (state.locating & keep)) & ~(found | nothing | early | ended)
        passing = (signs * high <= 0) & (signs != 0) & (signs != wanted)
        trial = _trial(t_low, t_high, low, high, passing, state.trials)
        guess = _secant(spotted.low, spotted.high, passing)
        guess = t0 + (spotted.before + guess * (spotted.after - spotted.before)) * (t1 - t0)
        trial = jnp.where(hinted & (guess > t0) & (guess < t_high), guess, trial)
        trial = jnp.where(missed & ~reached, t_high, trial)
        trial = jnp.where(early, t_early, trial)
        again = keep & (locating | early)
        settled = keep & ~again
        bands = jnp.where(settled & (signs * values > 2 * state.bands), 0.0, state.bands)
        values = values + signs * (bands - state.bands)
        following = WatchState(
            signs=jnp.where(settled & (values != 0) & ~bad & ~passed, jnp.sign(values), signs),
            bands=bands,
            low=jnp.where(settled, values, low),
            high=high,
            t_low=t_low,
            t_high=t_high,
            locating=jnp.where(keep, locating, state.locating),
            reached=reached,
            side=side,
            trials=jnp.where(again, state.trials + 1, jnp.where(keep, 0, state.trials)),
            pausing=jnp.where(again, early | state.pausing, state.pausing & ~keep),
            found=found & passed,
            bad=ended & bad,
            a=jnp.where(settled, a, state.a),
        )
        stop = settled & (found | ended | nothing | state.pausing)
        return Seen(again, trial, stop, following)

    def _between(
        self,
        context: StepContext,
        t0: Array,
        y0: tuple[Array, Array],
        t1: Array,
        y1: tuple[Array, Array],
        a: Array,
        wanted: Array,
        state: WatchState,
    ) -> Spotted:
        """Look for changes of sign on the way from (t0, y0) to (t1, y1)."""
        system, nodes = context.system, jnp.stack([t0, t1])
        at = between(
            system,
            nodes,
            jnp.stack([y0[0], y1[0]]),
            jnp.stack([y0[1], y1[1]]),
            jnp.stack([state.a, a]),
        )
        shift = state.signs * state.bands
        timed, system = system, untimed(system, t0)[1]
        closed = [g.name for g in system.gaps] if isinstance(system, HeldSystem) else []
        smooth = jnp.asarray([e.name not in closed for e in self.events])

        def plain(share: Array) -> Array:
            t = t0 + share * (t1 - t0)
            base = system.base if isinstance(system, HeldSystem) else system
            now = timed.time(t)
            return jnp.stack([e.value(base, now, *at(t)) for e in self.events])

        def look(share: Array) -> tuple[Array, Array]:
            """The functions, and their rates over the step (not those of closed contacts)."""
            values, rates = jax.jvp(plain, (share,), (jnp.ones_like(share),))
            if closed:
                t = t0 + share * (t1 - t0)
                values = observed(self.events, timed, t, *at(t))
            return values + shift, jnp.where(smooth, rates, 0.0)

        count, rates = _survey(look, wanted, state.low)
        return _search(look, count, state.low, rates, state.signs, self._wanted)


def _acceleration(context: StepContext, t: Array, y: tuple[Array, Array]) -> Array:
    """Of which only the points between steps are made."""
    a = context.system.accelerations(y[0], y[1], t)[0]
    return jnp.where(jnp.isfinite(a), a, 0.0)


def _survey(look: Any, wanted: Array, start: Array) -> tuple[Array, Array]:
    """How many points it takes to see all that the functions do in a step, 0 if none of them can
    reach zero; and their rates at its beginning, where their values are `start`."""

    def one(j: Array, x: tuple[Array, ...]) -> Any:
        first, rate, size, least, before = x
        values, rates = look(j / _SURVEY)
        moved = _SURVEY * jnp.abs(values - before)
        rate = jnp.maximum(rate, jnp.maximum(jnp.abs(rates), moved))
        first = jnp.where(j > 0, first, rates)
        inner = jnp.abs(values)
        return first, rate, jnp.maximum(size, inner), jnp.minimum(least, inner), values

    zero = jnp.zeros_like(start)
    most = jnp.where(wanted, _SURVEY + 1, 0)
    begin = zero, zero, zero, jnp.full_like(start, jnp.inf), start
    first, rate, size, least, _ = jax.lax.fori_loop(0, most, one, begin)
    count = jnp.ceil(_POINTS * rate / jnp.where(size > 0, size, 1.0))
    count = jnp.where((least <= 2 * rate / _SURVEY) & (size > 0), count, 0.0)
    count = jnp.where(jnp.isfinite(rate), count, 2.0 * _SURVEY)  # one is not a number somewhere
    return jnp.where(wanted, jnp.minimum(jnp.max(count), _MOST), 0.0), first


class _Search(NamedTuple):
    """Where the search is: `x`, to be looked at next, on the way to `goal` from `before`; `seen`
    was looked at last."""

    x: Array
    goal: Array
    seen: Array
    before: Array
    low: Array
    rates: Array
    high: Array
    signs: Array
    dips: Array
    hit: Array
    turned: Array
    bad: Array


def _search(
    look: Any, count: Array, start: Array, rates: Array, signs: Array, wanted: Array
) -> Spotted:
    """The first change of sign among `count` points, and minima between them; `start` are the
    functions at the beginning, `rates` how fast they change there."""
    width = 1 / jnp.maximum(count, 1.0)

    def going(s: _Search) -> Array:
        return ~s.hit & (s.x <= 1) & (count > 0)

    def once(s: _Search) -> _Search:
        values, rates = look(s.x)
        passed = (s.signs * values <= 0) & (s.signs != 0) & (s.signs != wanted)
        bad = jnp.any(~jnp.isfinite(values))
        hit = jnp.any(passed) | bad
        # a function that turns back before it is at zero may have been there between
        down, up = s.signs * s.rates < 0, s.signs * rates > 0
        slope = jnp.where(down & up, s.rates - rates, 1.0)
        lowest = s.before + (s.x - s.before) * s.rates / slope
        depth = s.signs * (s.low + s.rates * (lowest - s.before) / 2)
        least = 0.5 * jnp.minimum(s.signs * s.low, s.signs * values)
        doubtful = down & up & (depth < least) & (s.signs != wanted)
        dip = jnp.min(jnp.where(doubtful, lowest, 2.0))
        regular = s.x >= s.goal
        insert = regular & ~hit & (dip < s.x) & (dip > s.before) & (s.dips < _DIPS)
        goal = jnp.where(regular & ~insert, s.goal + width, s.goal)
        # the end itself, whatever the widths add up to
        goal = jnp.where((goal > 1 - 0.5 * width) & (s.goal < 1), 1.0, goal)
        ahead = ~insert & ~hit
        new = jnp.where(ahead & (values != 0), jnp.sign(values), s.signs)
        return _Search(
            x=jnp.where(insert, dip, goal),
            goal=goal,
            seen=s.x,
            before=jnp.where(ahead, s.x, s.before),
            low=jnp.where(ahead, values, s.low),
            rates=jnp.where(ahead, rates, s.rates),
            high=values,
            signs=new,
            dips=jnp.where(insert, s.dips + 1, jnp.where(regular, 0, s.dips)),
            hit=hit,
            turned=jnp.where(hit, jnp.any(passed & (s.signs != signs)), False),
            bad=bad,
        )

    no, zero = jnp.asarray(False), jnp.zeros(())
    begin = _Search(
        width, width, zero, zero, start, rates, start, signs, jnp.asarray(0), no, no, no
    )
    s = jax.lax.while_loop(going, once, begin)
    return Spotted(s.before, s.seen, s.low, s.high, s.hit, s.turned, s.bad)


def _secant(low: Array, high: Array, passing: Array) -> Array:
    """Where the first of the functions that pass zero does so, as a share of the bracket."""
    share = low / jnp.where(low == high, 1.0, low - high)
    return jnp.min(jnp.where(passing, jnp.clip(share, 0.0, 1.0), 1.0))


def _trial(
    t_low: Array, t_high: Array, low: Array, high: Array, passing: Array, trials: Array
) -> Array:
    """Where the next trial of a step ends, within the bracket."""
    share = _secant(low, high, passing)
    share = jnp.where((trials > 40) | (low == high).all(), 0.5, share)
    width = t_high - t_low
    least = jnp.maximum(_EPS * jnp.abs(t_high), _EPS * width)
    trial = jnp.clip(t_low + share * width, t_low + least, t_high - least)
    # A bracket of two neighbouring numbers has none between them: its end is the event.
    return jnp.where((trial <= t_low) | (trial >= t_high), t_high, trial)
