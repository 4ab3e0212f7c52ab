"""Cart and pole: a force on the cart keeps the pole upright, by feedback of angle, rate, place and
speed."""

import holonax as hx


def feedback(cart, pole, t, p):
    push = (
        p["pole"] * pole.angle + p["rate"] * pole.w + p["cart"] * cart.r.x + p["speed"] * cart.v.x
    )
    return [((push, 0.0), 0.0), ((0.0, 0.0), 0.0)]


model = hx.Model()
model.planar_body("cart", hx.box((0.4, 0.2, 0.2), mass=1.0))
model.planar_body("pole", hx.rod(1.0, axis="y", mass=0.2), position=(0.0, 0.5))
model.prismatic("rail", "ground", "cart", at=(0.0, 0.0), axis=(1.0, 0.0))
model.revolute("hinge", "cart", "pole", at=(0.0, 0.0))
gains = {"pole": -40.0, "rate": -8.0, "cart": 3.0, "speed": 5.0}
model.custom_force("feedback", ["cart", "pole"], feedback, parameters=gains)
model = model.replaced("pole", angular_velocity=0.8, velocity=(-0.4, 0.0))
result = model.simulate(6.0, rtol=1e-8)

assert abs(result["pole"].angle).max() > 0.05
assert abs(result["pole"].angle[-1]) < 2e-3 and abs(result["cart"].position[-1, 0]) < 0.02
