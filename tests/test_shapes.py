"""Bodies keep the shape they were made of: in records, in dictionaries, and for pictures only."""

import json

import numpy as np
import pytest

import holonax as hx
from holonax.compiler import counts

TURNED = np.array([[0.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])


def described():
    model = hx.Model()
    hammer = hx.rod(1.0, mass=1.0) + hx.box((0.1, 0.3, 0.1), mass=2.0).moved((0.5, 0.0, 0.0))
    model.planar_body("hammer", hammer, position=(0.5, 0.0))
    model.planar_body("wheel", hx.disc(0.4, mass=1.0), position=(2.0, 0.0))
    model.planar_body("part", 1.0, 0.1, shape="part.stl", position=(3.0, 0.0))
    model.planar_body("bob", hx.point_mass(1.0), position=(4.0, 0.0))
    ball = hx.sphere(0.2, mass=1.0)
    model.planar_body("ball", 1.0, 0.1, shape=[ball, hx.Shape("rod", length=2.0)])
    return model


def test_bodies_keep_the_shape_they_were_made_of():
    model = described()
    rod, head = model["hammer"].shape
    assert (rod.kind, rod.length, rod.axis) == ("rod", 1.0, "x")
    assert (head.kind, head.size, head.position) == ("box", (0.1, 0.3, 0.1), (0.5, 0.0, 0.0))
    assert model["wheel"].shape == (hx.Shape("cylinder", radius=0.4, length=0.0),)
    assert model["part"].shape[0].path == "part.stl"
    assert [x.kind for x in model["ball"].shape] == ["sphere", "rod"]


def test_shapes_are_in_the_dictionary_of_a_model():
    model = described()
    said = json.loads(json.dumps(model.to_dict()))
    again = hx.Model.from_dict(said)
    assert dict(again.items) == dict(model.items)
    assert said["items"][1]["shape"] == [
        {"kind": "cylinder", "radius": 0.4, "length": 0.0, "axis": "z"}
    ]


def test_solids_that_are_moved_and_turned_look_so():
    solid = hx.cylinder(0.1, 2.0, axis="x", mass=1.0).moved((1.0, 0.0, 0.0)).rotated(TURNED)
    (shape,) = solid.shapes
    R, position = shape.pose
    np.testing.assert_allclose(position, (0.0, 1.0, 0.0), atol=1e-15)
    np.testing.assert_allclose(R @ (1.0, 0.0, 0.0), (0.0, 1.0, 0.0), atol=1e-15)
    both = solid + hx.sphere(0.2, mass=1.0)
    assert [x.kind for x in both.shapes] == ["cylinder", "sphere"]


def test_a_shape_changes_no_number_and_compiles_nothing():
    results = []
    for size in (0.1, 0.2):
        model = hx.Model()
        model.planar_body("body", 1.0, 0.1, shape=hx.Shape("box", size=(size, size, size)))
        before = counts.traced
        results.append(model.simulate(0.1, dt=0.01).q)
    assert counts.traced == before
    np.testing.assert_array_equal(*results)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: hx.Shape("ball", radius=1.0), "kind='ball' is not known"),
        (
            lambda: hx.Shape("box", size=(1, 1, 1), radius=1.0),
            "radius means nothing for it. Give size",
        ),
        (lambda: hx.Shape("cylinder", radius=1.0), "length is missing"),
        (lambda: hx.Shape("sphere", radius=-1.0), "radius=-1.0 is out of range"),
        (lambda: hx.Shape("mesh", path="part.txt"), "not the path of a mesh"),
        (lambda: hx.Shape("box", size=(1, 1, 1), rotation=np.ones((3, 3))), "not a rotation"),
    ],
)
def test_wrong_shapes_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize("shape", [3, "part.txt", {"kind": "cube"}, [None]])
def test_a_body_refuses_what_is_no_shape_by_its_name(shape):
    with pytest.raises(hx.ModelError, match="body 'odd': "):
        hx.Model().planar_body("odd", 1.0, 0.1, shape=shape)
