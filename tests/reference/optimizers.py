"""Writes goldens/optimizers.safetensors: what optimizers make of given weights in 20 steps of given gradients.

Lamb and Lion are timm's, AdamW is torch's. LARS (MAE's form), Muon (torch's, without its rounding to bf16) and SOAP are
written here from their equations, since no package has them in float64. The metadata key `case` is JSON: `weights` has
the shape of each weight, whether it decays and its role, `runs` the optimizer and its values of each run. Tensors:
weight/NAME and gradient/NAME [20, …] in f32, RUN/NAME in f64, the weights at the end. See README.md.
"""
import json
import math
import pathlib

import torch
from safetensors.torch import save_file
from timm.optim import Lamb, Lion

STEPS = 20
# Each axis of SOAP's weights is no longer than all others together, or longer than its max_precond_dim: the first
# gradient's products have no null space then, and their eigenvectors are unique but for signs.
WEIGHTS = {
    "square": dict(shape=[7, 7], decay=True, role="qkv"),
    "wide": dict(shape=[5, 12], decay=True, role="fc1"),
    "tall": dict(shape=[9, 4], decay=True, role="fc2"),
    "conv": dict(shape=[5, 3, 2, 3], decay=True, role="conv"),
    "head": dict(shape=[5, 5], decay=True, role="head"),
    "position": dict(shape=[1, 4, 4], decay=False, role="pos_embed"),
    "bias": dict(shape=[6], decay=False, role="fc1"),
    "scalar": dict(shape=[], decay=False, role="join"),
}
SOAP = dict(lr=3e-3, beta1=0.95, beta2=0.95, shampoo_beta=-1.0, eps=1e-8, weight_decay=0.01, precondition_frequency=10,
            max_precond_dim=8, correct_bias=True)
RUNS = {
    "adamw": dict(optimizer="adamw", lr=1e-2, weight_decay=0.04, weight_decay_end=0.4),
    "lion": dict(optimizer="lion", lr=1e-3, beta1=0.9, beta2=0.99, weight_decay=0.3),
    "lion_schedule": dict(optimizer="lion", lr=1e-3, beta1=0.8, beta2=0.9, weight_decay=0.04, weight_decay_end=0.4,
                          decay="all"),
    "lars": dict(optimizer="lars", lr=0.5, momentum=0.9, trust_coefficient=1e-3, weight_decay=0.1),
    "lars_schedule": dict(optimizer="lars", lr=2.0, momentum=0.7, trust_coefficient=1e-2, weight_decay=0.04,
                          weight_decay_end=0.4, decay="all"),
    "lamb": dict(optimizer="lamb", lr=1e-2, beta1=0.9, beta2=0.999, eps=1e-6, weight_decay=0.02),
    "lamb_adapt": dict(optimizer="lamb", lr=1e-2, beta1=0.8, beta2=0.99, eps=1e-6, weight_decay=0.04,
                       weight_decay_end=0.4, always_adapt=True),
    "muon": dict(optimizer="muon", lr=1e-2, momentum=0.95, nesterov=True, ns_steps=5, adjust_lr_fn="original",
                 adamw_lr_scale=0.3, beta1=0.9, beta2=0.95, eps=1e-8, weight_decay=0.1),
    "muon_match": dict(optimizer="muon", lr=1e-2, momentum=0.8, nesterov=False, ns_steps=3,
                       adjust_lr_fn="match_rms_adamw", adamw_lr_scale=1.0, beta1=0.9, beta2=0.999, eps=1e-8,
                       weight_decay=0.04, weight_decay_end=0.4, decay="all"),
    "sgd": dict(optimizer="sgd", lr=0.05, momentum=0.9, weight_decay=0.04, weight_decay_end=0.4),
    "soap": dict(SOAP, optimizer="soap"),
    "soap_often": dict(SOAP, optimizer="soap", beta1=0.9, beta2=0.97, shampoo_beta=0.8, precondition_frequency=3,
                       weight_decay=0.04, weight_decay_end=0.4, decay="all"),
    "soap_uncorrected": dict(SOAP, optimizer="soap", lr=1e-3, correct_bias=False, max_precond_dim=4),
}


