"""Model files, spoilt at random: what comes of them is a model or a `FileError`, and nothing else.

    python tests/file_fuzz.py SEED FILES FOLDER

prints one JSON line for each fault, then one with the counts. An audit hook watches that no text is
run as a program and that nothing is written.
"""

import json
import random
import sys
import traceback
import warnings
from pathlib import Path

import holonax as hx

ARM = """
holonax = 1
gravity = [0, -9.81]

[parameters]
L = 0.6  # a length
half = "L / 2"
omega = "2 * pi"
T = 0.4

[run]
t_end = 0.5
rtol = 1e-6
formulation = { type = "PostStabilized", level = "both", passes = 2 }
integrator = "Dopri5"
hold = ["crank"]
hold_velocity = ["crank.angle"]

[outputs]
tip = "crank.x + half * cos(crank.angle)"

[[events]]
name = "low"
function = "rod.y + 0.6"
direction = "falling"
impact = { restitution = 0.5, rest = "stop" }

[[items]]
type = "planar_body"
name = "crank"
mass = { shape = "rod", length = "L", mass = 1.0 }
position = ["half", 0]
angular_velocity = 3

[[items]]
type = "planar_body"
name = "rod"
mass = 2.0
inertia = "2 * L**2 / 12"
position = ["3 * half", 0.0]

[[items]]
type = "revolute"
name = "A"
a = "ground"
b = "crank"
at = [0, 0]

[[items]]
type = "revolute"
name = "B"
a = "crank"
b = "rod"
at = ["L", 0]

[[items]]
type = "torsion_spring"
name = "coil"
joint = "B"
stiffness = 10
actuator = "-0.1 * speed + pulse(T, 2 * T)"

[[items]]
type = "force"
name = "wind"
body = "rod"
force = ["0.5 * (3 - vx)", "-0.1 * vy * omega"]

[[items]]
type = "torque"
name = "motor"
body = "crank"
torque = "2 * sin(omega * t)"
"""

SPACE = """
[[items]]
type = "body"
name = "crank"
mass = { shape = "cylinder", radius = 0.05, length = 0.4, axis = "x", mass = 1.0 }
position = [0.1, 0.2, 0.3]
rotation = [0.3, -0.2, 0.5]

[[items]]
type = "body"
name = "rod"
mass = 2
inertia = [0.1, 0.2, 0.25]
position = [0.9, 0, 0]

[[items]]
type = "revolute"
name = "hinge"
a = "ground"
b = "crank"
at = [0, 0, 0.1]
axis = [0.2, 0.5, 1]

[[items]]
type = "screw"
name = "thread"
a = "crank"
b = "rod"
pitch = 0.1
at = [1, 0, 0]
axis = [1.0, 0.2, -0.3]

[[items]]
type = "gear"
name = "wheels"
a = "crank"
b = "rod"
teeth = [20, 40]
internal = true
axis = [0.2, 0.5, 1.0]

[[items]]
type = "joint_friction"
name = "rust"
joint = "thread"
friction = [0.3, 0.2]
transition_speed = [0.1, 0.05]

[[items]]
type = "bushing"
name = "mount"
a = "crank"
b = "rod"
at = [1, 0, 0]
stiffness = [1, 1, 1, 2, 2, 2]
"""

NASTY = [
    *(
        '""',
        '"x"',
        "true",
        "nan",
        "inf",
        "-inf",
        "1e400",
        "1e308",
        "-1",
        "0",
        "9" * 400,
        "[]",
        "{}",
    ),
    *("[[]]", "[1]", "[1, 2, 3, 4, 5]", "1979-05-27T07:32:00Z", "07:32:00", '"\\u0000"', '"é☃"'),
    *('"2 *"', '"t"', "\"__import__('os').system('touch x')\"", '"1/0"', '"9**9**9"'),
    *(
        '"(" * 99',
        "null",
        "'''a\nb'''",
        "{a=1}",
        '{ shape = "cube" }',
        "[" * 60,
        '"ground"',
        '"crank"',
    ),
    *(
        "\0",
        "\ufeff",
        "\ud800",
        "#",
        "=",
        "]",
        '"',
        "\n",
        "[items]",
        "[[items]]",
        "items = 3",
        "name = 3",
    ),
]


def base_texts():
    """TOML and JSON of models that are right."""
    import tomllib

    planar, space = tomllib.loads(ARM), tomllib.loads(SPACE)
    return [
        ("toml", ARM),
        ("toml", SPACE),
        ("json", json.dumps(planar, indent=1)),
        ("json", json.dumps(space, indent=1)),
    ]


