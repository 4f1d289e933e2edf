"""Writes the goldens of language models: Hugging Face's own GPT-2, Llama and Qwen 3 (transformers) in float64, under the
names of its weights and, of GPT-2, nanoGPT's layout of matrices. What its code casts to float32 is patched out. With
plugins, the residual joins of its blocks are those of reference.py.
"""
import json
import math
import sys

import torch
import torch.nn.functional as F
import transformers
from transformers.models.llama import modeling_llama
from transformers.models.qwen3 import modeling_qwen3

from generate import ADAMW, FEW_BATCHES, NESTEROV, float32_values, gradients_of, train
from pvt import write_golden
from reference import Join, Memory, Place

RUNS = {"adamw": ADAMW, "nesterov": NESTEROV}
MODELS = {
    "gpt2_odd": dict(family="gpt2", vocab=13, context=7, dim=12, depth=2, heads=3),
    "gpt2_long": dict(family="gpt2", vocab=11, context=66, dim=8, depth=2, heads=2, act_layer="gelu"),
    "llama_odd": dict(family="llama", vocab=13, context=7, dim=12, depth=2, heads=3, mlp_hidden=20),
    "llama_groups": dict(family="llama", vocab=11, context=66, dim=16, depth=2, heads=4, kv_heads=2, mlp_hidden=19,
                         norm_eps=1e-5, tied=True),
    "llama_qwen": dict(family="llama", vocab=11, context=21, dim=12, depth=2, heads=4, kv_heads=2, mlp_hidden=19,
                       head_dim=6, qk_norm=True, window=5, softcap=2.5),
    "gpt2_values": dict(family="gpt2", vocab=13, context=7, dim=16, depth=2, heads=4, value_embeddings=True),
    "llama_values": dict(family="llama", vocab=11, context=9, dim=8, depth=2, heads=4, kv_heads=2, mlp_hidden=19,
                         value_embeddings=True),
}
BATCH = {"gpt2_odd": 3, "gpt2_long": 2, "llama_odd": 3, "llama_groups": 2, "llama_qwen": 2, "gpt2_values": 2, "llama_values": 2}
GATE_CHANNELS = 12  # of the branch's input, which the gate of value embeddings reads
PLUGINS = {"x0_lambdas": ["x0_lambdas"], "attnres_block": ["attnres:block=3"],
           "hyper_mhc_lite": ["hyper:kind=mhc_lite,lanes=3"], "denseformer_dynamic": ["denseformer:dynamic=true"],
           "laurel": ["laurel:rank=4,previous=2"],
           "unet": ["@unet"], "deep_delta": ["@deep_delta"]}
CASES = {name: (name, []) for name in MODELS}
CASES |= {f"{name}_{option}": (name, plugins) for name in ("gpt2_odd", "llama_odd") for option, plugins in PLUGINS.items()}
CASES |= {"gpt2_odd_postnorm": ("gpt2_odd", ["postnorm:eps=1e-5"])}
CASES |= {"llama_odd_postnorm_" + kind: ("llama_odd", [f"postnorm:kind={kind},norm=rms"])
          for kind in ("postln", "keel", "peri")}


def patch_float32():
    def norm(self, x):
        return self.weight * x * torch.rsqrt(x.square().mean(-1, keepdim=True) + self.variance_epsilon)

    def rotary(self, x, position_ids):
        width = x.shape[-1] if self.config.head_dim is None else self.config.head_dim
        rates = self.config.rope_parameters["rope_theta"] ** (-torch.arange(0, width, 2, dtype=x.dtype) / width)
        angles = torch.cat((position_ids[..., None].to(x.dtype) * rates,) * 2, -1)
        return angles.cos(), angles.sin()

    modeling_llama.LlamaRMSNorm.forward = modeling_qwen3.Qwen3RMSNorm.forward = norm
    modeling_llama.LlamaRotaryEmbedding.forward = modeling_qwen3.Qwen3RotaryEmbedding.forward = rotary


