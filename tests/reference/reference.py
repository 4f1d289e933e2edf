"""The float64 reference in PyTorch: a ViT with timm's parameter names, and the residual joins as modules.

A join maps (x, f) to the new stream, with x the stream [B, N, D] and f the branch's output. All is written
from the equations; `check_against_timm` holds the plain ViT to timm's own module.
"""
import dataclasses
import math

import torch
import torch.nn.functional as F
from torch import nn

@dataclasses.dataclass
class Place:
    """Where a join stands: join l of L (both halves of a block counted), block b of D; the stream is d wide."""
    l: int
    L: int
    b: int
    D: int
    d: int
    site: str  # attn, mlp
    first: str = "attn"  # the first site of the block that a strategy is asked to change


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


class Join(nn.Module):
    """Maps the stream x [B, N, D], the branch's output f and its input u to the new stream, the sum of two slots and of
    paths. The strategies below set them, as plugins do; specs are the plugins' own, "NAME:key=value,…"."""

    def __init__(self, specs, place):
        super().__init__()
        self.shortcut = lambda x: x
        self.branch = lambda x, f: f
        self.paths = lambda x, u: 0
        self.seed = self.step = 0  # of what is drawn
        for spec in specs:
            name, _, values = spec.partition(":")
            values = dict(value.split("=") for value in values.split(",") if value)
            layers = values.pop("layers", None)
            sites = values.pop("sites", "attn+mlp").split("+")
            if place.site in sites and (layers is None or place.b in blocks_of(layers)):
                # The join of the block that the plugin sees first.
                first = next(site for site in ("attn", "mlp") if site in sites)
                STRATEGIES[name](self, dataclasses.replace(place, first=first), **values)

    def forward(self, x, f, u):
        return self.shortcut(x) + self.branch(x, f) + self.paths(x, u)


def blocks_of(layers):
    """The block numbers of "0+2-3"."""
    ranges = [(item.split("-") * 2)[:2] for item in layers.split("+")]
    return {block for first, last in ranges for block in range(int(first), int(last) + 1)}


def orthogonal(join, place, mode="feature", eps="1e-6", probability="1"):
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


def decay(join, place, alpha_min="0.6", schedule="endpoint", learnable="false", decay_alpha="true",
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


def augment(join, place, paths="2", blocks="4", order="circ_act", projection="circulant", input="norm",
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


def skipless(join, place):
    """x' = f."""
    join.shortcut = lambda x: 0


STRATEGIES = {"orthogonal": orthogonal, "decay": decay, "augment": augment, "skipless": skipless}


class Attention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = self.qkv(x).reshape(b, n, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        probabilities = (q @ k.transpose(-2, -1) / math.sqrt(d // self.heads)).softmax(-1)
        return self.proj((probabilities @ v).transpose(1, 2).reshape(b, n, d))


class Mlp(nn.Module):
    def __init__(self, dim, hidden, act_layer):
        super().__init__()
        self.approximate = {"gelu": "none", "gelu_tanh": "tanh"}[act_layer]
        self.fc1 = nn.Linear(dim, hidden)
        self.fc2 = nn.Linear(hidden, dim)

    def forward(self, x):
        return self.fc2(F.gelu(self.fc1(x), approximate=self.approximate))


class Block(nn.Module):
    def __init__(self, dim, heads, hidden, act_layer, join_attn, join_mlp):
        super().__init__()
        self.join_attn, self.join_mlp = join_attn, join_mlp
        self.norm1 = nn.LayerNorm(dim, eps=1e-6)
        self.attn = Attention(dim, heads)
        self.norm2 = nn.LayerNorm(dim, eps=1e-6)
        self.mlp = Mlp(dim, hidden, act_layer)

    def forward(self, x):
        u = self.norm1(x)
        x = self.join_attn(x, self.attn(u), u)
        u = self.norm2(x)
        return self.join_mlp(x, self.mlp(u), u)


class PatchEmbed(nn.Module):
    def __init__(self, channels, dim, patch):
        super().__init__()
        self.proj = nn.Conv2d(channels, dim, patch, patch)

    def forward(self, image):
        return self.proj(image).flatten(2).transpose(1, 2)


class VisionTransformer(nn.Module):
    """pool 'token': a cls token, whose output is classified. 'avg': no cls token, the mean of all tokens.
    plugins: the strategies of the joins, as plugin specs."""

    def __init__(self, image, patch, channels, classes, dim, depth, heads, mlp_ratio=4.0, pool="token",
                 act_layer="gelu", plugins=()):
        super().__init__()
        tokens = (image // patch) ** 2 + (pool == "token")
        self.cls_token = nn.Parameter(torch.zeros(1, 1, dim)) if pool == "token" else None
        self.pos_embed = nn.Parameter(torch.zeros(1, tokens, dim))
        self.patch_embed = PatchEmbed(channels, dim, patch)
        hidden = int(dim * mlp_ratio)
        self.blocks = nn.Sequential(*[
            Block(dim, heads, hidden, act_layer,
                  *(Join(plugins, Place(2 * b + i, 2 * depth, b, depth, dim, site))
                    for i, site in enumerate(("attn", "mlp")))) for b in range(depth)])
        self.norm = nn.LayerNorm(dim, eps=1e-6)
        self.head = nn.Linear(dim, classes)

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
        if self.cls_token is not None:
            x = torch.cat([self.cls_token.expand(x.shape[0], -1, -1), x], 1)
        x = self.norm(self.blocks(x + self.pos_embed))
        return self.head(x[:, 0] if self.cls_token is not None else x.mean(1))


def timm_model(image, patch, channels, classes, dim, depth, heads, mlp_ratio=4.0, pool="token", act_layer="gelu",
               **drop):
    """timm's module of the same options; for pool 'avg' its class_token=False, fc_norm=False form."""
    from timm.models.vision_transformer import VisionTransformer as TimmVisionTransformer

    return TimmVisionTransformer(
        img_size=image, patch_size=patch, in_chans=channels, num_classes=classes, embed_dim=dim, depth=depth,
        num_heads=heads, mlp_ratio=mlp_ratio, global_pool=pool, class_token=pool == "token", fc_norm=False,
        norm_layer=lambda d, **kw: nn.LayerNorm(d, eps=1e-6, **kw), act_layer=act_layer, **drop)


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
    """The optimizer's groups: matrices decay; vectors, cls_token and pos_embed do not, unless decay is 'all'. What
    a join adds says so itself."""
    groups = {True: [], False: []}
    for name, p in model.named_parameters():
        matrix = p.ndim > 1 and name not in ("cls_token", "pos_embed")
        groups[decay == "all" or getattr(p, "decays", matrix)].append(p)
    return [{"params": groups[True], "weight_decay": weight_decay}, {"params": groups[False], "weight_decay": 0.0}]
