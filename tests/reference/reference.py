"""The float64 reference in PyTorch: a ViT with timm's parameter names, and the residual joins as modules.

A join maps (x, f) to the new stream, with x the stream [B, N, D] and f the branch's output. All is written
from the equations; `check_against_timm` holds the plain ViT to timm's own module.
"""
import dataclasses
import itertools
import math

import torch
import torch.nn.functional as F
from torch import nn

@dataclasses.dataclass
class Place:
    """Where a join stands: join l of L (both halves of a block counted), block b of D; the stream is d wide. The last
    four are of the joins that a strategy is asked to change."""
    l: int
    L: int
    b: int
    D: int
    d: int
    site: str  # attn, mlp
    first: str = "attn"  # the first site of the block
    begins: bool = False  # the join before is none of them
    ends: bool = False  # the join behind is none of them
    ends_block: bool = False  # the block has no other behind it


def philox4x32_10(counter, key):
    """Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011: four words of 32 bits from four and two."""
    for _ in range(10):
        first, second = 0xD2511F53 * counter[0], 0xCD9E8D57 * counter[2]
        counter = [second >> 32 ^ counter[1] ^ key[0], second & 0xFFFFFFFF,
                   first >> 32 ^ counter[3] ^ key[1], first & 0xFFFFFFFF]
        key = [(key[0] + 0x9E3779B9) & 0xFFFFFFFF, (key[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return counter


# The generators' published test vectors (Random123, kat_vectors).
assert philox4x32_10([0] * 4, [0] * 2) == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]
assert philox4x32_10([0xFFFFFFFF] * 4, [0xFFFFFFFF] * 2) == [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]


def drawn_number(seed, step, stream):
    """The first number in [0, 1) of a named stream in a step: the key is the seed, the counter (block of four elements,
    FNV-1a hash of the name, step); the number is the upper 24 bits of the first word."""
    name = 14695981039346656037
    for byte in stream.encode():
        name = (name ^ byte) * 1099511628211 & 0xFFFFFFFFFFFFFFFF
    words = philox4x32_10([0, name & 0xFFFFFFFF, name >> 32, step], [seed & 0xFFFFFFFF, seed >> 32])
    return (words[0] >> 8) * 2.0**-24


class Memory:
    """What the joins of one network keep for each other: weights that several share, and the values of one pass."""

    def __init__(self):
        self.weights, self.values = {}, {}


class Join(nn.Module):
    """Maps the stream x [B, N, D], the branch's output f and its input u to the new stream, the sum of two slots and of
    paths. The strategies below set them, as plugins do; specs are the plugins' own, "NAME:key=value,…". A strategy may
    also change what stands in a slot, the whole sum (given the block's norm), or what the norm, the branch and its
    attention read."""

    def __init__(self, specs, place, memory):
        super().__init__()
        self.shortcut = lambda x: x
        self.branch = lambda x, f: f
        self.paths = lambda x, u: 0
        self.scaled = lambda f: f  # the branch slot as it is added
        self.total = lambda x, f, u: self.shortcut(x) + self.scaled(self.branch(x, f)) + self.paths(x, u)
        self.summed = lambda total, norm: total
        self.norm_input = lambda x: x
        self.normed = lambda norm, x: norm(x)
        self.value = lambda v: v
        self.seed = self.step = 0  # of what is drawn
        for spec in specs:
            name, _, values = spec.partition(":")
            values = dict(value.split("=") for value in values.split(",") if value)
            layers, sites = values.pop("layers", None), values.pop("sites", "attn+mlp").split("+")

            def chosen(l):
                return (0 <= l < place.L and ("attn", "mlp")[l % 2] in sites
                        and (layers is None or l // 2 in blocks_of(layers)))

            if chosen(place.l):
                # The join of the block that the plugin sees first.
                first = next(site for site in ("attn", "mlp") if site in sites)
                behind = chosen(place.l + 1)
                STRATEGIES[name](self, dataclasses.replace(
                    place, first=first, begins=not chosen(place.l - 1), ends=not behind,
                    ends_block=place.site == "mlp" or not behind), memory, **values)

    def read(self, norm, x):
        """What the branch reads."""
        return self.normed(norm, self.norm_input(x))

    def forward(self, x, f, u, norm):
        return self.summed(self.total(x, f, u), norm)


def blocks_of(layers):
    """The block numbers of "0+2-3"."""
    ranges = [(item.split("-") * 2)[:2] for item in layers.split("+")]
    return {block for first, last in ranges for block in range(int(first), int(last) + 1)}


def orthogonal(join, place, memory, mode="feature", eps="1e-6", probability="1"):
    """f minus its projection on x: f - s x, s = <x, f> / (|x|^2 + eps), the inner products token by token (feature)
    or one a sample, over tokens and channels (global). In training a block does so with `probability`, by one draw a
    step that its joins share; in evaluation where that is at least one half."""
    axes, eps, probability = {"feature": (-1,), "global": (1, 2)}[mode], float(eps), float(probability)
    stream = f"blocks.{place.b}.join_{place.first}.orthogonal.draw"

    def is_orthogonal():
        if join.training:
            return probability == 1 or drawn_number(join.seed, join.step, stream) < probability
        return probability >= 0.5

    def branch(x, f):
        if not is_orthogonal():
            return f
        return f - (x * f).sum(axes, keepdim=True) / ((x * x).sum(axes, keepdim=True) + eps) * x

    join.branch = branch
    join.is_orthogonal = is_orthogonal


def decay(join, place, memory, alpha_min="0.6", schedule="endpoint", learnable="false", decay_alpha="true",
          variant="shortcut"):
    """x' = a x + f with a falling from join to join, or trained; sqrt(1/2) (x + f); x + sqrt(1/2) f."""
    l, L, b, D = place.l, place.L, place.b, place.D
    falling = {"endpoint": l / (L - 1), "paper_literal": l / L, "per_block": b / (D - 1), "constant": 1}
    alpha = 1 - (1 - float(alpha_min)) * falling[schedule]
    if variant != "shortcut":
        alpha = math.sqrt(0.5)
        join.branch = lambda x, f: alpha * f
    if learnable == "true":
        join.alpha = nn.Parameter(torch.ones(1))
        join.alpha.decays = decay_alpha == "true"
        join.shortcut = lambda x: join.alpha * x
    elif variant != "branch":
        join.shortcut = lambda x: alpha * x


def circulant_product(u, c, correlation):
    """u [..., b n] by the block-circulant matrix of c [b, b, n] (output slice, input slice, lag), by Fourier transforms:
    slice i of the result is irfft(sum over j of rfft(u_j) rfft(c_ij)), of conj(rfft(c_ij)) for the correlation."""
    b, _, n = c.shape
    spectrum = torch.fft.rfft(c)
    spectrum = spectrum.conj() if correlation else spectrum
    slices = torch.fft.rfft(u.reshape(*u.shape[:-1], 1, b, n))
    return torch.fft.irfft((slices * spectrum).sum(-2), n=n).reshape(u.shape)


def augment(join, place, memory, paths="2", blocks="4", order="circ_act", projection="circulant", input="norm",
            circulant="conv"):
    """Adds sum over i < T of gelu(u Theta_i), u the branch's input or x: Theta block-circulant or full, the activation
    behind it, before it, alone or left out."""
    T, b, d = int(paths), int(blocks), place.d
    if T == 0:
        return
    if order == "act":
        project = lambda u, i: u
    elif projection == "dense":
        join.weight = nn.Parameter(torch.zeros(T, d, d))
        project = lambda u, i: u @ join.weight[i].T
    else:
        join.c = nn.Parameter(torch.zeros(T, b, b, d // b))
        project = lambda u, i: circulant_product(u, join.c[i], circulant == "corr")
    path = {"circ_act": lambda u, i: F.gelu(project(u, i)), "act_circ": lambda u, i: project(F.gelu(u), i),
            "act": lambda u, i: F.gelu(u), "circ": project}[order]
    join.paths = lambda x, u: sum(path(u if input == "norm" else x, i) for i in range(T))


def skipless(join, place, memory, reinit="true"):
    """x' = f. A projection that nothing reads is a weight all the same, with a gradient of zero."""
    join.shortcut = lambda x: 0 * x


def undecayed(tensor):
    """A weight that takes no part in weight decay."""
    weight = nn.Parameter(tensor)
    weight.decays = False
    return weight


def layerscale(join, place, memory, kind="layerscale", init="0.1", by_depth="false"):
    """x + gamma f: gamma one number a channel, a join (skipinit), or a block (rezero)."""
    if kind == "layerscale":
        start = float(init)
        if by_depth == "true":
            start = 0.1 if place.D <= 18 else 1e-5 if place.D <= 24 else 1e-6
        join.gamma = gamma = undecayed(torch.full((1, 1, place.d), start))
    elif kind == "skipinit" or place.site == place.first:
        join.alpha = gamma = undecayed(torch.zeros(1))
        memory.weights["alpha", place.b] = gamma
    else:
        gamma = memory.weights["alpha", place.b]
    before = join.scaled
    join.scaled = lambda f: gamma * before(f)


def denseformer(join, place, memory, dilation="1", period="1", dynamic="false"):
    """Behind block i: the sum over j = i, i - k, i - 2k, … of a_ij X_j, X_j what block j gave before it. dynamic: plus
    column j of gelu(RMSNorm(X_i) W1) W2."""
    k, p = int(dilation), int(period)
    i = memory.weights["blocks"] = memory.weights.get("blocks", 0) + place.ends_block
    read = [j for j in range(i + 1) if (i - j) % k == 0] if i % p == 0 and place.ends_block else []
    for j in read:
        join.register_parameter(f"alpha_{j}", undecayed(torch.full((1,), float(j == i))))
    if dynamic == "true" and read:
        join.w1, join.w2 = nn.Parameter(torch.zeros(place.d, len(read))), nn.Parameter(torch.zeros(len(read), len(read)))
    if i == 0 or i == 1 and place.ends_block and place.begins:
        def entered(x):
            memory.values["outputs"] = [x]
            return x
        join.norm_input = entered

    def averaged(total, norm):
        if not place.ends_block:
            return total
        outputs = memory.values["outputs"]
        outputs.append(total)
        weights = [getattr(join, f"alpha_{j}") for j in read]
        if dynamic == "true" and read:
            added = F.gelu(F.rms_norm(total, (place.d,), eps=1e-6) @ join.w1) @ join.w2
            weights = [weight + column for weight, column in zip(weights, added.split(1, -1))]
        return sum(weight * outputs[j] for weight, j in zip(weights, read)) if read else total
    join.summed = averaged


def value_residual(join, place, memory, kind="fixed", first="0.5", own="0.5"):
    """Attention reads a V_1 + b V, with V_1 the values of the first attention; shared: V_1 alone."""
    if place.site != "attn":
        return
    if not memory.weights.get("values"):
        memory.weights["values"] = True

        def keep(v):
            memory.values["values"] = v
            return v
        join.value = keep
        return
    a, b = float(first), float(own)
    if kind == "learnable":
        join.first, join.own = undecayed(torch.full((1,), a)), undecayed(torch.full((1,), b))
        join.value = lambda v: join.first * memory.values["values"] + join.own * v
    elif kind == "shared":
        join.value = lambda v: memory.values["values"]
    else:
        join.value = lambda v: a * memory.values["values"] + b * v


def postnorm(join, place, memory, kind="postln", norm="layer", eps="1e-6"):
    """LN(a x + f(x)) with the block's own norm, a = 1 or DeepNorm's (2 D)^(1/4). With a new norm, keel:
    LN(L x + f(norm(x))), peri: x + LN(f(norm(x)))."""
    alpha = {"postln": 1, "deepnorm": (2 * place.D) ** 0.25, "keel": place.L, "peri": 1}[kind]
    if alpha != 1:
        join.shortcut = lambda x: alpha * x
    if kind in ("postln", "deepnorm"):
        join.normed = lambda norm, x: x
        join.summed = lambda total, norm: norm(total)
        return
    join.norm_weight = nn.Parameter(torch.ones(place.d))
    if norm == "layer":
        join.norm_bias = nn.Parameter(torch.zeros(place.d))
        normed = lambda x: F.layer_norm(x, (place.d,), join.norm_weight, join.norm_bias, float(eps))
    else:
        normed = lambda x: F.rms_norm(x, (place.d,), join.norm_weight, float(eps))
    if kind == "keel":
        join.summed = lambda total, norm: normed(total)
    else:
        before = join.scaled
        join.scaled = lambda f: normed(before(f))


def attnres(join, place, memory, block="1"):
    """The norm reads the softmax-weighted sum of the embedding, what each block of earlier branches gave as a sum, and
    the sum so far of the join's own block; weights by w . RMSNorm(source). Behind the last join the same again."""
    def add_query(name):
        query = undecayed(torch.zeros(place.d))
        join.register_parameter(name, query)

        def mixed(sources):
            v = torch.stack(sources)
            weights = (F.rms_norm(v, (place.d,), eps=1e-6) @ query).softmax(0)
            return (weights[..., None] * v).sum(0)
        return mixed

    sources = lambda: memory.values["sources"] + memory.values["partial"]
    if place.begins:
        def entered(x):
            memory.values.update(sources=[x], partial=[], joins=0)
            return x
        join.norm_input = entered
    else:
        mix = add_query("query")
        join.norm_input = lambda x: mix(sources())
    mix_all = add_query("output_query") if place.ends else None

    def total(x, f, u):
        values = memory.values
        values["joins"] += 1
        running = sum(values["partial"]) + f
        values["partial"] = [running]
        if values["joins"] % int(block) == 0:
            values["sources"] = values["sources"] + [running]
            values["partial"] = []
        return mix_all(sources()) if mix_all else running
    join.total = total


def laurel(join, place, memory, weights="sigmoid", rank="16", previous="1"):
    """a f + b (x + sum over j < k of c_j x_j A B), x_j the stream j joins before; a and b between 0 and 2."""
    r, k = int(rank), int(previous)
    if weights != "none":
        join.alpha, join.beta = undecayed(torch.zeros(1)), undecayed(torch.zeros(1))
    at = 0 if place.begins else memory.weights["laurel"] + 1
    memory.weights["laurel"] = at
    if r > 0:
        join.left, join.right = nn.Parameter(torch.zeros(place.d, r)), nn.Parameter(torch.zeros(r, place.d))
        for j in range(min(k, at + 1) if k > 1 else 0):
            join.register_parameter(f"gamma_{j}", undecayed(torch.full((1,), float(j == 0))))

    def factors():
        if weights == "softmax":
            return 2 * torch.cat([join.alpha, join.beta]).softmax(0)
        return (1, 1) if weights == "none" else (2 * join.alpha.sigmoid(), 2 * join.beta.sigmoid())

    def keep(x):
        memory.values["streams"] = [x] + ([] if place.begins else memory.values["streams"])
        return x
    join.norm_input = keep

    def shortcut(x):
        if r == 0:
            return factors()[1] * x
        streams = memory.values["streams"]
        read = sum(getattr(join, f"gamma_{j}") * streams[j] for j in range(min(k, at + 1))) if k > 1 else x
        return factors()[1] * (x + read @ join.left @ join.right)
    join.shortcut = shortcut
    join.scaled = lambda f: factors()[0] * f


def unet(join, place, memory):
    """Block c of the second half reads x + s y, y the output of block D - 1 - c."""
    outputs = memory.values

    def keep(total, norm):
        if place.site == "mlp":
            outputs["block", place.b] = total
            if skips:
                total = total + join.skip * outputs["block", place.D - 2 - place.b]
        return total
    skips = place.site == "mlp" and place.D / 2 <= place.b + 1 < place.D  # of the block that comes next
    if skips:
        join.skip = undecayed(torch.ones(1))
    join.summed = keep


def deep_delta(join, place, memory):
    """x + beta (v - k.x) k, k the branch at unit length."""
    join.beta_weight, join.value_weight = (nn.Parameter(torch.zeros(place.d, 1)) for _ in range(2))
    join.beta_bias, join.value_bias = undecayed(torch.zeros(1)), undecayed(torch.zeros(1))

    def total(x, f, u):
        k = F.rms_norm(f, (place.d,), eps=1e-10 / place.d) / math.sqrt(place.d)
        beta = 2 * (u @ join.beta_weight + join.beta_bias).sigmoid()
        value = 4 * (x @ join.value_weight + join.value_bias).sigmoid()
        return x + beta * (value - (k * x).sum(-1, keepdim=True)) * k
    join.total = total


def x0_lambdas(join, place, memory, start="falling", resid_lr="0.01", x0_lr="1", backout="false", backout_lr="0.4"):
    """A block reads r x + l x0, x0 the embedding. backout: behind the last join x - c x_m, x_m what block D // 2 gave."""
    def factor(value, lr, decay, beta1):
        weight = nn.Parameter(torch.full((1,), float(value)))
        weight.hint = dict(lr_scale=float(lr), weight_decay=decay, betas=(beta1, 0.95))
        return weight

    if place.begins and place.l > 0:
        join.norm_input = lambda x: memory.values.update(x0=x) or x
    elif place.site == place.first:
        share = place.b / max(place.D - 1, 1)
        falls = start == "falling"
        join.resid_lambda = factor(1.15 - 0.10 * share if falls else 1, resid_lr, 0.05, 0.8)
        join.x0_lambda = factor(0.20 - 0.15 * share if falls else 0, x0_lr, 0.0, 0.96)

        def mixed(x):
            if place.begins:
                memory.values["x0"] = x
            return join.resid_lambda * x + join.x0_lambda * memory.values["x0"]
        join.norm_input = join.shortcut = mixed
    if backout == "true":
        if place.ends:
            join.backout_lambda = factor(0.2 if start == "falling" else 0, backout_lr, 0.0, 0.8)

        def summed(total, norm):
            if place.b == place.D // 2 and place.ends_block:
                memory.values["middle"] = total
            return total - join.backout_lambda * memory.values["middle"] if place.ends else total
        join.summed = summed


def sinkhorn(m, iterations):
    """Columns, then rows, of m [..., n, n] brought to sums of 1, so often."""
    for _ in range(iterations):
        m = m / m.sum(-2, keepdim=True)
        m = m / m.sum(-1, keepdim=True)
    return m


def hyper(join, place, memory, kind="dynamic", lanes="4", iterations="20"):
    """n streams H_i: the norm reads sum of m_i H_i, and H_j becomes sum over i of r_ij H_i + b_j f. The numbers are
    weights (static), these and a function of the lanes (dynamic), or by Sinkhorn (mhc), or a mean of all permutations
    (mhc_lite). Summed behind the last join."""
    n, d = int(lanes), place.d
    chosen = torch.zeros(n, 1)
    chosen[place.l % n] = 1
    if kind == "mhc_lite":
        moves = torch.eye(n, dtype=torch.float64)[torch.tensor(list(itertools.permutations(range(n))))]  # [n!, from, to]
        join.phi = nn.Parameter(torch.zeros(n * d, 2 * n + len(moves)))
        start = torch.full((len(moves),), -8.0)
        start[0] = 0
        join.bias = undecayed(torch.cat([2 * chosen[:, 0] - 1, 2 * chosen[:, 0] - 1, start]))
        join.scale = undecayed(torch.full((3,), 0.01))
    elif kind == "mhc":
        join.phi = nn.Parameter(torch.zeros(n * d, n * (n + 2)))
        start = torch.cat([8 * chosen.T - 4, torch.zeros(1, n), 8 * torch.eye(n) - 8])
        join.bias = undecayed(start.flatten())
        join.scale = undecayed(torch.full((3,), 0.01))
    else:
        join.alpha = undecayed(torch.cat([chosen, torch.eye(n)], 1))
        join.beta = undecayed(torch.ones(n))
    if kind == "dynamic":
        join.alpha_fn, join.beta_fn = nn.Parameter(torch.zeros(d, n + 1)), nn.Parameter(torch.zeros(d, 1))
        join.alpha_scale, join.beta_scale = undecayed(torch.full((1,), 0.01)), undecayed(torch.full((1,), 0.01))

    def numbers(h):
        """m [n, B, N], r [n (from), n (to), B, N], b [n, B, N]."""
        if kind == "mhc_lite":
            flat = torch.cat(list(h), -1)
            raw = F.rms_norm(flat, (n * d,), eps=1e-6) @ join.phi
            scale = torch.cat([join.scale[:1].expand(n), join.scale[1:2].expand(n), join.scale[2:].expand(len(moves))])
            pre, post, res = (scale * raw + join.bias).split([n, n, len(moves)], -1)
            mixing = torch.einsum("bnp,pij->ijbn", res.softmax(-1), moves.to(h.dtype))
            return pre.sigmoid().movedim(-1, 0), mixing, 2 * post.sigmoid().movedim(-1, 0)
        if kind == "mhc":
            flat = torch.cat(list(h), -1)
            raw = F.rms_norm(flat, (n * d,), eps=1e-6) @ join.phi
            pre, post, res = raw.split([n, n, n * n], -1)
            b_pre, b_post, b_res = join.bias.split([n, n, n * n])
            mixing = sinkhorn((join.scale[2] * res + b_res).exp().unflatten(-1, (n, n)), int(iterations))
            return ((join.scale[0] * pre + b_pre).sigmoid().movedim(-1, 0), mixing.permute(3, 2, 0, 1),
                    (2 * (join.scale[1] * post + b_post).sigmoid()).movedim(-1, 0))
        alpha, beta = join.alpha[:, None, None], join.beta[:, None, None]
        if kind == "dynamic":
            normed = F.layer_norm(h, (d,), eps=1e-6)
            alpha = alpha + join.alpha_scale * (normed @ join.alpha_fn).tanh()
            beta = beta + join.beta_scale * (normed @ join.beta_fn).tanh()[..., 0]
        alpha, beta = alpha.expand(*h.shape[:3], n + 1), beta.expand(h.shape[:3])
        return alpha[..., 0], alpha[..., 1:].movedim(-1, 1), beta

    def norm_input(x):
        values = memory.values
        if place.begins:
            values["lanes"] = torch.stack([x] * n)
        m, values["mixing"], values["share"] = numbers(values["lanes"])
        return (m[..., None] * values["lanes"]).sum(0)
    join.norm_input = norm_input

    def total(x, f, u):
        values = memory.values
        mixed = (values["mixing"][..., None] * values["lanes"][:, None]).sum(0)
        values["lanes"] = mixed + values["share"][..., None] * f
        return values["lanes"].sum(0)
    join.total = total


STRATEGIES = {"orthogonal": orthogonal, "decay": decay, "augment": augment, "skipless": skipless,
              "layerscale": layerscale, "denseformer": denseformer, "value_residual": value_residual,
              "postnorm": postnorm, "attnres": attnres, "hyper": hyper, "x0_lambdas": x0_lambdas, "laurel": laurel,
              # Files of examples/formulas.
              "@unet": unet, "@deep_delta": deep_delta}


class Attention(nn.Module):
    def __init__(self, dim, heads, qkv_bias):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim, bias=qkv_bias)
        self.proj = nn.Linear(dim, dim)

    def forward(self, x, join):
        b, n, d = x.shape
        q, k, v = self.qkv(x).reshape(b, n, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        probabilities = (q @ k.transpose(-2, -1) / math.sqrt(d // self.heads)).softmax(-1)
        return self.proj((probabilities @ join.value(v)).transpose(1, 2).reshape(b, n, d))


class Mlp(nn.Module):
    def __init__(self, dim, hidden, act_layer):
        super().__init__()
        self.act_layer = act_layer
        self.fc1 = nn.Linear(dim, hidden)
        self.fc2 = nn.Linear(hidden, dim)

    def forward(self, x):
        x = self.fc1(x)
        if self.act_layer == "quick_gelu":
            return self.fc2(x * torch.sigmoid(1.702 * x))
        return self.fc2(F.gelu(x, approximate={"gelu": "none", "gelu_tanh": "tanh"}[self.act_layer]))


class Scale(nn.Module):
    """x times gamma, channel by channel."""

    def __init__(self, dim, init):
        super().__init__()
        self.gamma = nn.Parameter(torch.full((dim,), float(init)))

    def forward(self, x):
        return self.gamma * x


class Block(nn.Module):
    def __init__(self, dim, heads, hidden, o, join_attn, join_mlp):
        super().__init__()
        def scale():
            return Scale(dim, o["init_values"]) if o["init_values"] else nn.Identity()
        self.join_attn, self.join_mlp = join_attn, join_mlp
        self.norm1 = make_norm(dim, o)
        self.attn = Attention(dim, heads, o["qkv_bias"])
        self.ls1 = scale()
        self.norm2 = make_norm(dim, o)
        self.mlp = Mlp(dim, hidden, o["act_layer"])
        self.ls2 = scale()

    def forward(self, x):
        u = self.join_attn.read(self.norm1, x)
        x = self.join_attn(x, self.ls1(self.attn(u, self.join_attn)), u, self.norm1)
        u = self.join_mlp.read(self.norm2, x)
        return self.join_mlp(x, self.ls2(self.mlp(u)), u, self.norm2)


class PatchEmbed(nn.Module):
    def __init__(self, channels, dim, patch, bias):
        super().__init__()
        self.proj = nn.Conv2d(channels, dim, patch, patch, bias=bias)

    def forward(self, image):
        return self.proj(image).flatten(2).transpose(1, 2)


def make_norm(dim, o):
    return nn.LayerNorm(dim, eps=o["norm_eps"], elementwise_affine=o["norm_affine"])


# What a model's options are where it does not say.
OPTIONS = dict(mlp_ratio=4.0, pool="token", act_layer="gelu", class_token="auto", reg_tokens=0, no_embed_class=False,
               pre_norm=False, fc_norm=False, norm_affine=True, norm_eps=1e-6, qkv_bias=True, init_values=0.0,
               distilled=False)


def settled(options):
    """All options; whether there is a class token, a bool."""
    o = OPTIONS | options
    o["class_token"] = {"auto": o["pool"] == "token", "true": True, "false": False}[o["class_token"]]
    return o


class VisionTransformer(nn.Module):
    """Options as the family vit has them. pool 'token': the class token's output is classified; 'avg': the mean of the
    patches' tokens; `distilled`: the mean of two heads, one of a token of its own. plugins: the strategies of the joins, as
    plugin specs."""

    def __init__(self, image, patch, channels, classes, dim, depth, heads, plugins=(), **options):
        super().__init__()
        self.options = o = settled(options)
        patches, prefix = (image // patch) ** 2, o["class_token"] + o["distilled"] + o["reg_tokens"]
        self.cls_token = nn.Parameter(torch.zeros(1, 1, dim)) if o["class_token"] else None
        self.reg_token = nn.Parameter(torch.zeros(1, o["reg_tokens"], dim)) if o["reg_tokens"] else None
        self.pos_embed = nn.Parameter(torch.zeros(1, patches + (0 if o["no_embed_class"] else prefix), dim))
        self.dist_token = nn.Parameter(torch.zeros(1, 1, dim)) if o["distilled"] else None
        self.patch_embed = PatchEmbed(channels, dim, patch, not o["pre_norm"])
        self.norm_pre = make_norm(dim, o) if o["pre_norm"] else nn.Identity()
        hidden = int(dim * o["mlp_ratio"])
        memory = Memory()
        self.blocks = nn.Sequential(*[
            Block(dim, heads, hidden, o,
                  *(Join(plugins, Place(2 * b + i, 2 * depth, b, depth, dim, site), memory)
                    for i, site in enumerate(("attn", "mlp")))) for b in range(depth)])
        norm = make_norm(dim, o)
        self.norm, self.fc_norm = (nn.Identity(), norm) if o["fc_norm"] else (norm, nn.Identity())
        self.head = nn.Linear(dim, classes)
        if o["distilled"]:
            self.head_dist = nn.Linear(dim, classes)

    def draw(self, seed, step):
        """What is drawn from now on is drawn for this training step."""
        for module in self.modules():
            if isinstance(module, Join):
                module.seed, module.step = seed, step

    def drawn(self):
        """Which blocks are orthogonal, by the draw: 1 or 0, -1 where a block has no such join."""
        joins = [[getattr(join, "is_orthogonal", None) for join in (b.join_attn, b.join_mlp)] for b in self.blocks]
        return [next((int(draw()) for draw in block if draw), -1) for block in joins]

    def forward(self, image):
        x = self.patch_embed(image)
        before = [token.expand(x.shape[0], -1, -1) for token in (self.cls_token, self.dist_token, self.reg_token)
                  if token is not None]
        prefix = sum(token.shape[1] for token in before)
        if self.options["no_embed_class"]:
            x = torch.cat(before + [x + self.pos_embed], 1)
        else:
            x = torch.cat(before + [x], 1) + self.pos_embed
        x = self.norm(self.blocks(self.norm_pre(x)))
        if self.options["distilled"]:
            return (self.head(x[:, 0]) + self.head_dist(x[:, 1])) / 2
        x = x[:, 0] if self.options["pool"] == "token" else x[:, prefix:].mean(1)
        return self.head(self.fc_norm(x))


class OruBlock(nn.Module):
    def __init__(self, dim, heads, hidden, join_attn, join_mlp):
        super().__init__()
        self.join_attn, self.join_mlp = join_attn, join_mlp
        self.attn = Attention(dim, heads, True)
        self.mlp = Mlp(dim, hidden, "gelu_tanh")

    def forward(self, x):
        def norm(z):
            return F.layer_norm(z, z.shape[-1:], eps=1e-6)
        u = self.join_attn.read(norm, x)
        x = self.join_attn(x, self.attn(u, self.join_attn), u, norm)
        u = self.join_mlp.read(norm, x)
        return self.join_mlp(x, self.mlp(u), u, norm)


class OruVisionTransformer(nn.Module):
    """The network of the paper on orthogonal updates, options as the family oru_vit has them: norms without weights in
    the blocks, GELU by tanh, a class token without a position, a norm and a linear layer on it as head."""

    def __init__(self, image, patch, channels, classes, dim, depth, heads, mlp_ratio=4.0, plugins=()):
        super().__init__()
        self.cls_token = nn.Parameter(torch.zeros(1, 1, dim))
        self.pos_embed = nn.Parameter(0.02 * torch.randn(1, (image // patch) ** 2, dim))
        self.patch_embed = PatchEmbed(channels, dim, patch, True)
        memory = Memory()
        self.blocks = nn.Sequential(*[
            OruBlock(dim, heads, int(dim * mlp_ratio),
                     *(Join(plugins, Place(2 * b + i, 2 * depth, b, depth, dim, site), memory)
                       for i, site in enumerate(("attn", "mlp")))) for b in range(depth)])
        self.norm = nn.LayerNorm(dim, eps=1e-6)
        self.head = nn.Linear(dim, classes)

    def draw(self, seed, step):
        pass

    def forward(self, image):
        patches = self.patch_embed(image) + self.pos_embed
        x = self.blocks(torch.cat([self.cls_token.expand(len(image), -1, -1), patches], 1))
        return self.head(self.norm(x[:, 0]))


def timm_model(image, patch, channels, classes, dim, depth, heads, **options):
    """timm's module of the same options."""
    from timm.models.deit import VisionTransformerDistilled
    from timm.models.vision_transformer import VisionTransformer as TimmVisionTransformer

    o = settled(options)
    return (VisionTransformerDistilled if o["distilled"] else TimmVisionTransformer)(
        img_size=image, patch_size=patch, in_chans=channels, num_classes=classes, embed_dim=dim, depth=depth,
        num_heads=heads, mlp_ratio=o["mlp_ratio"], global_pool=o["pool"], class_token=o["class_token"],
        reg_tokens=o["reg_tokens"], no_embed_class=o["no_embed_class"], pre_norm=o["pre_norm"], fc_norm=o["fc_norm"],
        qkv_bias=o["qkv_bias"], init_values=o["init_values"] or None, act_layer=o["act_layer"],
        norm_layer=lambda d, **kw: nn.LayerNorm(d, eps=o["norm_eps"], elementwise_affine=o["norm_affine"], **kw))


def check_against_timm(model, options, images, labels):
    """Same names, same shapes, and with the same weights the same logits and gradients, to double precision."""
    other = timm_model(**options).double().eval()
    weights = model.state_dict()
    assert list(weights) == list(other.state_dict()), "parameter names or their order differ from timm's"
    other.load_state_dict(weights, strict=True)
    results = []
    for candidate in (model, other):
        candidate.zero_grad()
        logits = candidate(images)
        F.cross_entropy(logits, labels).backward()
        results.append([logits.detach()] + [p.grad.clone() for p in candidate.parameters()])
    for ours, theirs in zip(*results):
        torch.testing.assert_close(ours, theirs, rtol=1e-11, atol=1e-13)


def decay_groups(model, weight_decay, decay="matrices"):
    """The optimizer's groups: matrices decay; vectors, added tokens and pos_embed do not, unless decay is 'all'. What
    a join adds says so itself, or has a group of its own by its hint: lr_scale, weight_decay, betas."""
    groups, own = {True: [], False: []}, []
    for name, p in model.named_parameters():
        if hasattr(p, "hint"):
            own.append({"params": [p], **p.hint})
            continue
        matrix = p.ndim > 1 and name not in ("cls_token", "dist_token", "reg_token", "pos_embed")
        groups[decay == "all" or getattr(p, "decays", matrix)].append(p)
    return [{"params": groups[True], "weight_decay": weight_decay}, {"params": groups[False], "weight_decay": 0.0}] + own
