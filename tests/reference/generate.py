"""Writes the goldens that the parity tests read: see README.md. Arguments, where there are any, are how the names of
those begin that are written.

One safetensors file a model and join: weights, one batch, its logits, loss and gradients, and what a number of
optimizer steps does to losses and weights. Everything is computed in float64; inputs and initial weights are
float32 values, so that any backend starts from the very same numbers.
"""
import json
import math
import pathlib
import sys

import torch
import torch.nn.functional as F
from safetensors.torch import save_file

from reference import OruVisionTransformer, VisionTransformer, check_against_timm, decay_groups

STEPS = 20
FEW_BATCHES = 5  # of large images: steps take them in turn
MODELS = {
    "token": dict(image=8, patch=4, channels=1, classes=10, dim=16, depth=2, heads=2, mlp_ratio=4.0, pool="token"),
    "avg": dict(image=9, patch=3, channels=3, classes=7, dim=21, depth=2, heads=3, mlp_ratio=1.1, pool="avg"),
    # For a strategy's many options.
    "slim": dict(image=8, patch=4, channels=1, classes=5, dim=16, depth=2, heads=2, mlp_ratio=1.0, pool="token"),
    "odd": dict(image=6, patch=3, channels=1, classes=3, dim=9, depth=2, heads=3, mlp_ratio=1.4, pool="avg"),
    # For what reaches over several blocks.
    "deep": dict(image=6, patch=3, channels=1, classes=3, dim=9, depth=4, heads=3, mlp_ratio=1.4, pool="avg"),
}
# timm's options of whole networks: as of DINOv2, a mean beside added tokens, and as of CLIP.
MODELS |= {
    "registers": dict(image=9, patch=3, channels=2, classes=5, dim=15, depth=2, heads=3, mlp_ratio=1.5, pool="token",
                      reg_tokens=2, init_values=0.1, no_embed_class=True),
    "prefix": dict(image=6, patch=3, channels=1, classes=4, dim=10, depth=2, heads=2, mlp_ratio=2.7, pool="avg",
                   class_token="true", reg_tokens=1, fc_norm=True, qkv_bias=False),
    "clip": dict(image=6, patch=2, channels=3, classes=3, dim=14, depth=2, heads=2, mlp_ratio=1.2, pool="token",
                 pre_norm=True, act_layer="gelu_tanh"),
    "bare": dict(image=6, patch=3, channels=1, classes=3, dim=9, depth=2, heads=3, mlp_ratio=1.4, pool="avg",
                 pre_norm=True, norm_affine=False, fc_norm=True, qkv_bias=False, no_embed_class=True),
    "quick": dict(image=6, patch=2, channels=3, classes=3, dim=10, depth=2, heads=2, mlp_ratio=1.5, pool="token",
                  pre_norm=True, act_layer="quick_gelu", norm_eps=1e-2),
    "distilled": dict(image=6, patch=3, channels=1, classes=4, dim=12, depth=2, heads=3, mlp_ratio=1.5, pool="token",
                      distilled=True),
    "oru": dict(family="oru_vit", image=8, patch=2, channels=3, classes=5, dim=12, depth=3, heads=2, mlp_ratio=1.5),
}
MODELS |= {model + "_tanh": dict(MODELS[model], act_layer="gelu_tanh") for model in ("slim", "odd")}
BATCH = {"token": 4, "avg": 3, "slim": 3, "odd": 2, "deep": 2, "slim_tanh": 3, "odd_tanh": 2,
         "registers": 3, "prefix": 2, "clip": 2, "bare": 3, "quick": 2, "distilled": 3, "oru": 3}
BATCHES = dict.fromkeys(("registers", "prefix", "clip", "bare", "quick", "distilled", "oru"), FEW_BATCHES)  # where a step has not its own
# Other weights and images, where steps in float32 soon go their own way.
SEEDS = {("bare", "skipless"): 1, ("slim", "x0_lambdas"): 1}
ADAMW = dict(optimizer="adamw", lr=1e-3, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.05, decay="matrices",
             schedule="constant")
SGD = dict(optimizer="sgd", lr=0.1, momentum=0.9, nesterov=False, weight_decay=5e-4, decay="all", schedule="cosine",
           warmup_steps=4, warmup_lr=0.01, total_steps=STEPS, min_lr=1e-3, clip_norm=0.5, label_smoothing=0.1)
