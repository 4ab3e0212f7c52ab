"""What a slider-crank weighs and how it rubs, from noisy measurements of its motion.

A known torque turns the crank; its angle and the slider's place are measured a hundred times a
second. The masses of rod and slider and the friction of the rail follow by least squares.
"""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

import holonax as hx

NOISE = 1e-3  # standard deviation of each measurement [rad or m]
TRUTH = {"rod.mass": 0.8, "slider.mass": 1.5, "rail friction.friction": 2.5}
GUESS = {"rod.mass": 1.2, "slider.mass": 1.0, "rail friction.friction": 1.0}


def slider_crank():
    """Crank 0.2 m, rod 0.6 m; a torque that changes speeds the crank up and slows it down."""
    model = hx.Model()
    model.planar_body("crank", hx.rod(0.2, mass=1.0), position=(0.1, 0.0))
    model.planar_body("rod", hx.rod(0.6, mass=1.0), position=(0.5, 0.0))
    model.planar_body("slider", 1.0, 1.0, position=(0.8, 0.0))
    model.revolute("A", "ground", "crank", at=(0.0, 0.0))
    model.revolute("B", "crank", "rod", at=(0.2, 0.0))
    model.revolute("C", "rod", "slider", at=(0.8, 0.0))
    model.prismatic("rail", "ground", "slider", at=(0.8, 0.0), axis=(1.0, 0.0))
    model.joint_friction("rail friction", "rail", friction=1.0, transition_speed=0.05)
    model.torque("motor", "crank", torque=lambda t, body: 1.5 + 3.0 * jnp.sin(5.0 * t))
    return model.build()


def main(t_end: float = 2.0, rate: float = 100.0):
    system, start = slider_crank()
    times = np.linspace(0.0, t_end, int(t_end * rate) + 1)
    places = [system.quantity(name) for name in ("crank.angle", "slider.position.x")]

    def observe(motion):
        along = [jax.vmap(place)(motion.t, motion.q, motion.v) for place in places]
        return jnp.stack(along, axis=1)

    real = hx.simulate(system.with_parameters(TRUTH), start, t_end, dt=2e-3, save=times)
    clean = np.stack([real.quantity("crank.angle"), real.quantity("slider.position.x")], axis=1)
    measured = clean + NOISE * np.random.default_rng(0).standard_normal(clean.shape)

    guess = system.with_parameters(GUESS)
    found = hx.fit(
        *(guess, start, times, measured),
        parameters=[*TRUTH],
        observe=observe,
        bounds=dict.fromkeys(TRUTH, (0.01, 10.0)),
        sigma=NOISE,
        dt=2e-3,
    )
    print(found)
    for name, x in TRUTH.items():  # within four standard deviations, which are small
        assert abs(found.values[name] - x) < 4 * found.std[name] < 0.05 * x, name
    assert 0.8 < np.std(found.residual) < 1.2  # nothing but noise is left
    draw(times, measured, guess, found, start)


def draw(times, measured, guess, found, start):
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.6), layout="constrained")
    for system, colour, label in (
        (guess, "tab:orange", "first guess"),
        (found.system, "tab:blue", "found"),
    ):
        run = hx.simulate(system, start, times[-1], dt=2e-3)
        left.plot(run.t, run.quantity("slider.position.x"), color=colour, label=label, lw=1.2)
    left.plot(times[::2], measured[::2, 1], ".k", ms=3, label="measured")
    left.set(xlabel="t [s]", ylabel="slider [m]", title="a motion, measured and computed")
    figure.legend(*left.get_legend_handles_labels(), loc="outside lower left", ncols=3)
    names = [*TRUTH]
    ratio = [float(found.values[name] / TRUTH[name]) for name in names]
    bars = [float(2 * found.std[name] / TRUTH[name]) for name in names]
    right.errorbar(ratio, range(3), xerr=bars, fmt="o", color="tab:blue", capsize=4)
    right.axvline(1.0, color="0.6", lw=0.8)
    right.set_yticks(range(3), names)
    right.set(xlabel="found / true, two standard deviations", ylim=(-0.6, 2.6))
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
    Path("out").mkdir(exist_ok=True)
    figure.savefig("out/identification.png", dpi=110)


if __name__ == "__main__":
    main()
