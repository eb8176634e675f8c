# SPDX-License-Identifier: BSD-3-Clause
"""A page of compare --html is whole: it parses, has no link to elsewhere, is small, and each figure has a
sentence; no text lies on another or beyond its drawing; and its numbers are those of compare --json of the
same run.

usage: page_check.py PAGE JSON"""
import html.parser
import json
import re
import sys
import xml.etree.ElementTree

MOST_BYTES = 1 << 20
EMPTY = {"meta", "br"}
WIDTH_OF_A_CHARACTER = 6.4  # of 11 pixels, in a wide font
HEIGHT_OF_A_LINE = 11


class Page(html.parser.HTMLParser):
    """Tables as rows of (text, value), figures as (name, title, sentence, drawings)."""

    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.open, self.complaints, self.tables, self.figures = [], [], [], []
        self.values, self.text = None, ""

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        if tag not in EMPTY:
            self.open.append(tag)
        if tag in ("script", "link", "img", "iframe", "object"):
            self.complaints.append(f"there is a <{tag}>")
        if any(name in ("src", "href", "xlink:href", "action") or name.startswith("on") for name in attrs):
            self.complaints.append(f"<{tag}> refers to elsewhere: {attrs}")
        if tag == "table":
            self.tables.append([])
        if tag == "tr":
            self.tables[-1].append([])
        if tag == "figure":
            self.figures.append({"name": attrs["data-name"], "title": "", "says": ""})
        if tag in ("td", "th"):
            value = attrs.get("data-value")
            self.values = None if value is None else float(value)
        self.text = ""

    def handle_startendtag(self, tag, attrs):
        pass

    def handle_data(self, data):
        self.text += data

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.complaints.append(f"</{tag}> ends what is not open")
        if tag in ("td", "th"):
            self.tables[-1][-1].append((self.text, self.values))
        if tag == "h3":
            self.figures[-1]["title"] = self.text
        if tag == "figcaption":
            self.figures[-1]["says"] = self.text
        self.text = ""


def box(text):
    """Roughly, where a text of a drawing stands: left, top, right, bottom."""
    words = text.text or ""
    width = len(words) * WIDTH_OF_A_CHARACTER * 0.95
    x, y = float(text.get("x")), float(text.get("y"))
    anchor = (text.get("class") or "").split()
    left = x - width if "e" in anchor else x - width / 2 if "m" in anchor else x
    return left, y - HEIGHT_OF_A_LINE + 2, left + width, y + 2, words


def wrong_with_drawing(source):
    """What is wrong with one SVG: words."""
    try:
        drawing = xml.etree.ElementTree.fromstring(source)
    except xml.etree.ElementTree.ParseError as error:
        return [f"a drawing is no XML: {error}"]
    width, height = map(float, drawing.get("viewBox").split()[2:])
    boxes = [box(text) for text in drawing.iter("text")]
    wrong = [f'"{b[4]}" is cut at the border' for b in boxes
             if b[4] and (b[0] < -4 or b[2] > width + 14 or b[1] < -1 or b[3] > height + 1)]
    for i, a in enumerate(boxes):
        for b in boxes[:i]:
            if a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]:
                wrong.append(f'"{a[4]}" lies on "{b[4]}"')
    for shape in drawing.iter("rect"):
        x, y, w, h = (float(shape.get(key)) for key in ("x", "y", "width", "height"))
        if x < -0.2 or y < -0.2 or x + w > width + 0.2 or y + h > height + 0.2:
            wrong.append(f"a box is cut at the border: {x} {y} {w} {h}")
    return wrong


def drawings_of(source):
    """The name of each figure, and its drawings."""
    for figure in re.findall(r'<figure data-name="([^"]*)">(.*?)</figure>', source, re.S):
        yield figure[0], re.findall(r"<svg.*?</svg>", figure[1], re.S)


def titles(drawing):
    """The exact numbers that a drawing tells under the pointer."""
    return re.findall(r"<title>([^<]*)</title>", drawing)


def near(a, b):
    """Equal, but for what a decimal loses."""
    return abs(a - b) <= 1e-9 * max(abs(a), abs(b))