def add_joins(blocks, plugins, width):
    """The blocks compute their two joins by reference.py."""
    memory = Memory()
    for b, block in enumerate(blocks):
        for i, site in enumerate(("attn", "mlp")):
            place = Place(2 * b + i, 2 * len(blocks), b, len(blocks), width, site)
            block.add_module("join_" + site, Join(plugins, place, memory))
        is_gpt2 = hasattr(block, "ln_1")
        norms = (block.ln_1, block.ln_2) if is_gpt2 else (block.input_layernorm, block.post_attention_layernorm)

        def forward(x, *args, block=block, norms=norms, is_gpt2=is_gpt2, **options):
            u = block.join_attn.read(norms[0], x)
            attended = block.attn(u, attention_mask=args[1]) if is_gpt2 else block.self_attn(hidden_states=u, **options)
            x = block.join_attn(x, attended[0], u, norms[0])
            u = block.join_mlp.read(norms[1], x)
            return block.join_mlp(x, block.mlp(u), u, norms[1])
        block.forward = forward


def add_value_embeddings(inner, blocks, options):
    """nanochat's, whose commit 92d63d4 has them: every other block, the last among them."""
    heads = options.get("kv_heads", options["heads"])
    width = options["dim"] // options["heads"]
    inner.value_embeds = torch.nn.ModuleDict()
    for i in reversed(range(len(blocks) - 1, -1, -2)):
        table = inner.value_embeds[str(i)] = torch.nn.Embedding(options["vocab"], heads * width)
        is_gpt2 = hasattr(blocks[i], "attn")
        attention = blocks[i].attn if is_gpt2 else blocks[i].self_attn
        gate = attention.ve_gate = torch.nn.Linear(min(GATE_CHANNELS, options["dim"]), heads, bias=False)

        def add(module, args, out, table=table, gate=gate):
            factor = 3 * torch.sigmoid(gate(args[0][..., :GATE_CHANNELS]))
            rows = table(inner.tokens).unflatten(-1, (heads, width))
            added = (factor.unsqueeze(-1) * rows).flatten(-2)
            return torch.cat((out[..., :-added.shape[-1]], out[..., -added.shape[-1]:] + added), -1)
        (attention.c_attn if is_gpt2 else attention.v_proj).register_forward_hook(add)


def public_name(name):
    """What a join adds is named after the block's number alone."""
    return "blocks." + name.split(".", 2)[2] if ".join_" in name else name


class Network(torch.nn.Module):
    """Hugging Face's network. Its Conv1D weights, [inputs, outputs], are kept as [outputs, inputs]."""

    def __init__(self, options, plugins):
        super().__init__()
        o = options
        if o["family"] == "gpt2":
            config = transformers.GPT2Config(
                vocab_size=o["vocab"], n_positions=o["context"], n_embd=o["dim"], n_layer=o["depth"], n_head=o["heads"],
                activation_function="gelu" if o.get("act_layer") == "gelu" else "gelu_new",
                resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0)
            kind = transformers.GPT2LMHeadModel
        else:
            is_qwen = o.get("qk_norm", False)
            config_of = transformers.Qwen3Config if is_qwen else transformers.LlamaConfig
            own = dict(head_dim=o["head_dim"], sliding_window=o["window"], use_sliding_window=True,
                       layer_types=["sliding_attention"] * o["depth"]) if is_qwen else {}
            config = config_of(
                **own, vocab_size=o["vocab"], max_position_embeddings=o["context"], hidden_size=o["dim"],
                num_hidden_layers=o["depth"], num_attention_heads=o["heads"],
                num_key_value_heads=o.get("kv_heads", o["heads"]), intermediate_size=o["mlp_hidden"],
                rms_norm_eps=o.get("norm_eps", 1e-6), rope_theta=1e4, tie_word_embeddings=o.get("tied", False))
            kind = transformers.Qwen3ForCausalLM if is_qwen else transformers.LlamaForCausalLM
        self.softcap = o.get("softcap", 0)
        config._attn_implementation = "eager" if o["family"] == "gpt2" else "sdpa"
        self.inner = kind(config)
        blocks = self.inner.transformer.h if o["family"] == "gpt2" else self.inner.model.layers
        if o.get("value_embeddings"):
            add_value_embeddings(self.inner, blocks, o)
        if plugins:
            add_joins(blocks, plugins, o["dim"])
        self.inner.double()
        self.weights = torch.nn.ParameterDict()
        self.names, self.transposed = {}, set()
        for name, weight in list(self.inner.named_parameters()):
            key = name.replace(".", "/")  # a ParameterDict takes no dots
            if weight.ndim == 2 and isinstance(self.inner.get_submodule(name.rpartition(".")[0]),
                                               transformers.pytorch_utils.Conv1D):
                self.transposed.add(name)
            self.names[name] = key
            value = weight.detach().T.contiguous() if name in self.transposed else weight.detach().clone()
            self.weights[key] = weight if ".join_" in name else torch.nn.Parameter(value)  # joins keep theirs

    def named_parameters(self, *args, **kwargs):
        return ((public_name(name), self.weights[key]) for name, key in self.names.items())

    def parameters(self, recurse=True):
        return (weight for _, weight in self.named_parameters())

    def draw(self, seed, step):
        pass

    def forward(self, tokens):
        weights = {name: self.weights[key].T if name in self.transposed else self.weights[key]
                   for name, key in self.names.items()}
        self.inner.tokens = tokens
        logits = torch.func.functional_call(self.inner, weights, (tokens,)).logits
        return self.softcap * torch.tanh(logits / self.softcap) if self.softcap else logits

    def loss(self, tokens, targets):
        logits = self(tokens)
        return logits, F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=-1)