MULTISTEP = dict(optimizer="sgd", lr=0.05, momentum=0.8, nesterov=True, weight_decay=1e-3, decay="matrices",
                 schedule="multistep", milestones=[5, 12], gamma=0.2)
NESTEROV = dict(optimizer="sgd", lr=0.02, momentum=0.9, nesterov=True, weight_decay=5e-4, decay="matrices",
                schedule="constant", clip_norm=1.0)
RUNS = {"adamw": ADAMW}
SGD_RUNS = {"nesterov": NESTEROV}
BOTH = RUNS | SGD_RUNS
CASES = [(model, name, plugins, BOTH) for model in ("token", "avg")
         for name, plugins in (("plain", []), ("orthogonal_feature", ["orthogonal:mode=feature"]),
                               ("orthogonal_global", ["orthogonal:mode=global"]))]
CASES[3] = ("avg", "plain", [], BOTH | {"sgd": SGD, "multistep": MULTISTEP})
# Each option of each strategy: logits and gradients; steps of AdamW only where a strategy trains something of its own.
# In `tiny` ones the stream is so small that its squared norm is of the size of eps.
OPTIONS = {
    "orthogonal_tiny": (["orthogonal"], {}),
    "orthogonal_tiny_global": (["orthogonal:mode=global"], {}),
    "orthogonal_tiny_eps": (["orthogonal:eps=1e-5"], {}),
    # A random number a block and step decides: evaluation is plain below one half, orthogonal from there on.
    "orthogonal_probability": (["orthogonal:probability=0.4"], RUNS),
    "orthogonal_probability_mlp": (["orthogonal:mode=global,probability=0.7,sites=mlp"], RUNS),
    "orthogonal_layers": (["orthogonal:layers=1"], {}),
    "orthogonal_twice": (["orthogonal:sites=attn,layers=0-1", "orthogonal:mode=global,eps=0.5,sites=mlp,layers=0"], {}),
    "decay": (["decay"], SGD_RUNS),
    "decay_paper_literal": (["decay:alpha_min=0.5,schedule=paper_literal"], {}),
    "decay_per_block": (["decay:alpha_min=0.3,schedule=per_block"], {}),
    "decay_constant": (["decay:alpha_min=0.8,schedule=constant"], {}),
    "decay_learnable": (["decay:learnable=true"], BOTH),
    "decay_learnable_undecayed": (["decay:learnable=true,decay_alpha=false"], RUNS),
    "decay_both": (["decay:variant=both"], {}),
    "decay_branch": (["decay:variant=branch"], {}),
    "augment": (["augment:blocks=B"], BOTH),
    "augment_one_block": (["augment:blocks=1,paths=3"], {}),
    "augment_corr": (["augment:blocks=B,circulant=corr"], {}),
    "augment_stream": (["augment:blocks=B,input=stream"], {}),
    "augment_act_circ": (["augment:blocks=B,order=act_circ"], {}),
    "augment_circ": (["augment:blocks=B,order=circ,circulant=corr"], {}),
    "augment_act": (["augment:order=act"], {}),
    "augment_dense": (["augment:projection=dense"], {}),
    "augment_dense_act_circ": (["augment:projection=dense,order=act_circ,input=stream"], {}),
    "augment_none": (["augment:paths=0"], {}),
    "decay_augment": (["decay", "augment:blocks=B"], {}),
    "decay_orthogonal": (["decay", "orthogonal"], {}),
    "decay_twice": (["decay:sites=attn", "decay:schedule=constant,alpha_min=0.3,sites=mlp,layers=1"], {}),
    "skipless": (["skipless"], SGD_RUNS),
    "skipless_attn": (["skipless:sites=attn"], {}),
    "skipless_mlp": (["skipless:sites=mlp"], {}),
    "skipless_augment": (["skipless", "augment:blocks=B"], {}),
    "orthogonal_attn_decay_mlp": (["orthogonal:sites=attn", "decay:sites=mlp"], {}),
}
# The same of strategies that reach over several blocks, on `slim` and `deep`.
DEEP_OPTIONS = {
    "layerscale": (["layerscale"], RUNS),
    "layerscale_rezero": (["layerscale:kind=rezero"], RUNS),
    "layerscale_rezero_mlp": (["layerscale:kind=rezero,sites=mlp"], {}),
    "layerscale_skipinit": (["layerscale:kind=skipinit"], RUNS),
    "layerscale_orthogonal": (["orthogonal", "layerscale"], {}),
    "denseformer": (["denseformer"], RUNS),
    "denseformer_dilation": (["denseformer:dilation=2"], {}),
    "denseformer_period": (["denseformer:period=2"], {}),
    "denseformer_both": (["denseformer:dilation=2,period=2"], {}),
    "denseformer_dynamic": (["denseformer:dynamic=true"], RUNS),
    "denseformer_dynamic_both": (["denseformer:dynamic=true,dilation=2,period=2"], {}),
    "denseformer_attn": (["denseformer:sites=attn"], {}),
    "denseformer_layerscale": (["layerscale", "denseformer"], {}),
    "value_residual": (["value_residual"], {}),
    "value_residual_fixed": (["value_residual:first=2,own=0.7"], {}),
    "value_residual_learnable": (["value_residual:kind=learnable"], RUNS),
    "value_residual_shared": (["value_residual:kind=shared"], {}),
    "value_residual_sparse": (["value_residual:layers=0+LAST"], {}),
    "postnorm": (["postnorm"], {}),
    "postnorm_deepnorm": (["postnorm:kind=deepnorm"], {}),
    "postnorm_keel": (["postnorm:kind=keel"], RUNS),
    "postnorm_peri": (["postnorm:kind=peri,eps=1e-3"], RUNS),
    "postnorm_peri_rms": (["orthogonal", "postnorm:kind=peri,norm=rms"], {}),
    "postnorm_attn": (["postnorm:sites=attn"], {}),
    "postnorm_layerscale": (["layerscale", "postnorm:kind=deepnorm"], {}),
    "attnres": (["attnres"], RUNS),
    "attnres_block": (["attnres:block=3"], RUNS),
    "attnres_one_block": (["attnres:block=100"], {}),
    "attnres_layers": (["attnres:layers=1-LAST"], {}),
    "x0_lambdas": (["x0_lambdas"], RUNS),
    "laurel": (["laurel:rank=5"], RUNS),
    "laurel_previous": (["laurel:rank=5,previous=3"], {}),
    "laurel_softmax": (["laurel:weights=softmax,rank=0"], {}),
    "laurel_none": (["laurel:weights=none,rank=2"], {}),
    "unet": (["@unet"], RUNS),
    "deep_delta": (["@deep_delta"], RUNS),
    "hyper": (["hyper"], RUNS),
    "hyper_static": (["hyper:kind=static"], RUNS),
    "hyper_static_two": (["hyper:kind=static,lanes=2"], {}),
    "hyper_one": (["hyper:lanes=1"], {}),
    "hyper_mhc": (["hyper:kind=mhc"], RUNS),
    "hyper_mhc_two": (["hyper:kind=mhc,lanes=2,iterations=3"], {}),
    "hyper_mhc_lite": (["hyper:kind=mhc_lite"], RUNS),
    "hyper_mhc_lite_three": (["hyper:kind=mhc_lite,lanes=3"], {}),
    "hyper_layers": (["hyper:lanes=3,layers=1-LAST"], {}),
}
SEED = 0x2_0000_0022  # of what is drawn at random; both of its words count
BLOCKS = {"slim": "4", "odd": "3"}  # augment's, which divide the width
CASES += [(model, name, [spec.replace("=B", "=" + BLOCKS[model]) for spec in specs], runs)
          for model in BLOCKS for name, (specs, runs) in OPTIONS.items()]
