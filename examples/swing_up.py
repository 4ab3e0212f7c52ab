"""A pendulum on a cart is swung up: the motion of a driver is found by shooting.

Crank and connecting rod move the cart, so that there is a closed loop. A motor turns the crank by
an angle that is a spline; the values of its knots are those of the least motion of the crank for
which the pendulum stands upright and all is at rest at the end, exactly.
"""

from pathlib import Path

import jax.numpy as jnp
import numpy as np

import holonax as hx

END, KNOTS = 3.0, 13
curve = hx.Knots(np.linspace(0.0, END + 0.1, KNOTS))  # beyond its last knot a curve stays


def turned(t, p):
    """The angle of the crank; within half a second it begins smoothly from rest."""
    s = jnp.clip(t / 0.5, 0.0, 1.0)
    return curve(t, p["u"]) * s**3 * (10.0 - 15.0 * s + 6.0 * s**2)


def machine():
    """Crank 0.4 m, rod 1 m, the cart on a rail, and a pendulum of 0.8 m that hangs from it."""
    model = hx.Model(gravity=(0.0, -9.81))
    up = np.array([0.0, 0.4])  # the crank stands upright
    reach = np.sqrt(1.0 - 0.4**2)
    tilt = np.arctan2(-0.4, reach)
    model.planar_body("crank", hx.rod(0.4, mass=1.0), position=up / 2, angle=np.pi / 2)
    model.planar_body("rod", hx.rod(1.0, mass=1.0), position=(reach / 2, 0.2), angle=tilt)
    model.planar_body("cart", 2.0, 1.0, position=(reach, 0.0))
    model.planar_body("bob", hx.rod(0.8, mass=0.3), position=(reach, -0.4), angle=-np.pi / 2)
    model.revolute("A", "ground", "crank", at=(0.0, 0.0))
    model.revolute("B", "crank", "rod", at=tuple(up))
    model.revolute("C", "rod", "cart", at=(reach, 0.0))
    model.prismatic("rail", "ground", "cart", at=(reach, 0.0), axis=(1.0, 0.0))
    model.revolute("pivot", "cart", "bob", at=(reach, 0.0))
    model.torsion_spring("bearing", joint="pivot", stiffness=0.0, damping=0.02)
    begin = 0.4 * np.sin(3.6 * curve.times)  # something that shakes the pendulum
    model.drive_angle("motor", joint="A", angle=turned, parameters={"u": begin})
    return model.build()


def main(dt: float = 0.01):
    system, start = machine()
    times = np.linspace(0.0, END, 61)
    bob = system.coordinate_names(len(start.q)).index("bob.angle")
    crank = system.velocity_names(len(start.v)).index("crank.angle")

    def unrest(motion):
        return jnp.mean(motion.v[:, crank] ** 2)

    def fallen(motion):
        """Zero where the pendulum stands upright and all is at rest."""
        moving = motion.v[-1, bob] ** 2 + motion.v[-1, crank] ** 2
        return 1.0 - jnp.sin(motion.q[-1, bob]) + 0.02 * moving

    knots, within = "motor.parameters.u", (-1.2, 1.2)
    near = hx.optimize(
        *(system, start, times, fallen),
        parameters=[knots],
        bounds={knots: within},
        dt=dt,
        tol=1e-4,
    )
    print(near)
    # then the least motion of the crank, of all that end so; it may have gone round by either side
    end = hx.simulate(near.system, start, END, dt=dt).q[-1, bob]
    upright = np.pi / 2 + 2 * np.pi * np.round((end - np.pi / 2) / (2 * np.pi))
    best = hx.optimize(
        *(near.system, start, times, unrest),
        parameters=[knots],
        bounds={knots: within},
        constraints={
            "pendulum": (lambda motion: motion.q[-1, bob], upright, upright),
            "at rest": (lambda motion: motion.v[-1, jnp.array([bob, crank])], 0.0, 0.0),
        },
        dt=dt,
        tol=1e-4,
    )
    print(best)
    assert best.success and best.violation < 1e-10
    # by other steps, chosen by their error
    run = hx.simulate(best.system, start, END, rtol=1e-9)
    angle, rate = run.quantity("bob.angle"), run.quantity("bob.angular_velocity")
    off = np.cos(angle[-1])
    assert np.sin(angle[-1]) > 0.9
    print(f"the pendulum ends {off:.1e} rad from upright with {rate[-1]:.1e} rad/s")
    # what is left is the error of the search's steps of RK4
    assert abs(off) < 1e-4 and abs(rate[-1]) < 1e-3
    draw(run)


def draw(run):
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(
        1, 2, figsize=(10, 3.8), layout="constrained", width_ratios=(1.5, 1)
    )
    shown = np.linspace(0.0, END, 25)
    cart = np.interp(shown, run.t, run.quantity("cart.position.x"))
    angle = np.interp(shown, run.t, run.quantity("bob.angle"))
    crank = np.interp(shown, run.t, run.quantity("crank.angle"))
    for k, (x, a, c) in enumerate(zip(cart, angle, crank, strict=True)):
        colour = plt.get_cmap("viridis")(k / 24)
        left.plot([0, 0.4 * np.cos(c), x], [0, 0.4 * np.sin(c), 0], color="0.85", lw=1, zorder=0)
        left.plot([x, x + 0.8 * np.cos(a)], [0, 0.8 * np.sin(a)], "-", color=colour, lw=1.5)
        left.plot(x + 0.8 * np.cos(a), 0.8 * np.sin(a), "o", color=colour, ms=4)
    left.axhline(0.0, color="0.7", lw=0.6)
    left.set(aspect="equal", xlabel="x [m]", ylabel="y [m]", title="from purple to yellow")
    right.plot(run.t, np.rad2deg(run.quantity("crank.angle")) - 90.0, label="crank")
    right.plot(run.t, np.rad2deg(run.quantity("bob.angle")), label="pendulum")
    right.set(xlabel="t [s]", ylabel="angle [°]", yticks=range(-180, 91, 90))
    right.legend(frameon=False)
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
    Path("out").mkdir(exist_ok=True)
    figure.savefig("out/swing_up.png", dpi=110)


if __name__ == "__main__":
    main()
