# SPDX-License-Identifier: BSD-3-Clause
"""oracle.py: what docs/training-models.md says, as a program: initial values, data, the loss, its gradient
and an optimizer's step of each model, in float64. It is written from that page alone, so a constant or a
layout that the page lacks is missing here, too, and one that is wrong there differs from the checkpoints.

  oracle.py PRINTED FIRST SECOND [NEXT..] [KEY=VALUE..]

PRINTED is what the run printed that made the last checkpoint; the others are those of the steps before. Keys
are what a checkpoint does not tell: top=2, capacity=0 and balance=0 of moe; groups=0 of cnn's
norm; dropout=0 of gpt, llama and moe.

Forward passes are written down, and gradients follow by the chain rule: a Value knows from which others it
came. So no derivative of the trainer is repeated here.
"""
import importlib.util
import json
import pathlib
import struct
import sys

import numpy as np

# The reader of checkpoints alone, for the package around it needs the library.
HERE = pathlib.Path(__file__).resolve().parents[2]
SPEC = importlib.util.spec_from_file_location("checkpoint", HERE / "python/tutti/checkpoint.py")


# ---- numbers that know where they came from


class Value:
    made = []  # all, in order

    def __init__(self, x, *back):
        """back: pairs of an input, and what makes its gradient of this one's."""
        self.x, self.back, self.gradient = np.asarray(x, "f8"), back, None
        Value.made.append(self)

    def __add__(self, y):
        y = value(y)
        return Value(self.x + y.x, (self, lambda d: d), (y, lambda d: d))

    def __mul__(self, y):
        y = value(y)
        return Value(self.x * y.x, (self, lambda d: d * y.x), (y, lambda d: d * self.x))

    def __matmul__(self, y):
        return Value(
            self.x @ y.x,
            (self, lambda d: d @ y.x.swapaxes(-1, -2)),
            (y, lambda d: self.x.swapaxes(-1, -2) @ d),
        )

    def __pow__(self, n):
        return Value(self.x**n, (self, lambda d: d * n * self.x ** (n - 1)))

    def __getitem__(self, key):
        def back(d):
            whole = np.zeros_like(self.x)
            np.add.at(whole, key, d)
            return whole

        return Value(self.x[key], (self, back))

    def __neg__(self):
        return self * -1

    def __sub__(self, y):
        return self + -value(y)

    def __truediv__(self, y):
        return self * value(y) ** -1

    def shaped(self, *shape):
        return Value(self.x.reshape(shape), (self, lambda d: d.reshape(self.x.shape)))

    def turned(self, *axes):
        return Value(self.x.transpose(axes), (self, lambda d: d.transpose(np.argsort(axes))))

    @property
    def T(self):
        return self.turned(*range(self.x.ndim - 2), self.x.ndim - 1, self.x.ndim - 2)

    def sum(self, *axes):
        return Value(self.x.sum(axes, keepdims=True), (self, lambda d: np.broadcast_to(d, self.x.shape)))

    def mean(self, *axes):
        total = self.sum(*axes)
        return total * (total.x.size / self.x.size)


def value(x):
    return x if isinstance(x, Value) else Value(x)


def exp(a):
    y = np.exp(a.x)
    return Value(y, (a, lambda d: d * y))


def log(a):
    return Value(np.log(a.x), (a, lambda d: d / a.x))


def tanh(a):
    y = np.tanh(a.x)
    return Value(y, (a, lambda d: d * (1 - y * y)))


def padded(a):
    """A grid [pictures][S][S][channels] with a border of 0."""
    border = (0, 0), (1, 1), (1, 1), (0, 0)
    return Value(np.pad(a.x, border), (a, lambda d: d[:, 1:-1, 1:-1]))


def differentiate(loss):
    loss.gradient = np.ones_like(loss.x)
    for made in reversed(Value.made):
        for source, back in made.back if made.gradient is not None else ():
            d = back(made.gradient)
            d = d.sum(tuple(range(d.ndim - source.x.ndim)))
            wide = tuple(i for i, n in enumerate(source.x.shape) if n == 1 and d.shape[i] > 1)
            d = d.sum(wide, keepdims=True)
            source.gradient = d if source.gradient is None else source.gradient + d


# ---- chance and data


@np.errstate(over="ignore")
def h(x):
    x = np.asarray(x, "u8") + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ x >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ x >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
    return x ^ x >> np.uint64(31)


@np.errstate(over="ignore")
def keys(*numbers):
    """h(..h(h(seed) + first) + ..)."""
    key = np.uint64(0)
    for number in numbers:
        key = h(key + np.asarray(number, "u8"))
    return key


