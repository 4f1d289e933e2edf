"""The strategies that reach over several joins, in PyTorch as a user would write them: each runs the blocks of the networks of
pytorch_step.py and pytorch_language.py. Names and values are those of the plugins' specs, "attnres:block=3"; docs/guide/strategies.md has
the equations. plugin_weights() of each says where a plugin's own weights stand: (its name, the parameter, the index in it)."""
import torch
import torch.nn.functional as F
from torch import nn


def weight(*shape, start=0.0):
    return nn.Parameter(torch.full(shape, float(start)))


class JoinedBlock(nn.Module):
    """A block whose two joins `join` makes of (dim, index, joins)."""

    def __init__(self, dim, norms, attn, mlp, join, index, depth):
        super().__init__()
        self.norm1, self.norm2 = norms
        self.attn, self.mlp = attn, mlp
        self.join_attn, self.join_mlp = join(dim, 2 * index, 2 * depth), join(dim, 2 * index + 1, 2 * depth)

    def forward(self, x):
        u = self.norm1(x)
        x = self.join_attn(x, self.attn(u), u)
        u = self.norm2(x)
        return self.join_mlp(x, self.mlp(u), u)


def layers(blocks):
    """(norm, layer) of every join, in order."""
    return [pair for block in blocks for pair in ((block.norm1, block.attn), (block.norm2, block.mlp))]


def site(join):
    return f"blocks.{join // 2}.join_{'mlp' if join % 2 else 'attn'}"