def perturb(network, generator):
    for name, weight in network.named_parameters():
        noise = torch.randn(weight.shape, generator=generator, dtype=torch.float64)
        if weight.ndim > 1:
            value = noise / math.sqrt(weight.shape[1]) if "wte" not in name and "embed" not in name else 0.5 * noise
        elif "norm" in name or ".ln_" in name:
            value = 0.3 * noise + (1.0 if name.endswith("weight") else 0.0)
        else:
            value = 0.3 * noise
        weight.data = float32_values(value)


def make_case(name, plugins):
    options = dict(MODELS[name])
    generator = torch.Generator().manual_seed(20261129)
    network = Network(options, plugins)
    perturb(network, generator)
    shape = (FEW_BATCHES if not plugins else 1, BATCH[name], options["context"])
    tokens = torch.randint(options["vocab"], shape, generator=generator)
    targets = torch.randint(options["vocab"], shape, generator=generator)
    targets[torch.rand(shape, generator=generator) < 0.2] = -1
    weights = {key: value.detach().clone() for key, value in network.named_parameters()}
    logits = network.eval()(tokens[0])
    _, loss, gradients = gradients_of(network, tokens[0], targets[0])
    tensors = {"tokens": tokens.int(), "targets": targets.int(), "logits": logits.detach(), "loss": loss}
    for key, gradient in gradients.items():
        tensors["weight/" + key] = weights[key].float()
        tensors["gradient/" + key] = gradient
    runs = RUNS if not plugins else {}
    for run, o in runs.items():
        for key, weight in network.named_parameters():
            weight.data = weights[key].clone()
        losses, norms, rates = train(network, tokens, targets, {**o, "label_smoothing": 0.0}, 0)
        tensors.update({f"{run}/losses": losses, f"{run}/norms": norms, f"{run}/rates": rates})
        for key, weight in network.named_parameters():
            tensors[f"{run}/weight/{key}"] = weight.detach().float()
    family = options.pop("family")
    case = {"family": family, "model": options, "objective": {"name": "next_token"}, "plugins": plugins, "runs": runs,
            "torch": torch.__version__, "transformers": transformers.__version__}
    return {key: value.contiguous().clone() for key, value in tensors.items()}, {"case": json.dumps(case)}


def main():
    torch.set_num_threads(1)
    patch_float32()
    for case, (name, plugins) in CASES.items():
        if not sys.argv[1:] or any(case.startswith(prefix) for prefix in sys.argv[1:]):
            write_golden(case, *make_case(name, plugins))


if __name__ == "__main__":
    main()