def normal(seed, n, count):
    k = keys(seed, n) + 2 * np.arange(count, dtype="u8")
    words = [h(k + np.uint64(i)) >> np.uint64(16 * j) & np.uint64(0xFFFF) for i in (0, 1) for j in range(4)]
    total = sum(words)
    return (2 * total.astype("f8") - 8 * 65535) / (2 * 65536 * np.sqrt(8 / 12))


def grammar(vocabulary):
    chance = h(2 * np.arange(65536, dtype="u8") + np.uint64(1)).tolist()
    follows = (h(np.arange(4 * vocabulary)) % np.uint64(vocabulary)).tolist()
    tokens = [0]
    for c in chance[1:]:
        tokens.append(follows[4 * tokens[-1] + (c >> 8) % 2] if c % 8 else (c >> 8) % vocabulary)
    return np.array(tokens)


def text(state):
    tokens = grammar(state.vocabulary)
    begin = keys(state.seed, state.step, np.arange(state.batch)) % np.uint64(len(tokens) - state.context)
    places = begin.astype(int)[:, None] + np.arange(state.context)
    return tokens[places], tokens[places + 1]


def rows(state):
    key = keys(state.seed, state.step, np.arange(state.batch)[:, None], np.arange(8)).reshape(-1)
    classes = key % np.uint64(state.vocabulary)
    own = h(~h(state.seed) + classes)
    i = np.arange(state.inputs, dtype="u8")
    pattern = (h(own[:, None] + i) % np.uint64(256)).astype(int) - 128
    noise = (h(key[:, None] + np.uint64(1) + i) % np.uint64(512)).astype(int) - 256
    return (pattern + noise) / 128, classes.astype(int)


BARS = "abcdef bc abdeg abcdg bcfg acdfg acdefg abc abcdefg abcdfg abcefg cdefg adef bcdeg adefg aefg".split()


def digit(which):
    """9 rows of 5 points."""
    ink = np.zeros((9, 5))
    for bar in BARS[which]:
        if bar in "agd":
            ink[4 * "agd".index(bar), 1:4] = 128
        else:
            from_row, column = {"f": (1, 0), "b": (1, 4), "e": (5, 0), "c": (5, 4)}[bar]
            ink[from_row : from_row + 3, column] = 128
    return ink