CASES += [(model, name, [spec.replace("LAST", str(MODELS[model]["depth"] - 1)) for spec in specs], runs)
          for model in ("slim", "deep") for name, (specs, runs) in DEEP_OPTIONS.items()]
# Of two blocks the middle one is the last, and the norm takes the factor of backout away.
CASES += [("deep", "x0_lambdas_backout", ["x0_lambdas:backout=true,resid_lr=2,start=plain"], RUNS),
          ("deep", "x0_lambdas_layers", ["x0_lambdas:layers=1-3"], {})]
CASES += [("slim_tanh", "plain", [], {}), ("odd_tanh", "plain", [], RUNS),
          ("slim_tanh", "steps", [], {"adamw": RUNS["adamw"]})]
CASES += [(model, "plain", [], BOTH) for model in ("registers", "prefix", "clip", "bare", "quick", "distilled", "oru")]
CASES += [("bare", "postnorm_deepnorm", ["postnorm:kind=deepnorm"], {}), ("oru", "postnorm", ["postnorm"], {})]
# LayerScale, which `registers` has, needs the shortcut.
CASES += [(model, name, plugins, BOTH if (model, name) == ("oru", "orthogonal") else SGD_RUNS)
          for name, plugins, models in (
              ("orthogonal", ["orthogonal"], ("registers", "clip", "oru")),
              ("orthogonal_global", ["orthogonal:mode=global"], ("registers", "oru")),
              ("decay", ["decay"], ("registers", "oru")),
              ("decay_learnable", ["decay:learnable=true"], ("registers", "oru")),
              ("augment", ["augment:blocks=3"], ("registers", "oru")),
              ("augment", ["augment:blocks=2"], ("prefix", "clip")),
              ("skipless", ["skipless"], ("clip", "bare", "oru"))) for model in models]