class Lars(torch.optim.Optimizer):
    """You et al. 2017 as MAE has it: d = g + wd w, q = c |w| / |d| for weights of two axes or more; u = mu u + q d."""

    def __init__(self, groups, lr, momentum, trust_coefficient):
        super().__init__(groups, dict(lr=lr, momentum=momentum, trust=trust_coefficient, weight_decay=0.0))

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for w in group["params"]:
                d = w.grad
                if w.ndim > 1:
                    d = d + group["weight_decay"] * w
                    size, change = w.norm(), d.norm()
                    if size > 0 and change > 0:
                        d = d * (group["trust"] * size / change)
                u = self.state[w].get("u", torch.zeros_like(w))
                self.state[w]["u"] = u = group["momentum"] * u + d
                w -= group["lr"] * u


def newton_schulz(u, steps):
    a, b, c = 3.4445, -4.7750, 2.0315
    x = u / max(u.norm().item(), 1e-7)
    x = x.T if u.shape[0] > u.shape[1] else x
    for _ in range(steps):
        gram = x @ x.T
        x = a * x + (b * gram + c * gram @ gram) @ x
    return x.T if u.shape[0] > u.shape[1] else x


class Muon(torch.optim.Optimizer):
    """Jordan et al. 2024 as torch.optim.Muon has it, in the weights' own precision."""

    def __init__(self, groups, lr, momentum, nesterov, ns_steps, adjust_lr_fn):
        super().__init__(groups, dict(lr=lr, momentum=momentum, nesterov=nesterov, ns_steps=ns_steps,
                                      adjust_lr_fn=adjust_lr_fn, weight_decay=0.0))

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            mu = group["momentum"]
            for w in group["params"]:
                g = w.grad
                m = self.state[w].get("m", torch.zeros_like(w))
                self.state[w]["m"] = m = mu * m + (1 - mu) * g
                u = (mu * m + (1 - mu) * g if group["nesterov"] else m).reshape(w.shape[0], -1)
                rows, columns = u.shape
                scale = (math.sqrt(max(1, rows / columns)) if group["adjust_lr_fn"] == "original"
                         else 0.2 * math.sqrt(max(rows, columns)))
                w *= 1 - group["lr"] * group["weight_decay"]
                w -= group["lr"] * scale * newton_schulz(u, group["ns_steps"]).reshape(w.shape)


def along(x, matrix, axis):
    """The sum over i of x[…, i, …] matrix[i, j], j in the place of i."""
    return torch.movedim(torch.movedim(x, axis, -1) @ matrix, -1, axis)


class Soap(torch.optim.Optimizer):
    """Vyas et al. 2025, Algorithm 3, with its authors' first step, which moves nothing, and order of refreshes."""

    def __init__(self, groups, lr, beta1, beta2, shampoo_beta, eps, precondition_frequency, max_precond_dim,
                 correct_bias):
        super().__init__(groups, dict(lr=lr, betas=(beta1, beta2), eps=eps, every=precondition_frequency,
                                      longest=max_precond_dim, correct=correct_bias, weight_decay=0.0,
                                      shampoo=shampoo_beta if shampoo_beta >= 0 else beta2))

    def rotated(self, state, x, back=False):
        for axis, q in state["q"].items():
            x = along(x, q.T if back else q, axis)
        return x

    def accumulate(self, group, state, g):
        for axis, gram in state["gram"].items():
            unfolded = torch.movedim(g, axis, 0).reshape(g.shape[axis], -1)
            gram.mul_(group["shampoo"]).add_((1 - group["shampoo"]) * unfolded @ unfolded.T)

    def refresh(self, state):
        m = self.rotated(state, state["m"], back=True)
        for axis, gram in state["gram"].items():
            q = state["q"][axis]
            order = torch.argsort(torch.diag(q.T @ gram @ q), descending=True)
            state["v"] = state["v"].index_select(axis, order)
            state["q"][axis] = torch.linalg.qr(gram @ q[:, order])[0]
        state["m"] = self.rotated(state, m)

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            beta1, beta2 = group["betas"]
            for w in group["params"]:
                g, state = w.grad, self.state[w]
                if not state:
                    axes = [axis for axis, extent in enumerate(w.shape) if extent <= group["longest"] and w.ndim > 1]
                    state.update(t=0, m=torch.zeros_like(w), v=torch.zeros_like(w),
                                 gram={axis: torch.zeros(2 * [w.shape[axis]], dtype=w.dtype) for axis in axes})
                    self.accumulate(group, state, g)
                    state["q"] = {axis: torch.linalg.eigh(gram)[1].flip(1) for axis, gram in state["gram"].items()}
                    continue
                state["t"] += 1
                rotated = self.rotated(state, g)
                state["m"] = beta1 * state["m"] + (1 - beta1) * rotated
                state["v"] = beta2 * state["v"] + (1 - beta2) * rotated ** 2
                rate = group["lr"]
                if group["correct"]:
                    rate *= math.sqrt(1 - beta2 ** state["t"]) / (1 - beta1 ** state["t"])
                w -= rate * self.rotated(state, state["m"] / (state["v"].sqrt() + group["eps"]), back=True)
                w *= 1 - group["lr"] * group["weight_decay"]
                self.accumulate(group, state, g)
                if state["t"] % group["every"] == 0:
                    self.refresh(state)