def pictures(state):
    side = 2 * int(np.sqrt(state.context))
    point, found, targets = side // 16, [], []
    for key in keys(state.seed, state.step, np.arange(state.batch)):
        which, place = int(key) % state.vocabulary, int(key) >> 32
        top, left = place % (side - 9 * point + 1), (place >> 16) % (side - 5 * point + 1)
        noise = h(key + np.uint64(1) + np.arange(side * side, dtype="u8")) % np.uint64(128)
        picture = noise.astype("f8").reshape(side, side) - 64
        ink = digit(which).repeat(point, 0).repeat(point, 1)
        picture[top : top + 9 * point, left : left + 5 * point] += ink
        cells = picture.reshape(side // 2, 2, side // 2, 2).swapaxes(1, 2)
        found.append(cells.reshape(side // 2, side // 2, 4))
        targets.append(which)
    return np.array(found) / 128, np.array(targets)


# ---- the models


def gelu(x):
    return x / 2 * (tanh((x + x**3 * 0.044715) * np.sqrt(2 / np.pi)) + 1)


def softmax(x):
    y = exp(x - x.x.max(-1, keepdims=True))
    return y / y.sum(-1)


def normed(x, *axes):
    """Without the weight and the bias: less the mean, over the root of the biased variance."""
    x = x - x.mean(*axes)
    return x * ((x**2).mean(*axes) + 1e-5) ** -0.5


def layer_norm(x, w, name):
    return normed(x, -1) * w[name + ".weight"] + w[name + ".bias"]


def cross_entropy(scores, targets):
    scores = scores.shaped(-1, scores.x.shape[-1])
    wanted = scores[np.arange(targets.size), targets.reshape(-1)]
    largest = scores.x.max(-1, keepdims=True)
    return (log(exp(scores - largest).sum(-1)) + largest).mean(0, 1) - wanted.mean(0)


def attention(q, k, v, by):
    """Of [sequence][head][token][channel]; what the heads give lies side by side. Probabilities are
    multiplied by `by`."""
    b, heads, t, d = q.x.shape
    scores = q @ k.T / np.sqrt(d) + np.triu(np.full((t, t), -1e30), 1)
    return (softmax(scores) * by @ v).turned(0, 2, 1, 3).shaped(b, t, heads * d)


def attend(x, w, at, heads, by):
    b, t, c = x.x.shape
    qkv = x @ w[at + "qkv.weight"].T + w[at + "qkv.bias"]
    qkv = qkv.shaped(b, t, heads, 3, c // heads).turned(3, 0, 2, 1, 4)
    return attention(qkv[0], qkv[1], qkv[2], by) @ w[at + "proj.weight"] + w[at + "proj.bias"]


def feed_forward(x, w, at, asked):
    hidden = gelu(x @ w[at + "fc1.weight"].T + w[at + "fc1.bias"])
    return hidden @ w[at + "fc2.weight"] + w[at + "fc2.bias"], 0


def experts(x, w, at, asked):
    """All experts of all tokens, of which those count that are chosen; and what balance adds to the loss."""
    b, t, c = x.x.shape
    tokens, x = b * t, x.shaped(-1, c)
    p = softmax(x @ w[at + "router.weight"].T)
    n, top = p.x.shape[-1], asked["top"]
    chosen = np.argsort(-p.x, -1, kind="stable")[:, : int(top)]
    wanted, taken, gate = np.bincount(chosen.reshape(-1), minlength=n), np.zeros(n), np.zeros(p.x.shape)
    most = np.ceil(asked["capacity"] * top * tokens / n) if asked["capacity"] else np.inf
    for token, choices in enumerate(chosen):
        for e in choices:
            gate[token, e] = taken[e] < most
            taken[e] += 1
    up = x @ w[at + "up.weight"].shaped(n, 2 * c, c).T + w[at + "up.bias"].shaped(n, 1, 2 * c)
    down = gelu(up) @ w[at + "down.weight"].shaped(n, 2 * c, c) + w[at + "down.bias"].shaped(n, 1, c)
    out = (down * (p * gate).T.shaped(n, tokens, 1)).sum(0).shaped(b, t, c)
    return out, (p.mean(0) * (wanted / (top * tokens))).sum(0, 1) * (asked["balance"] * n)


@np.errstate(over="ignore")
def philox(counter, key):
    """Ten rounds on four arrays of 32 bits, in 64."""
    low, half = np.uint64(0xFFFFFFFF), np.uint64(32)
    a, b, c, d = (np.asarray(n, "u8") for n in counter)
    x, y = (np.asarray(n, "u8") for n in key)
    for _ in range(10):
        p, q = a * np.uint64(0xD2511F53), c * np.uint64(0xCD9E8D57)
        a, b, c, d = q >> half ^ b ^ x, q & low, p >> half ^ d ^ y, p & low
        x, y = x + np.uint64(0x9E3779B9) & low, y + np.uint64(0xBB67AE85) & low
    return a, b, c, d


def draw(state, counter):
    key = keys(state.seed, state.step)
    return philox(counter, (key & np.uint64(0xFFFFFFFF), key >> np.uint64(32)))


def kept(words, part):
    return (words >= np.uint64(part * 2**32)) * float(np.float32(1 / (1 - part)))


def drop(x, state, site, part):
    if not part:
        return x
    b, t, c = x.x.shape
    i = np.arange(c // 4)
    sequence, place = np.arange(b)[:, None, None], np.arange(t)[:, None]
    words = draw(state, (i, place, sequence, site))
    words = np.concatenate([np.broadcast_to(w, (b, t, c // 4)) for w in words], -1)
    return x * kept(words, part)


def attended(state, layer, part):
    """What probabilities [sequence][head][query][key] are multiplied by."""
    if not part:
        return 1
    key = np.arange(state.context)
    query, head = key[:, None], np.arange(state.heads)[:, None, None]
    sequence = np.arange(state.batch)[:, None, None, None] + 2**31
    words = draw(state, (16 * (key // 64) + key % 16, query, sequence, 4096 * head + layer))
    return kept(np.choose(key // 16 % 4, words), part)


def gpt(w, state, asked, block=feed_forward):
    tokens, targets = text(state)
    part = asked.get("dropout", 0)
    x = drop(w["wte"][tokens] + w["wpe"], state, 0, part)
    more = 0
    for layer in range(state.layers):
        at = f"layer{layer}."
        by = attended(state, layer, part)
        x = x + drop(attend(layer_norm(x, w, at + "ln1"), w, at, state.heads, by), state, 2 * layer + 1, part)
        out, balance = block(layer_norm(x, w, at + "ln2"), w, at, asked)
        x, more = x + drop(out, state, 2 * layer + 2, part), value(balance) + more
    head = w["wte"] if state.tied else w["head.weight"]
    return cross_entropy(layer_norm(x, w, "lnf") @ head.T, targets), more


def moe(w, state, asked):
    return gpt(w, state, asked, experts)


def rms_norm(x, weight):
    return x * ((x**2).mean(-1) + 1e-5) ** -0.5 * weight


def rope(x):
    half = x.x.shape[-1] // 2
    rate = (10000 ** (-np.arange(half) / half)).astype("f4").astype("f8")
    angle = np.arange(x.x.shape[-2])[:, None] * rate
    cos, sin = np.tile(np.cos(angle), 2), np.tile(np.sin(angle), 2)
    other = x[..., np.roll(np.arange(2 * half), half)]
    return x * cos + other * sin * np.repeat((-1, 1), half)


def attend_in_groups(x, w, at, heads, by):
    b, t, c = x.x.shape
    d = c // heads
    groups = (len(w[at + "qkv.weight"].x) // d - heads) // 2
    each = heads // groups
    qkv = (x @ w[at + "qkv.weight"].T).shaped(b, t, groups, each + 2, d).turned(0, 2, 3, 1, 4)
    group, head = np.divmod(np.arange(heads), each)
    out = attention(rope(qkv[:, group, head]), rope(qkv[:, group, each]), qkv[:, group, each + 1], by)
    return out @ w[at + "proj.weight"]


def swiglu(x, w, at):
    b, t, c = x.x.shape
    both = (x @ w[at + "fc1.weight"].T).shaped(b, t, 8, 2, -1)
    gate, up = (both[..., i, :].shaped(b, t, -1) for i in (0, 1))
    return gate / (exp(-gate) + 1) * up @ w[at + "fc2.weight"]


def llama(w, state, asked):
    tokens, targets = text(state)
    part = asked.get("dropout", 0)
    x = drop(w["wte"][tokens], state, 0, part)
    for layer in range(state.layers):
        at, by = f"layer{layer}.", attended(state, layer, part)
        seen = attend_in_groups(rms_norm(x, w[at + "ln1.weight"]), w, at, state.heads, by)
        x = x + drop(seen, state, 2 * layer + 1, part)
        x = x + drop(swiglu(rms_norm(x, w[at + "ln2.weight"]), w, at), state, 2 * layer + 2, part)
    return cross_entropy(rms_norm(x, w["lnf.weight"]) @ w["head.weight"].T, targets), 0


def mlp(w, state, asked):
    w, (x, targets) = list(w.values()), rows(state)
    x = value(x)
    for layer in range(state.layers):
        weight, bias = w[2 * layer : 2 * layer + 2]
        x = gelu(x @ (weight if layer % 2 else weight.T) + bias)
    return cross_entropy(x @ w[-1].T, targets), 0


def convolution(x, w, by_channels):
    """w: [outputs][tap][inputs], or by_channels [inputs][tap][outputs]."""
    inputs, side, around, total = x.x.shape[-1], x.x.shape[1], padded(x), 0
    w = w.shaped(inputs, 9, -1) if by_channels else w.shaped(-1, 9, inputs)
    for tap in range(9):
        i, j = divmod(tap, 3)
        matrix = w[:, tap] if by_channels else w[:, tap].T
        total = around[:, i : i + side, j : j + side] @ matrix + total
    return total


def group_norm(x, groups):
    b, s, _, c = x.x.shape
    return normed(x.shaped(b, s * s, groups, c // groups), 1, 3).shaped(b, s, s, c)


def cnn(w, state, asked):
    w, (x, targets) = list(w.values()), pictures(state)
    x, each = value(x), 4 if asked["groups"] else 2
    for layer in range(state.layers):
        weight, bias, *of_norm = w[each * layer : each * (layer + 1)]
        x = convolution(x, weight, layer % 2) + bias
        if of_norm:
            x = group_norm(x, int(asked["groups"])) * of_norm[0] + of_norm[1]
        x = gelu(x)
    x = x.mean(1, 2).shaped(-1, state.channels)
    return cross_entropy(x @ w[-1].T, targets), 0


MODELS = {"gpt": gpt, "llama": llama, "moe": moe, "mlp": mlp, "cnn": cnn}


# ---- what is compared


def initial(n, name, parameter, state):
    """The initial values of the n-th parameter, of this name."""
    kind, (rows, columns) = name.split(".")[-2] if "." in name else name, parameter.shape
    if state.model.split()[0] in ("gpt", "llama", "moe"):
        deviation = 0.02 / np.sqrt(2 * state.layers if kind in ("proj", "fc2", "down") else 1)
    elif kind == "head":
        deviation = np.sqrt(1 / columns)
    else:
        by_inputs = int(name[len("layer") : name.index(".")]) % 2
        taps = 9 if state.model.startswith("cnn") else 1
        deviation = np.sqrt(2 / (rows * taps if by_inputs else columns))
    return deviation * normal(state.seed, n, rows * columns).reshape(rows, columns)


def differs(what, found, wanted, bound):
    """The largest difference, by the largest number."""
    found, wanted = np.asarray(found, "f8"), np.asarray(wanted, "f8")
    worst = np.abs(found - wanted).max() / max(np.abs(wanted).max(), 1e-30)
    if not worst < bound:
        print(f"{what}: by {worst:.1e}, and at most {bound:.0e} is legal")
        differs.count += 1


differs.count = 0


def begins(state):
    for n, (name, parameter) in enumerate(state.items()):
        p = parameter.values
        if p.ndim == 2:
            differs(f"initial {name}", p, initial(n, name, p, state), 1e-7)
        else:
            differs(f"initial {name}", p, 0 * p if name.endswith(".bias") else 0 * p + 1, 1e-30)


def read_gradients(path):
    """What --save-gradients wrote: a head of JSON behind its length, then float32 (safetensors)."""
    data = open(path, "rb").read()
    (length,) = struct.unpack_from("<Q", data)
    entries, body = json.loads(data[8 : 8 + length]), data[8 + length :]
    of = {name: slice(*entry["data_offsets"]) for name, entry in entries.items() if name != "__metadata__"}
    return {name: np.frombuffer(body[where], "<f4") for name, where in of.items()}


def wrote(at, gradients, path):
    """The norm of what a file has. In those of a GPT and a Llama the name of the embedding alone is known."""
    found = read_gradients(path)
    named = {"transformer.wte.weight": "wte", "model.embed_tokens.weight": "wte"}
    for name, values in found.items():
        own = named.get(name, name)
        if own in gradients:
            differs(f"{at} gradient of {own}", values, gradients[own].reshape(-1), 2e-5)
            gradients = {key: g for key, g in gradients.items() if key != own}
    if not named.keys() & found.keys():
        for name in gradients:
            differs(f"{at} no gradient of {name}", 1, 0, 0)
    squares = sum((values.astype("f8") ** 2).sum() for values in found.values())
    return np.sqrt(squares)


def step(before, after, printed, asked, path):
    """The loss, the norm and the gradient of `before`, and the step that gives `after`."""
    Value.made.clear()
    w = {name: Value(parameter.values) for name, parameter in before.items()}
    loss, more = MODELS[before.model.split()[0]](w, before, asked)
    differentiate(loss + more)
    gradients = {name: v.gradient for name, v in w.items()}
    norm = np.sqrt(sum((g**2).sum() for g in gradients.values()))
    at = f"step {before.step}"
    differs(f"{at} loss", loss.x, printed[before.step][0], 5e-7)
    differs(f"{at} norm", norm, printed[before.step][1], 5e-7)
    differs(f"{at} norm of what was written", wrote(at, gradients, path), norm, 5e-7)
    n, rate = after.step, after.rate
    for name, (p, m, v, _) in before.items():
        g = gradients[name] * min(1, after.clip / norm)
        new, what = after[name], f"{at} {name}"
        p = p.astype("f8")
        if not after.adamw:
            differs(f"{what} values", new.values, p - rate * g, 1e-6)
            continue
        differs(f"{what} m", new.m, 0.9 * m + 0.1 * g, 3e-6)
        differs(f"{what} v", new.v, 0.95 * v + 0.05 * g**2, 3e-6)
        m, v = new.m.astype("f8") / (1 - 0.9**n), new.v.astype("f8") / (1 - 0.95**n)
        decay = after.decay if p.ndim == 2 else 0
        differs(f"{what} step", new.values - p, -rate * (m / (np.sqrt(v) + 1e-8) + decay * p), 2e-4)


def main(printed, *words):
    checkpoint = importlib.util.module_from_spec(SPEC)
    SPEC.loader.exec_module(checkpoint)
    asked = {"top": 2.0, "capacity": 0.0, "balance": 0.0, "groups": 0.0}
    asked |= {key: float(number) for key, _, number in (word.partition("=") for word in words) if number}
    paths = [word for word in words if "=" not in word]
    states = [checkpoint.read(path) for path in paths]
    lines = [line.split() for line in open(printed) if line[0] != "#"]
    lines = [line for line in lines if line[0] == "step"]
    losses = {int(line[1]): (float.fromhex(line[4]), float.fromhex(line[7])) for line in lines}
    if states[0].step == 0:
        begins(states[0])
    for before, after, path in zip(states, states[1:], paths[1:]):
        step(before, after, losses, asked, path + ".gradients")
    return differs.count


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]) > 0)
