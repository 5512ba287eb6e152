"""Places for many labels that must not cover one another, their points, or the edge: a greedy search around each point."""

from __future__ import annotations

import math

Box = tuple[float, float, float, float]  # left, bottom, right, top

RADII = (7, 12, 18, 25, 33, 42, 52, 63, 75, 88, 102, 117, 133, 150)
ANGLES = tuple(math.radians(a) for a in (0, 180, 25, -25, 155, -155, 50, -50, 130, -130, 75, -75, 105, -105))  # fmt: skip


def places(
    points: list[tuple[float, float]],
    sizes: list[tuple[float, float]],
    frame: Box,
    taken: list[Box],
) -> list[Box]:
    """A box for each point's label, in the points' own units.

    Args:
        points: where the labels belong.
        sizes: width and height of each label.
        frame: no box leaves it.
        taken: boxes that are not to be covered.

    The nearest free place around the point; where none is free within reach, the nearest in the frame. Points with the most
    neighbours choose first.
    """
    reach = 60
    crowd = [sum(math.dist(p, q) < reach for q in points) for p in points]
    marks = [(x - 4, y - 4, x + 4, y + 4) for x, y in points]
    blocked, out = [*taken], {}
    for i in sorted(range(len(points)), key=lambda i: (-crowd[i], points[i])):
        others = [mark for j, mark in enumerate(marks) if j != i]
        options = [_box(points[i], sizes[i], r, a) for r in RADII for a in ANGLES]
        options = [box for box in options if _inside(box, frame)]
        free = [box for box in options if not any(_meet(box, b) for b in (*blocked, *others))]
        out[i] = (free or options or [_box(points[i], sizes[i], RADII[0], 0.0)])[0]
        blocked.append(out[i])
    return [out[i] for i in range(len(points))]


def _box(point: tuple[float, float], size: tuple[float, float], radius: float, angle: float) -> Box:
    """The label's box: its side nearest to the point lies `radius` away in the direction `angle`."""
    (x, y), (width, height) = point, size
    x, y = x + radius * math.cos(angle), y + radius * math.sin(angle)
    left = x if math.cos(angle) > 0 else x - width
    bottom = y - height / 2
    return (left, bottom, left + width, bottom + height)


def _inside(box: Box, frame: Box) -> bool:
    return box[0] >= frame[0] and box[1] >= frame[1] and box[2] <= frame[2] and box[3] <= frame[3]


def _meet(a: Box, b: Box) -> bool:
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]