def make(name, o, decays, others):
    """An optimizer of weights that decay and others, as groups."""
    groups = [dict(params=decays, decays=True), dict(params=others, decays=o.get("decay") == "all")]
    groups = [group for group in groups if group["params"]]
    take = lambda *keys: {key: o[key] for key in keys}
    if name == "adamw":
        return torch.optim.AdamW(groups, lr=o["lr"], betas=(o.get("beta1", 0.9), o.get("beta2", 0.999)),
                                 eps=o.get("eps", 1e-8))
    if name == "sgd":
        return torch.optim.SGD(groups, **take("lr", "momentum"))
    if name == "lion":
        return Lion(groups, lr=o["lr"], betas=(o["beta1"], o["beta2"]))
    if name == "lars":
        return Lars(groups, **take("lr", "momentum", "trust_coefficient"))
    if name == "lamb":
        return Lamb(groups, lr=o["lr"], betas=(o["beta1"], o["beta2"]), eps=o["eps"], max_grad_norm=None,
                    always_adapt=o.get("always_adapt", False))
    if name == "muon":
        return Muon(groups, **take("lr", "momentum", "nesterov", "ns_steps", "adjust_lr_fn"))
    return Soap(groups, **take("lr", "beta1", "beta2", "shampoo_beta", "eps", "precondition_frequency",
                               "max_precond_dim", "correct_bias"))


def optimizers_of(o, weights):
    def split(names, name=o["optimizer"], values=o):
        return make(name, values, [weights[n] for n in names if WEIGHTS[n]["decay"]],
                    [weights[n] for n in names if not WEIGHTS[n]["decay"]])

    if o["optimizer"] != "muon":
        return [split(WEIGHTS)]
    hidden = [n for n, w in WEIGHTS.items() if w["role"] in ("qkv", "fc1", "fc2", "conv") and w["decay"]]
    return [split(hidden),
            split([n for n in WEIGHTS if n not in hidden], "adamw", dict(o, lr=o["lr"] * o["adamw_lr_scale"]))]


def decay_at(o, step):
    end = o.get("weight_decay_end", -1)
    if end < 0:
        return o["weight_decay"]
    return end + (o["weight_decay"] - end) * (1 + math.cos(math.pi * step / STEPS)) / 2


def run(o, start, gradients):
    weights = {name: torch.nn.Parameter(value.double()) for name, value in start.items()}
    chosen = optimizers_of(o, weights)
    for step in range(STEPS):
        for name, w in weights.items():
            w.grad = gradients[name][step].double()
        for optimizer in chosen:
            for group in optimizer.param_groups:
                group["weight_decay"] = decay_at(o, step) if group["decays"] else 0.0
            optimizer.step()
    return {name: w.detach() for name, w in weights.items()}


def main():
    generator = torch.Generator().manual_seed(31)
    start, gradients = {}, {}
    for name, weight in WEIGHTS.items():
        start[name] = torch.randn(weight["shape"], generator=generator)
        # With a mean, as training has it.
        mean = torch.randn(weight["shape"], generator=generator)
        gradients[name] = mean + 0.5 * torch.randn([STEPS] + weight["shape"], generator=generator)
    tensors = {f"weight/{name}": value for name, value in start.items()}
    tensors |= {f"gradient/{name}": value for name, value in gradients.items()}
    for name, o in RUNS.items():
        tensors |= {f"{name}/{weight}": value for weight, value in run(o, start, gradients).items()}
    case = {"steps": STEPS, "weights": WEIGHTS, "runs": RUNS, "torch": torch.__version__}
    file = pathlib.Path(__file__).parent / "goldens" / "optimizers.safetensors"
    save_file({name: value.contiguous() for name, value in tensors.items()}, file, {"case": json.dumps(case)})


if __name__ == "__main__":
    main()
