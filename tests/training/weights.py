# SPDX-License-Identifier: BSD-3-Clause
"""weights.py: GPT-2 and Llama in numpy, after OpenAI's model.py, Touvron et al. and the layouts of
transformers; safetensors by hand.

  weights.py make FILE TOKENS TYPE [untied]   a random model of 2 layers, and tokens to learn from
  weights.py loss FILE TOKENS BATCH HEADS     of the first step with seed 1 (docs/training-models.md)
  weights.py llama FILE TOKENS TYPE           the same of a Llama, and of its first step
  weights.py llama_loss FILE TOKENS BATCH HEADS CONTEXT
  weights.py next FILE HEADS CONTEXT PROMPT TOKENS [TEMPERATURE TOP_K SEED]
                                              what sample goes on with, a byte a token
  weights.py same A B                         both have the same tensors, bit for bit
  weights.py read CHECKPOINT FILE             tutti.checkpoint has the tensors of FILE where these lie alike
  weights.py head FILE JSON [CUT]             a file with this head, and 64 bytes less CUT behind it
"""
import json
import struct
import sys

import numpy as np

from oracle import keys

LAYERS, CHANNELS, CONTEXT, VOCABULARY = 2, 64, 16, 48
BITS = {"F32": np.float32, "F16": np.float16}


def as_bytes(array, kind):
    if kind == "BF16":
        return (array.astype("<f4").view("<u4") >> 16).astype("<u2").tobytes()
    return array.astype(BITS[kind]).tobytes()


def write(path, tensors, kind):
    head, data = {}, b""
    for name, array in tensors.items():
        more = as_bytes(array, kind)
        offsets = [len(data), len(data) + len(more)]
        head[name] = {"shape": list(array.shape), "dtype": kind, "data_offsets": offsets}
        data += more
    text = json.dumps(dict(sorted(head.items(), reverse=True)), indent=1).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)


def read(path):
    data = open(path, "rb").read()
    length = struct.unpack_from("<Q", data)[0]
    found = {}
    for name, entry in json.loads(data[8 : 8 + length]).items():
        if name == "__metadata__":
            continue
        a, b = (8 + length + at for at in entry["data_offsets"])
        if entry["dtype"] == "BF16":
            array = (np.frombuffer(data[a:b], "<u2").astype("<u4") << 16).view("<f4")
        else:
            array = np.frombuffer(data[a:b], BITS[entry["dtype"]]).astype("<f4")
        found[name.removeprefix("transformer.")] = array.reshape(entry["shape"])
    return found


def make(path, tokens, kind, untied=None):
    chance = np.random.default_rng(7)
    shapes = {"wte.weight": (VOCABULARY, CHANNELS), "wpe.weight": (CONTEXT, CHANNELS)}
    for layer in range(LAYERS):
        for name, rows, columns in (
            ("attn.c_attn", CHANNELS, 3 * CHANNELS),
            ("attn.c_proj", CHANNELS, CHANNELS),
            ("mlp.c_fc", CHANNELS, 4 * CHANNELS),
            ("mlp.c_proj", 4 * CHANNELS, CHANNELS),
        ):
            shapes[f"h.{layer}.{name}.weight"] = (rows, columns)
            shapes[f"h.{layer}.{name}.bias"] = (columns,)
        for name in "ln_1", "ln_2":
            shapes[f"h.{layer}.{name}.weight"] = shapes[f"h.{layer}.{name}.bias"] = (CHANNELS,)
        shapes[f"h.{layer}.attn.bias"] = (1, 1, CONTEXT, CONTEXT)  # the mask, which GPT-2's file has
    shapes["ln_f.weight"] = shapes["ln_f.bias"] = (CHANNELS,)
    if untied:
        shapes["lm_head.weight"] = (VOCABULARY, CHANNELS)
    write_random(chance, path, tokens, kind, shapes)