def compare_table(table, rows):
    """The table of all configurations against their objects."""
    keys = {"loss": "loss", "step": "ms", "sent": "sent_all", "memory": "arena"}
    heads = [text for text, _ in table[0]]
    wrong = [] if len(table) - 1 == len(rows) else [f"{len(table) - 1} rows, and {len(rows)} objects"]
    for cells, row in zip(table[1:], rows):
        if cells[0][0] != row["name"]:
            wrong.append(f"{cells[0][0]} stands where {row['name']} should")
        for head, key in keys.items():
            value = cells[heads.index(head)][1]
            if (value is None) != (row[key] is None) or (value is not None and not near(value, row[key])):
                wrong.append(f"{row['name']}: {key} is {row[key]}, and the page has {value}")
    return wrong


def compare_figures(source, rows):
    """Bars of memory, and matrices of messages."""
    wrong, bars, sends, times = [], [], [], 0
    for name, drawings in drawings_of(source):
        times += len(drawings) if name == "time" else 0
        for drawing in drawings:
            if name == "memory":
                bars += [t.split(": ") for t in titles(drawing)]
            if name == "sends":
                sends.append(sum(float(t.split(": ")[1].split()[0]) for t in titles(drawing)))
    wanted = [[kind, f"{size} B"] for row in rows for kind, size in row["memory"].items() if size]
    if bars != wanted:
        wrong.append(f"bars of memory are {bars[:8]}.., and not {wanted[:8]}..")
    wanted = [sum(map(sum, row["sends"])) for row in rows if row["sent_all"]]
    small = [n for n in sends if n]
    if len(small) != len(wanted) or any(abs(a - b) > 1 + 16 * 16 for a, b in zip(small, wanted)):
        wrong.append(f"what is sent is {small}, and not {wanted}")
    if any(abs(sum(map(sum, row["sends"])) - row["sent_all"]) > 1 for row in rows):
        wrong.append("a matrix is not what is sent in all")
    if times != sum(bool(row["did"]) + bool(row["did"] and row["would"]) for row in rows):
        wrong.append(f"{times} timelines")
    return wrong


def compare_objects(rows):
    """What the objects say of themselves."""
    wrong = []
    for row in rows:
        for kind, columns in row["memory_over"].items():
            if max(columns) > row["memory"][kind]:
                wrong.append(f"{row['name']}: {kind} over the step is above its peak")
        if max(map(sum, zip(*row["memory_over"].values()))) != row["peak"]:
            wrong.append(f"{row['name']}: memory over the step does not reach its peak")
        if row["ran"] and row["losses"][-1] != row["loss"]:
            wrong.append(f"{row['name']}: the curve does not end at the loss")
        for name in ("did", "would"):
            line = row[name]
            for rank in range(len(line["forward"]) if line else 0):
                if sum(v[rank] for k, v in line.items() if k != "ms") > line["ms"] * (1 + 1e-9):
                    wrong.append(f"{row['name']}: rank {rank} does more than the step is long")
    return wrong


def main():
    """Prints a line for each thing that is wrong."""
    with open(sys.argv[1], encoding="utf-8") as file:
        source = file.read()
    with open(sys.argv[2], encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    rows = [row for row in rows if row["event"] == "configuration"]
    page = Page()
    page.feed(source)
    complaints = page.complaints
    if page.open:
        complaints.append(f"not closed: {page.open}")
    if len(source.encode()) > MOST_BYTES:
        complaints.append(f"{len(source.encode())} bytes")
    if re.search(r"https?:|url\(|@import|//[a-z]", source):
        complaints.append("there is an address")
    for figure in page.figures:
        if len(figure["says"]) < 25 or figure["says"][-1] != "." or re.search(r"nan|inf\b", figure["says"]):
            complaints.append(f"{figure['name']}, {figure['title']}: no sentence: {figure['says']}")
    for name, drawings in drawings_of(source):
        if not drawings:
            complaints.append(f"{name}: nothing is drawn")
        for drawing in drawings:
            complaints += [f"{name}: {wrong}" for wrong in wrong_with_drawing(drawing)]
    complaints += compare_table(page.tables[0], rows) + compare_figures(source, rows) + compare_objects(rows)
    print("\n".join(complaints))
    sys.exit(bool(complaints) or not rows)


main()