class LayerScale(nn.Module):
    def __init__(self, dim, depth, kind="layerscale", init="0.1"):
        super().__init__()
        shape, start = ((dim,), init) if kind == "layerscale" else ((1,), 0)
        weights = [weight(*shape, start=start) for _ in range(depth if kind == "rezero" else 2 * depth)]
        self.gamma = nn.ParameterList(weights)
        self.shared = 2 if kind == "rezero" else 1
        self.weight_name = "gamma" if kind == "layerscale" else "alpha"

    def plugin_weights(self):
        return [(f"{site(index * self.shared)}.{self.weight_name}", p, ...) for index, p in enumerate(self.gamma)]

    def forward(self, blocks, x):
        for join, (norm, layer) in enumerate(layers(blocks)):
            x = x + self.gamma[join // self.shared] * layer(norm(x))
        return x


class DenseFormer(nn.Module):
    def __init__(self, dim, depth, dilation="1", period="1"):
        super().__init__()
        self.dilation, self.period = int(dilation), int(period)
        rows = [torch.zeros(i // self.dilation + 1) for i in range(1, depth + 1)]
        for row in rows:
            row[-1] = 1
        self.alpha = nn.ParameterList([nn.Parameter(row) for row in rows])

    def plugin_weights(self):
        return [(f"blocks.{i - 1}.join_mlp.alpha_{i % self.dilation + k * self.dilation}", row, k)
                for i, row in enumerate(self.alpha, 1) if i % self.period == 0 for k in range(len(row))]

    def forward(self, blocks, x):
        outputs = [x]
        for i, block in enumerate(blocks, 1):
            x = block(x)
            outputs.append(x)
            if i % self.period == 0:
                x = sum(a * y for a, y in zip(self.alpha[i - 1], outputs[i % self.dilation::self.dilation]))
        return x


class ValueResidual(nn.Module):
    def __init__(self, dim, depth, kind="fixed", first="0.5", own="0.5"):
        super().__init__()
        self.kind, self.first, self.own = kind, float(first), float(own)
        if kind == "learnable":
            self.lambdas = nn.Parameter(torch.tensor([[self.first, self.own]] * (depth - 1)))

    def plugin_weights(self):
        learned = range(len(self.lambdas)) if self.kind == "learnable" else ()
        return [(f"{site(2 * i + 2)}.{name}", self.lambdas, (i, k)) for i in learned for k, name in enumerate(("first", "own"))]

    def forward(self, blocks, x):
        values = None
        for i, block in enumerate(blocks):
            def mix(v, i=i):
                nonlocal values
                if values is None:
                    values = v
                    return v
                if self.kind == "shared":
                    return values
                a, b = self.lambdas[i - 1] if self.kind == "learnable" else (self.first, self.own)
                return a * values + b * v
            x = x + block.attn(block.norm1(x), mix)
            x = x + block.mlp(block.norm2(x))
        return x


class PostNorm(nn.Module):
    def __init__(self, dim, depth, kind="postln"):
        super().__init__()
        self.keel = kind == "keel"
        self.factor = {"postln": 1, "deepnorm": (2 * depth) ** 0.25, "keel": 2 * depth}[kind]
        self.norms = nn.ModuleList([nn.LayerNorm(dim, eps=1e-6) for _ in range(2 * depth if self.keel else 0)])

    def plugin_weights(self):
        return [(f"{site(join)}.norm_{name}", p, ...) for join, norm in enumerate(self.norms) for name, p in norm.named_parameters()]

    def forward(self, blocks, x):
        for join, (norm, layer) in enumerate(layers(blocks)):
            x = self.norms[join](self.factor * x + layer(norm(x))) if self.keel else norm(self.factor * x + layer(x))
        return x


class AttentionResiduals(nn.Module):
    def __init__(self, dim, depth, block="1"):
        super().__init__()
        self.block = int(block)
        self.queries = nn.ParameterList([weight(dim) for _ in range(2 * depth)])

    def plugin_weights(self):
        *queries, output = self.queries
        return [*((f"{site(join)}.query", query, ...) for join, query in enumerate(queries, 1)),
                (f"{site(len(queries))}.output_query", output, ...)]

    def mix(self, sources, query):
        v = torch.stack(sources)
        weights = torch.einsum("sbtd,d->sbt", F.rms_norm(v, v.shape[-1:], eps=1e-6), query).softmax(0)
        return torch.einsum("sbt,sbtd->btd", weights, v)

    def forward(self, blocks, x):
        sources, partial = [x], None
        for join, (norm, layer) in enumerate(layers(blocks)):
            seen = sources if partial is None else [*sources, partial]
            f = layer(norm(x if join == 0 else self.mix(seen, self.queries[join - 1])))
            partial = f if partial is None else partial + f
            if (join + 1) % self.block == 0:
                sources, partial = [*sources, partial], None
        return self.mix(sources if partial is None else [*sources, partial], self.queries[-1])


class HyperConnections(nn.Module):
    """The lanes are one tensor [batch, token, lane, dim]."""

    def __init__(self, dim, depth, kind="dynamic", lanes="4", iterations="20"):
        super().__init__()
        self.kind, self.lanes, self.iterations = kind, int(lanes), int(iterations)
        n, joins = self.lanes, 2 * depth
        chosen = [torch.eye(n)[join % n].unsqueeze(1) for join in range(joins)]
        if kind == "mhc":
            start = [torch.cat([8 * c.flatten() - 4, torch.zeros(n), (8 * torch.eye(n) - 8).flatten()]) for c in chosen]
            self.bias = nn.ParameterList([nn.Parameter(s) for s in start])
            self.phi = nn.ParameterList([weight(n * dim, n * (n + 2)) for _ in range(joins)])
            self.scale = nn.ParameterList([weight(3, start=0.01) for _ in range(joins)])
            return
        self.alpha = nn.ParameterList([nn.Parameter(torch.cat([c, torch.eye(n)], 1)) for c in chosen])
        self.beta = nn.ParameterList([weight(n, start=1) for _ in range(joins)])
        if kind == "dynamic":
            self.alpha_fn = nn.ParameterList([weight(dim, n + 1) for _ in range(joins)])
            self.beta_fn = nn.ParameterList([weight(dim) for _ in range(joins)])
            self.alpha_scale = nn.ParameterList([weight(1, start=0.01) for _ in range(joins)])
            self.beta_scale = nn.ParameterList([weight(1, start=0.01) for _ in range(joins)])

    def plugin_weights(self):
        return [(f"{site(join)}.{name}", p, ...) for name, each in self.named_children() for join, p in enumerate(each)]

    def numbers(self, join, h):
        """m and r together, [.., from, 1 + to], and b [.., lane]."""
        n = self.lanes
        if self.kind == "mhc":
            flat = F.rms_norm(h.flatten(-2), (h.shape[-1] * n,), eps=1e-6)
            scale, bias = self.scale[join], self.bias[join]
            m, b, r = ((flat @ self.phi[join]) * scale.repeat_interleave(torch.tensor([n, n, n * n], device=h.device)) + bias).split(
                [n, n, n * n], -1)
            r = r.exp().unflatten(-1, (n, n))
            for _ in range(self.iterations):
                r = r / r.sum(-2, keepdim=True)
                r = r / r.sum(-1, keepdim=True)
            return torch.cat([m.sigmoid().unsqueeze(-1), r.transpose(-1, -2)], -1), 2 * b.sigmoid()
        alpha, beta = self.alpha[join], self.beta[join]
        if self.kind == "dynamic":
            normed = F.layer_norm(h, h.shape[-1:], eps=1e-6)
            alpha = alpha + self.alpha_scale[join] * (normed @ self.alpha_fn[join]).tanh()
            beta = beta + self.beta_scale[join] * (normed @ self.beta_fn[join]).tanh()
        return alpha, beta

    def mix(self, alpha, h):
        """Of each token sum over i of alpha_ij h_i, in the form that is fastest: compiled, sums that fuse; eager, einsum."""
        if not torch.compiler.is_compiling():
            return torch.einsum("...ij,...id->...jd", alpha, h)
        lanes = range(self.lanes)
        return torch.stack([sum(alpha[..., i, j, None] * h[..., i, :] for i in lanes) for j in range(self.lanes + 1)], -2)

    def forward(self, blocks, x):
        h = x.unsqueeze(2).expand(-1, -1, self.lanes, -1)
        for join, (norm, layer) in enumerate(layers(blocks)):
            alpha, beta = self.numbers(join, h)
            mixed = self.mix(alpha, h)
            h = mixed[..., 1:, :] + beta.unsqueeze(-1) * layer(norm(mixed[..., 0, :])).unsqueeze(-2)
        return h.sum(2)


class X0Lambdas(nn.Module):
    def __init__(self, dim, depth):
        super().__init__()
        falls = torch.linspace(0, 1, depth)
        self.resid, self.x0 = nn.Parameter(1.15 - 0.1 * falls), nn.Parameter(0.2 - 0.15 * falls)

    def plugin_weights(self):
        return [(f"{site(2 * i)}.{name}_lambda", getattr(self, name), i) for i in range(len(self.x0)) for name in ("resid", "x0")]

    def forward(self, blocks, x):
        x0 = x
        for i, block in enumerate(blocks):
            x = block(self.resid[i] * x + self.x0[i] * x0)
        return x


STRATEGIES = {"layerscale": LayerScale, "denseformer": DenseFormer, "value_residual": ValueResidual,
              "postnorm": PostNorm, "attnres": AttentionResiduals, "hyper": HyperConnections, "x0_lambdas": X0Lambdas}


def make(spec, dim, depth):
    """The strategy of a plugin's spec."""
    name, _, values = spec.partition(":")
    return STRATEGIES[name](dim, depth, **dict(value.split("=") for value in values.split(",") if value))