def make_llama(path, tokens, kind, kv=2, hidden=192):
    shapes = {"model.embed_tokens.weight": (VOCABULARY, CHANNELS), "model.norm.weight": (CHANNELS,)}
    shapes["lm_head.weight"] = (VOCABULARY, CHANNELS)
    for layer in range(LAYERS):
        for name, rows, columns in (
            ("self_attn.q_proj", CHANNELS, CHANNELS),
            ("self_attn.k_proj", CHANNELS // 4 * int(kv), CHANNELS),
            ("self_attn.v_proj", CHANNELS // 4 * int(kv), CHANNELS),
            ("self_attn.o_proj", CHANNELS, CHANNELS),
            ("mlp.gate_proj", int(hidden), CHANNELS),
            ("mlp.up_proj", int(hidden), CHANNELS),
            ("mlp.down_proj", CHANNELS, int(hidden)),
        ):
            shapes[f"model.layers.{layer}.{name}.weight"] = (rows, columns)
        for name in "input_layernorm", "post_attention_layernorm":
            shapes[f"model.layers.{layer}.{name}.weight"] = (CHANNELS,)
    write_random(np.random.default_rng(8), path, tokens, kind, shapes)


def write_random(chance, path, tokens, kind, shapes):
    tensors = {name: chance.normal(0, 0.3, shape) for name, shape in shapes.items()}
    for array in tensors.values():
        array.flat[::7] *= 1e-6  # below the normal numbers of F16
    write(path, tensors, kind)
    with open(tokens, "wb") as file:
        file.write(struct.pack("<256i", 20240520, 1, 1000, *[0] * 253))
        file.write(chance.integers(0, VOCABULARY, 1000).astype("<u2").tobytes())


def norm(x, w, b):
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5) * w + b


def attention(x, w, at, heads):
    t, c = x.shape
    q, k, v = np.split(x @ w[at + "c_attn.weight"] + w[at + "c_attn.bias"], 3, -1)
    out = np.zeros_like(x)
    for head in range(heads):
        part = slice(head * c // heads, (head + 1) * c // heads)
        scores = q[:, part] @ k[:, part].T / np.sqrt(c // heads)
        scores[np.triu_indices(t, 1)] = -np.inf
        scores = np.exp(scores - scores.max(-1, keepdims=True))
        out[:, part] = scores / scores.sum(-1, keepdims=True) @ v[:, part]
    return out @ w[at + "c_proj.weight"] + w[at + "c_proj.bias"]


def feed_forward(x, w, at):
    x = x @ w[at + "c_fc.weight"] + w[at + "c_fc.bias"]
    x = 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))
    return x @ w[at + "c_proj.weight"] + w[at + "c_proj.bias"]


def logits(w, tokens, heads):
    x = w["wte.weight"][tokens] + w["wpe.weight"][: len(tokens)]
    layer = 0
    while f"h.{layer}.ln_1.weight" in w:
        at = f"h.{layer}."
        x = x + attention(norm(x, w[at + "ln_1.weight"], w[at + "ln_1.bias"]), w, at + "attn.", heads)
        x = x + feed_forward(norm(x, w[at + "ln_2.weight"], w[at + "ln_2.bias"]), w, at + "mlp.")
        layer += 1
    return norm(x, w["ln_f.weight"], w["ln_f.bias"]) @ w.get("lm_head.weight", w["wte.weight"]).T


def rms(x, w):
    return x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-5) * w