def float32_values(tensor):
    return tensor.float().double()


def perturbed(model, generator, stream_scale=1.0):
    """Weights far from their start: at the start norms are 1, biases 0 and the residual branches tiny, and errors
    in their gradients or their names would not show. stream_scale is for what is added to the stream."""
    for name, p in model.named_parameters():
        noise = torch.randn(p.shape, generator=generator, dtype=torch.float64)
        if name.endswith("alpha") and p.ndim == 1:
            p.data = 0.7 + 0.2 * noise
        elif "norm" in name:
            p.data = 0.3 * noise + (1.0 if name.endswith("weight") else 0.0)
        elif p.ndim > 1 and name not in ("cls_token", "reg_token", "pos_embed"):
            p.data = noise / math.sqrt(p[0].numel())
        else:
            p.data = 0.5 * noise
        if any(part in name for part in ("cls_token", "reg_token", "pos_embed", "patch_embed", "attn.proj", "mlp.fc2")):
            p.data = stream_scale * p.data
        p.data = float32_values(p.data)


def make_optimizer(model, o):
    groups = decay_groups(model, o["weight_decay"], o["decay"])
    for group in groups:
        group["lr"] = o["lr"] * group.pop("lr_scale", 1.0)
    if o["optimizer"] == "adamw":
        return torch.optim.AdamW(groups, lr=o["lr"], betas=(o["beta1"], o["beta2"]), eps=o["eps"])
    return torch.optim.SGD(groups, lr=o["lr"], momentum=o["momentum"], nesterov=o["nesterov"])


def make_scheduler(optimizer, o):
    from torch.optim.lr_scheduler import ConstantLR, CosineAnnealingLR, LinearLR, MultiStepLR, SequentialLR

    if o["schedule"] == "constant":
        return ConstantLR(optimizer, factor=1.0)
    if o["schedule"] == "multistep":
        return MultiStepLR(optimizer, o["milestones"], o["gamma"])
    warmup = LinearLR(optimizer, o["warmup_lr"] / o["lr"], 1.0, o["warmup_steps"])
    cosine = CosineAnnealingLR(optimizer, o["total_steps"] - o["warmup_steps"], o["min_lr"])
    return SequentialLR(optimizer, [warmup, cosine], [o["warmup_steps"]])


def outputs_and_loss(model, x, y, label_smoothing=0.0):
    """y: a classifier's labels, or what another network's own `loss` takes."""
    if hasattr(model, "loss"):
        return model.loss(x, y)
    logits = model(x)
    return logits, F.cross_entropy(logits, y, label_smoothing=label_smoothing)


def train(model, images, labels, o, seed, steps=STEPS):
    """One update a step, by the batches in turn; the losses, gradient norms before clipping, and learning rates."""
    optimizer = make_optimizer(model, o)
    scheduler = make_scheduler(optimizer, o)
    losses, norms, rates = [], [], []
    model.train()
    for step in range(steps):
        x, y = images[step % len(images)], labels[step % len(images)]
        model.draw(seed, step)
        optimizer.zero_grad()
        loss = outputs_and_loss(model, x, y, o.get("label_smoothing", 0.0))[1]
        loss.backward()
        norms.append(torch.nn.utils.clip_grad_norm_(model.parameters(), o.get("clip_norm", math.inf)))
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        scheduler.step()
        losses.append(loss.detach())
    return torch.stack(losses), torch.stack(norms), torch.tensor(rates, dtype=torch.float64)


def gradients_of(model, images, labels, seed=0):
    """With the logits and the loss of training's first step."""
    model.train().draw(seed, 0)
    model.zero_grad()
    logits, loss = outputs_and_loss(model, images, labels)
    loss.backward()
    trained = {key: p for key, p in model.named_parameters() if p.requires_grad}
    return logits.detach(), loss.detach(), {key: p.grad.clone() for key, p in trained.items()}


