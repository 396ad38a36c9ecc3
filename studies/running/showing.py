"""Tables as text and pictures as SVG, without anything but Python's own library."""

import math
from xml.sax.saxutils import escape

COLOURS = ("#1f5fa8", "#d9731a", "#3a8f4d", "#8e4aa3", "#777777")
ROW, LEFT, WIDTH, TOP = 17, 210, 700, 58


def text_table(titles: list, best: dict, figures: str) -> str:
    """A row a case: the figures of each library, as "ms (communication)", and the first library's as a part of
    the best other's."""
    width = max(len(name) for name in (figures, *best))
    lines = [f"{figures:<{width}}" + "".join(f"{title:>22}" for title in titles) + "   ratio"]
    for case, by_title in best.items():
        cells = ["%.2f (%.2f)" % by_title[title] if title in by_title else "-" for title in titles]
        ratio = ratio_of(titles, by_title)
        lines.append(f"{case:<{width}}" + "".join(f"{cell:>22}" for cell in cells)
                     + (f"{ratio:8.2f}" + (" *" if is_slower(ratio) else "") if ratio else "       -"))
    return "\n".join(lines)


def ratio_of(titles: list, by_title: dict):
    """The first library's time divided by the best other's; None if either is missing."""
    others = [by_title[title][0] for title in titles[1:] if title in by_title]
    return by_title[titles[0]][0] / min(others) if others and titles[0] in by_title else None


def is_slower(ratio: float) -> bool:
    """Whether the ratio is above 1.0 as it is printed."""
    return round(ratio, 2) > 1


def slower_text(titles: list, of_studies: dict) -> str:
    """The cases of all studies in which the first library is slower than the best other, the slowest first, with how
    many there are of how many."""
    rows, compared = [], 0
    for study, best in of_studies.items():
        for case, by_title in best.items():
            ratio = ratio_of(titles, by_title)
            compared += ratio is not None
            if ratio and is_slower(ratio):
                other = min((title for title in titles[1:] if title in by_title), key=lambda title: by_title[title][0])
                rows.append((ratio, study, case, by_title[titles[0]][0], other, by_title[other][0]))
    width = max((len(f"{study} {case}") for _, study, case, *_ in rows), default=0)
    lines = [f"ratio above 1.0 in {len(rows)} of {compared} cases"]
    lines += [f"{ratio:6.2f}  {study + ' ' + case:<{width}}  {figure:.2f}, {other} {least:.2f}"
              for ratio, study, case, figure, other, least in sorted(rows, reverse=True)]
    return "\n".join(lines) + "\n"


def mark(kind: int, x: float, y: float) -> str:
    """A mark that differs in shape too, for those who see the colours alike."""
    colour = COLOURS[kind % len(COLOURS)]
    if kind == 0:
        return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4.5" fill="{colour}"/>'
    points = {1: ((-4, -4), (4, -4), (4, 4), (-4, 4)), 2: ((-5, 4), (5, 4), (0, -5))}
    shape = points.get(kind, ((-5, 0), (0, -5), (5, 0), (0, 5)))
    corners = " ".join(f"{x + dx:.1f},{y + dy:.1f}" for dx, dy in shape)
    return f'<polygon points="{corners}" fill="{colour}"/>'


def ticks(low: float, high: float) -> list:
    """1, 2 and 5 times powers of ten; only the powers where there would be many."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    factors = (1,) if len(powers) > 4 else (1, 2, 5)
    return [value for power in powers for factor in factors
            if low <= (value := factor * 10.0 ** power) <= high]


def picture(title: str, subtitle: str, titles: list, best: dict, unit: str) -> str:
    """A row a case with a mark a library, on a logarithmic axis."""
    times = [total for by_title in best.values() for total, _ in by_title.values()]
    low, high = min(times) / 1.2, max(times) * 1.2
    height = TOP + ROW * len(best) + 34
    place = lambda ms: LEFT + (WIDTH - LEFT - 20) * math.log(ms / low) / math.log(high / low)
    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" '
             f'viewBox="0 0 {WIDTH} {height}" font-family="sans-serif" font-size="11">',
             f'<rect width="{WIDTH}" height="{height}" fill="white"/>',
             f'<text x="10" y="18" font-size="14" font-weight="bold">{escape(title)}</text>',
             f'<text x="10" y="34" fill="#555">{escape(subtitle)}</text>']
    bottom = TOP + ROW * len(best)
    for value in ticks(low, high):
        x = place(value)
        lines.append(f'<path d="M{x:.1f} {TOP - 6}V{bottom}" stroke="#ddd"/>'
                     f'<text x="{x:.1f}" y="{bottom + 12}" text-anchor="middle">{value:g}</text>')
    lines.append(f'<text x="{(LEFT + WIDTH) / 2:.0f}" y="{bottom + 27}" text-anchor="middle">{unit}</text>')
    for row, (case, by_title) in enumerate(best.items()):
        y = TOP + ROW * row + 7
        lines.append(f'<text x="{LEFT - 12}" y="{y + 4}" text-anchor="end">{escape(case)}</text>'
                     f'<path d="M{LEFT} {y}H{WIDTH - 20}" stroke="#eee"/>')
        for kind, name in reversed(list(enumerate(titles))):
            if name in by_title:
                lines.append(mark(kind, place(by_title[name][0]), y))
    for kind, name in enumerate(titles):
        x = LEFT + 130 * kind
        lines.append(mark(kind, x, TOP - 14) + f'<text x="{x + 9}" y="{TOP - 10}">{escape(name)}</text>')
    return "\n".join(lines) + "\n</svg>\n"