def spoilt(r, text):
    """The text with one to six changes: of characters, lines, words and values."""
    for _ in range(r.choice([1, 1, 1, 2, 3, 6])):
        kind = r.randrange(8)
        at = r.randrange(len(text) + 1)
        lines = text.split("\n")
        i = r.randrange(len(lines))
        if kind == 0:
            text = text[:at] + r.choice(NASTY) + text[at:]
        elif kind == 1:
            text = text[:at] + text[at + r.choice([1, 1, 2, 40]) :]
        elif kind == 2:
            text = (
                text[:at] + chr(r.choice([r.randrange(128), r.randrange(0x3000)])) + text[at + 1 :]
            )
        elif kind == 3:
            text = "\n".join(lines[:i] + lines[i + 1 :])
        elif kind == 4:
            text = "\n".join([*lines[:i], lines[r.randrange(len(lines))], *lines[i:]])
        elif kind == 5 and ("=" in lines[i] or ":" in lines[i]):
            sign = "=" if "=" in lines[i] else ":"
            lines[i] = f"{lines[i].partition(sign)[0]}{sign} {r.choice(NASTY)}"
            text = "\n".join(lines)
        elif kind == 6:
            words = [x for x in text.replace('"', " ").split() if x.isidentifier()]
            if words:
                text = text.replace(r.choice(words), r.choice(words), r.choice([1, -1]))
        else:
            text = text[:at]
            break
    return text


VALUES = [
    *(
        "",
        "x",
        "t",
        "L",
        "crank",
        "ground",
        "2 *",
        "1/0",
        "9**9**9",
        "sin(",
        "point",
        "t.__class__",
    ),
    *(True, False, None, 0, -1, 3, 0.5, -1e300, 1e308, 1e-320, 10**400, float("nan"), float("inf")),
    *([], [0], [0, 0], [0, 0, 0], [1, "L", "q"], [[1, 2], [3]], [None], ["crank", "rod"], [[[]]]),
    *({}, {"shape": "rod"}, {"shape": "box", "size": [1, 1, 1], "mass": -1}, {"a": {"b": 1}}),
]


def restructured(r, said):
    """The content with one to four values, keys or items changed."""
    said = json.loads(json.dumps(said))
    for _ in range(r.choice([1, 1, 2, 4])):
        places = list(_containers(said))
        at = r.choice(places or [{}])
        keys = list(at) if isinstance(at, dict) else list(range(len(at)))
        if not keys:
            continue
        key, kind = r.choice(keys), r.randrange(6)
        if kind < 3:
            at[key] = r.choice(VALUES)
        elif kind == 3:
            del at[key]
        elif kind == 4 and isinstance(at, dict):
            at[r.choice(["naem", "x", "at_a", "parameters", "items", "", "é", "mass"])] = at.pop(
                key
            )
        elif isinstance(at, list):
            at.insert(key, json.loads(json.dumps(r.choice(at))))
    return said


def _containers(x):
    if isinstance(x, dict | list) and x:
        yield x
        for part in x.values() if isinstance(x, dict) else x:
            yield from _containers(part)


class Watch:
    """What the interpreter was asked to do while files are read."""

    EVENTS = ("os.", "subprocess.", "socket.", "shutil.", "exec", "compile", "open", "tempfile.")
    HARMLESS = ("os.listdir", "os.scandir", "os.stat")

    def __init__(self):
        self.on, self.seen = False, []
        sys.addaudithook(self.hook)

    def hook(self, event, args):
        if not self.on or not event.startswith(self.EVENTS) or event in self.HARMLESS:
            return
        if event == "open":
            mode, flags = args[1], args[2]
            if not (isinstance(mode, str) and set(mode) & set("wax+")) and not flags & 3:
                return
        self.seen.append((event, repr(args)[:120]))


def fuzz(seed, files, folder):
    """Read spoilt files; returns faults and counts."""
    r = random.Random(seed)
    faults, counts = [], {"read": 0, "refused": 0}
    bases = base_texts()
    watch = Watch()
    for suffix, text in bases:  # what is imported and compiled on the first use
        path = Path(folder) / f"base.{suffix}"
        path.write_text(text, encoding="utf-8")
        hx.load(path)
    for number in range(files):
        suffix, text = r.choice(bases)
        if suffix == "json" and r.random() < 0.7:
            text = json.dumps(restructured(r, json.loads(text)), indent=1)
        else:
            text = spoilt(r, text)
        path = Path(folder) / f"spoilt.{suffix}"
        path.write_bytes(text.encode("utf-8", "surrogatepass"))
        watch.on = True
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                hx.ModelFile.read(path)
            counts["read"] += 1
        except hx.FileError as error:
            counts["refused"] += 1
            for problem in error.problems:
                if "\n" in problem.text or len(problem.text) > 1500 or "Traceback" in problem.text:
                    faults.append({"number": number, "message": problem.text[:300]})
        except Exception:
            watch.on = False  # a traceback is written by compiling lines of this file
            faults.append({"number": number, "error": traceback.format_exc()[-600:], "text": text})
        watch.on = False
        if watch.seen:
            faults.append({"number": number, "did": watch.seen[:3], "text": text})
            watch.seen = []
    return faults, counts


if __name__ == "__main__":
    found, totals = fuzz(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
    for fault in found:
        print(json.dumps(fault))
    print(json.dumps({"faults": len(found), **totals}))