def check_conditioned(model, start, images, labels, tensors, runs):
    """What is held to backends in float32, PyTorch's own must hold with room to spare. Leaves the model in float32."""
    if "nesterov" not in runs:
        return
    model.float().load_state_dict(start)
    if labels.is_floating_point():
        labels = labels.float()
    got = gradients_of(model, images[0].float(), labels[0])[2]
    want = {key: tensors["gradient/" + key] for key in got}
    whole = torch.stack([w.norm() for w in want.values()]).norm()

    def scale(w):  # a bias that softmax or batch norm takes away again has no gradient but rounding
        return whole if w.norm() < 1e-12 * whole else max(w.norm(), 1e-6 * whole)
    gradient = max(((got[key] - w).norm() / scale(w)).item() for key, w in want.items())
    model.load_state_dict(start)
    norms = train(model, images.float(), labels, runs["nesterov"], 0)[1]
    norm = (norms / tensors["nesterov/norms"] - 1).abs().max().item()
    last = {key: tensors["nesterov/weight/" + key].double() for key in got}
    error = torch.stack([(p.detach() - last[key]).norm() for key, p in model.named_parameters() if key in last]).norm()
    way = error / torch.stack([(weight - start[key]).norm() for key, weight in last.items()]).norm()
    assert gradient < 3e-5 and norm < 1e-5 and way < 1e-5, (
        f"ill-conditioned, take another seed: gradients {gradient:.1e}, their norms {norm:.1e}, weights {way:.1e}")


def make_case(name, option, plugins, runs, stream_scale):
    seed = SEED if any("probability" in spec for spec in plugins) else 0
    options = dict(MODELS[name])
    family = options.pop("family", "vit")
    generator = torch.Generator().manual_seed(20240607 + SEEDS.get((name, option), 0))
    network = {"vit": VisionTransformer, "oru_vit": OruVisionTransformer}[family]
    model = network(**options, plugins=plugins).double()
    perturbed(model, generator, stream_scale)
    batches = BATCHES.get(name, STEPS) if runs else 1
    shape = (batches, BATCH[name], options["channels"], options["image"], options["image"])
    images = float32_values(torch.randn(shape, generator=generator, dtype=torch.float64))
    labels = torch.randint(0, options["classes"], shape[:2], generator=generator)
    weights = {key: value.clone() for key, value in model.state_dict().items()}
    if not plugins and family == "vit":
        check_against_timm(model, options, images[0], labels[0])

    logits = model.eval()(images[0])
    training_logits, loss, gradients = gradients_of(model, images[0], labels[0], seed)
    tensors = {"images": images.float(), "labels": labels, "logits": logits.detach(), "loss": loss}
    if seed:
        tensors["training_logits"] = training_logits
    for key, gradient in gradients.items():
        tensors["weight/" + key] = weights[key].float()
        tensors["gradient/" + key] = gradient
    for run, o in runs.items():
        model.load_state_dict(weights)
        losses, norms, rates = train(model, images, labels, o, seed)
        tensors.update({f"{run}/losses": losses, f"{run}/norms": norms, f"{run}/rates": rates})
        for key, p in model.named_parameters():
            tensors[f"{run}/weight/{key}"] = p.detach().float()
    case = {"family": family} if family != "vit" else {}
    case |= {"model": options, "plugins": plugins, "runs": runs, "torch": torch.__version__}
    if seed:
        case["seed"] = seed
        tensors["drawn"] = torch.tensor([(model.draw(seed, step), model.drawn())[1] for step in range(STEPS)])
    check_conditioned(model, weights, images, labels, tensors, runs)
    # One key: safetensors writes several in random order, and the files would differ from run to run.
    return {key: value.contiguous().clone() for key, value in tensors.items()}, {"case": json.dumps(case)}


def main():
    torch.set_num_threads(1)
    folder = pathlib.Path(__file__).parent / "goldens"
    folder.mkdir(exist_ok=True)
    for model, name, plugins, runs in CASES:
        if sys.argv[1:] and not any(f"vit_{model}_{name}".startswith(prefix) for prefix in sys.argv[1:]):
            continue
        tensors, metadata = make_case(model, name, plugins, runs, 3e-4 if "tiny" in name else 1.0)
        path = folder / f"vit_{model}_{name}.safetensors"
        save_file(tensors, path, metadata)
        path.chmod(0o644)
        print(f"{path.name}: {path.stat().st_size} bytes, loss {tensors['loss'].item():.6f}")


if __name__ == "__main__":
    main()
