"""The gallery: docs/gallery.md and its pictures from the examples in docs/gallery, and with --site
FOLDER a page of the viewer for each in a site that is built.

Every example is a script that leaves `result`, and if it likes `traces` and `speed`.
"""

import argparse
import re
import runpy
from pathlib import Path

from PIL import Image, ImageSequence

import holonax as hx

HERE = Path(__file__).resolve().parent
EXAMPLES, IMAGES, PAGE = HERE / "gallery", HERE / "images" / "gallery", HERE / "gallery.md"

CHAPTERS = {
    "Pendulums": (
        "pendulum double_pendulum coupled_pendulums conical_pendulum elastic_pendulum cart_pole"
    ),
    "Linkages": "four_bar straight_line pantograph scissor_lift bricard",
    "Machines": (
        "slider_crank scotch_yoke quick_return cam planetary_gear universal_joint screw_press "
        "governor stewart_platform robot_arm quarter_car"
    ),
    "Thrown, rolled, spun": (
        "bouncing_ball trebuchet sleigh rolling_coin tennis_racket gyroscope cantilever rotor"
    ),
}
SIZE, FRAMES, COLOURS = (220, 180), 45, 24  # of pictures that are small enough to be kept


def names():
    return [name for chapter in CHAPTERS.values() for name in chapter.split()]


def parts(name):
    """(title, sentences, code) of an example."""
    text = (EXAMPLES / f"{name}.py").read_text(encoding="utf-8")
    said, code = re.fullmatch(r'"""(.*?)"""\n\n(.*)', text, re.DOTALL).groups()
    title, _, sentences = " ".join(said.split()).partition(": ")
    return title, sentences[0].upper() + sentences[1:], code


def written():
    """The page of the gallery."""
    out = [
        "# Gallery",
        "",
        "From the pendulum to the rotor: each picture is made by the code below it, which ends",
        "with a check against what is known of the motion. The code stands alone, runs as it is;",
        '`hx.page(result, "motion.html")` after it makes a page to turn and to look at closely.',
        "",
    ]
    for chapter, members in CHAPTERS.items():
        pictures = [f"[![{parts(x)[0]}](images/gallery/{x}.gif)](#{x})" for x in members.split()]
        out += [f"**{chapter}**", "", *pictures, ""]
    for chapter, members in CHAPTERS.items():
        out += [f"## {chapter}", ""]
        for name in members.split():
            title, sentences, code = parts(name)
            picture = f"![{title}](images/gallery/{name}.gif)"
            out += [f'<a id="{name}"></a>', "", f"### {title}", "", picture, "", sentences]
            out += [f"<!-- viewer: {name} -->", "", "```python", code.rstrip(), "```", ""]
    return "\n".join(out)


def picture(name, names):
    """The moving picture of an example."""
    result, speed = names["result"], names.get("speed", 1.0)
    lasts = (result.t[-1] - result.t[0]) / speed
    fps = min(15.0, FRAMES / lasts)
    options = {"traces": names.get("traces", ()), "speed": speed, "fps": fps, "size": SIZE}
    made = hx.animate(result, IMAGES / f"{name}.gif", axes=False, **options)
    with Image.open(made) as image:
        frames = [x.convert("RGB") for x in ImageSequence.Iterator(image)]
        lasting = image.info["duration"]
    palette = frames[-1].quantize(COLOURS)
    few = [x.quantize(palette=palette, dither=Image.Dither.NONE) for x in frames]
    few[0].save(made, save_all=True, append_images=few[1:], duration=lasting, loop=0)
    return made


def page(name, names, site):
    """The page of an example in the viewer, and the link to it in the site's gallery."""
    title = parts(name)[0]
    made = site / "gallery" / f"{name}.html"
    hx.page(names["result"], made, traces=names.get("traces", ()), title=title)
    gallery = site / "gallery.html"
    link = f'<a href="gallery/{name}.html">Open it in the viewer.</a>'
    text = gallery.read_text(encoding="utf-8").replace(f"<!-- viewer: {name} -->", link)
    gallery.write_text(text, encoding="utf-8")
    return made


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="some examples only")
    parser.add_argument("--site", type=Path, help="write pages into this site, and no pictures")
    arguments = parser.parse_args()
    if arguments.site is None:
        PAGE.write_text(written(), encoding="utf-8")
    for name in arguments.names or names():
        found = runpy.run_path(str(EXAMPLES / f"{name}.py"))
        made = picture(name, found) if arguments.site is None else page(name, found, arguments.site)
        print(f"{made} {made.stat().st_size // 1000} kB", flush=True)


if __name__ == "__main__":
    main()