def rotated(x, heads):
    t, c = x.shape
    x = x.reshape(t, heads, c // heads)
    half = c // heads // 2
    angle = np.arange(t)[:, None] / 10000 ** (np.arange(half) / half)
    cos, sin = (np.concatenate([f(angle)] * 2, -1)[:, None] for f in (np.cos, np.sin))
    return x * cos + np.concatenate([-x[..., half:], x[..., :half]], -1) * sin


def llama_logits(w, tokens, heads):
    x = w["model.embed_tokens.weight"][tokens]
    t, c = x.shape
    layer = 0
    while f"model.layers.{layer}.mlp.up_proj.weight" in w:
        at = f"model.layers.{layer}."
        n = rms(x, w[at + "input_layernorm.weight"])
        q, k, v = (n @ w[at + f"self_attn.{name}_proj.weight"].T for name in "qkv")
        kv = k.shape[1] * heads // c
        q, k, v = rotated(q, heads), rotated(k, kv), v.reshape(t, kv, c // heads)
        out = np.zeros((t, heads, c // heads))
        for head in range(heads):
            scores = q[:, head] @ k[:, head * kv // heads].T / np.sqrt(c // heads)
            scores[np.triu_indices(t, 1)] = -np.inf
            scores = np.exp(scores - scores.max(-1, keepdims=True))
            out[:, head] = scores / scores.sum(-1, keepdims=True) @ v[:, head * kv // heads]
        x = x + out.reshape(t, c) @ w[at + "self_attn.o_proj.weight"].T
        n = rms(x, w[at + "post_attention_layernorm.weight"])
        gate = n @ w[at + "mlp.gate_proj.weight"].T
        hidden = gate / (1 + np.exp(-gate)) * (n @ w[at + "mlp.up_proj.weight"].T)
        x = x + hidden @ w[at + "mlp.down_proj.weight"].T
        layer += 1
    return rms(x, w["model.norm.weight"]) @ w["lm_head.weight"].T


def loss(path, tokens, batch, heads, context=None):
    w = {name: array.astype("f8") for name, array in read(path).items()}
    data = np.frombuffer(open(tokens, "rb").read()[1024:], "<u2")
    model, context = (llama_logits, int(context)) if context else (logits, len(w["wpe.weight"]))
    total = 0
    for i in range(int(batch)):
        first = int(keys(1, 0, i)) % (len(data) - context)
        z = model(w, data[first : first + context], int(heads))
        z -= z.max(-1, keepdims=True)
        wanted = z[np.arange(context), data[first + 1 : first + 1 + context]]
        total += (np.log(np.exp(z).sum(-1)) - wanted).mean()
    print("%.6f" % (total / int(batch)))


def following(path, heads, context, prompt, tokens, temperature=0, top_k=0, seed=0):
    w = {name: array.astype("f8") for name, array in read(path).items()}
    model, text = logits if "wpe.weight" in w else llama_logits, [*prompt.encode()]
    for n in range(int(tokens)):
        z = model(w, text[-int(context) :], int(heads))[-1]
        kept = np.sort(np.argsort(-z, kind="stable")[: int(top_k) or None])
        if not float(temperature):
            kept = np.argmax(z)[None]
        p = np.exp((z[kept] - z.max()) / (float(temperature) or 1)).cumsum()
        chance = (int(keys(int(seed), n)) >> 11) / 2**53
        text.append(int(kept[np.searchsorted(p, chance * p[-1], "right")]))
    sys.stdout.buffer.write(bytes(text) + b"\n")


def same(a, b):
    a, b = read(a), read(b)
    a = {name: array for name, array in a.items() if not name.endswith(".attn.bias")}
    assert sorted(a) == sorted(b), sorted(set(a) ^ set(b))
    for name in a:
        assert equal(a[name], b[name]), name
    print(len(a), "tensors")


def read_here(path, elsewhere):
    from tutti import checkpoint

    state, other = checkpoint.read(path), read(elsewhere)
    for here, there in (
        ("wpe", "wpe.weight"),
        ("layer1.ln2.bias", "h.1.ln_2.bias"),
        ("layer1.fc2.weight", "h.1.mlp.c_proj.weight"),
        ("lnf.weight", "ln_f.weight"),
    ):
        assert equal(state[here].values, other[there]), here
    assert equal(state["layer0.fc1.weight"].values.T, other["h.0.mlp.c_fc.weight"])
    m, v = state["wte"].m, state["wte"].v
    assert m.shape == v.shape == other["wte.weight"].shape and (v >= 0).all() and (m < 0).any()
    assert not state["wte"].waiting
    print("step", state.step, len(state))


def equal(a, b):
    return a.shape == b.shape and a.tobytes() == b.tobytes()


def head(path, text, cut=0):
    data = struct.pack("<Q", len(text)) + text.encode() + bytes(64)
    with open(path, "wb") as file:
        file.write(data[: len(data) - int(cut)])


COMMANDS = {"make": make, "llama": make_llama, "loss": loss, "llama_loss": loss, "same": same}
COMMANDS |= {"read": read_here, "head": head, "next": following}
COMMANDS[sys.argv[1]](*sys.argv[2:])
