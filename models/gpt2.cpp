// GPT-2 (Radford et al., 2019) with the names of Hugging Face's and nanoGPT's code, and nanoGPT's layout of
// matrices, [outputs, inputs]; files with Hugging Face's, [inputs, outputs], are read too:
//   x = wte[tokens] + wpe; x = x + attn(ln_1(x)), x = x + mlp(ln_2(x)) per block; logits = ln_f(x) wte^T
// As there, the last matrices of branches start with deviation .02 / sqrt(2 depth), all others with .02.
#include <fmt/format.h>

#include <cmath>

#include "models/language.h"
#include "models/model.h"
#include "models/parameters.h"

namespace rewire::models {

extern const Family kGpt2;

namespace {

using ir::Builder;
using ir::Value;

constexpr double kStd = 0.02;

void build_gpt2(Layers& net, const ir::Attributes& options, std::int64_t batch) {
  Builder& b = net.builder();
  const std::int64_t dim = options.get_int("dim"), depth = options.get_int("depth");
  const std::int64_t heads = options.get_int("heads"), context = options.get_int("context");
  const std::int64_t vocab = options.get_int("vocab");
  const double dropout = options.get_double("dropout"), epsilon = options.get_double("norm_eps");
  const bool bias = options.get_bool("bias");
  const std::string& act_layer = options.get_string("act_layer");
  check_heads(dim, heads);
  const ir::Init matrix{ir::InitKind::normal, kStd};
  const ir::Init last{ir::InitKind::normal, kStd / std::sqrt(2.0 * static_cast<double>(depth))};
  const auto linear = [&](std::string_view name, Value x, std::int64_t out, const ir::Init& init,
                          std::string_view role) {
    return net.linear(name, x, out, {.role = role, .init = init, .bias = bias});
  };
  const auto norm = [&](std::string_view name) -> Layer {
    return [&net, name, epsilon, bias](Value x) {
      return net.layer_norm(name, x, {.epsilon = epsilon, .bias = bias});
    };
  };
  const Value tokens = b.argument("tokens", {ir::DType::i32, {batch, context}});
  const Sight sight = sight_of(b, options, batch);

  Embedding words;
  Value x;
  {
    const Builder::Scope scope(b, "transformer");
    words = embed(net, "wte", tokens, vocab, dim, kStd);
    const Builder::Scope places(b, "wpe");
    const Value positions = net.decaying("weight", {context, dim}, matrix, "embedding");
    x = b.add(words.rows, b.reshape(positions, {1, context, dim}));
  }
  const ValueEmbeddings values(net, options, tokens, heads, dim / heads);
  x = net.dropout("transformer.drop", x, dropout);
  for (std::int64_t i = 0; i < depth; ++i) {
    const Layers::Block block(net, fmt::format("transformer.h.{}", i));
    const auto attention = [&](Value z) {
      const Value qkv = linear("c_attn", z, 3 * dim, matrix, "qkv");
      const auto part = [&](std::int64_t at) {
        return split_heads(b, b.slice(qkv, 2, at * dim, (at + 1) * dim), heads);
      };
      const Value v = values.add_to(part(2), z, i);
      const Value y = merge_heads(b, causal_attention(b, part(0), part(1), v, sight));
      return net.dropout("resid_dropout", linear("c_proj", y, dim, last, "proj"), dropout);
    };
    const auto mlp = [&](Value z) {
      const Value h = net.activate(act_layer, linear("c_fc", z, 4 * dim, matrix, "fc1"));
      return net.dropout("dropout", linear("c_proj", h, dim, last, "fc2"), dropout);
    };
    x = net.join("attn", x, norm("ln_1"), attention, {.last = "c_proj", .heads = heads});
    x = net.join("mlp", x, norm("ln_2"), mlp, {.last = "c_proj", .heads = heads});
  }
  net.begin_head();
  x = net.layer_norm("transformer.ln_f", x, {.epsilon = epsilon, .bias = bias});
  const bool tied = options.get_bool("tied");
  const Value logits = tied
                           ? b.linear(x, words.table)
                           : net.linear("lm_head", x, vocab, {.role = "head", .init = matrix, .bias = false});
  b.result("logits", capped(b, logits, options.get_double("softcap")));
}

/// Files of Hugging Face's GPT2Model lack the first word of the names.
std::string name_here(const std::string& name, const ir::Attributes& /*options*/) {
  for (const std::string_view part : {"wte.", "wpe.", "h.", "ln_f."}) {
    if (name.starts_with(part)) return "transformer." + name;
  }
  return name;
}

ir::Attributes gpt(std::int64_t dim, std::int64_t depth, std::int64_t heads, std::int64_t vocab = 50257,
                   std::int64_t context = 1024) {
  return {{"dim", dim}, {"depth", depth}, {"heads", heads}, {"vocab", vocab}, {"context", context}};
}

}  // namespace

const Family kGpt2{
    .name = "gpt2",
    .doc = "GPT-2, as nanoGPT and Hugging Face build it",
    .objective = "next_token",
    .schema = {dim_parameter(768), depth_parameter(12), heads_parameter(12), vocab_parameter(50257),
               context_parameter(1024),
               ir::float_parameter("norm_eps", 1e-5, "epsilon that layer norms add to the variance")
                   .above(0)
                   .below(1),
               ir::enum_parameter("act_layer", {"gelu_tanh", "gelu"},
                                  "activation of the MLP; gelu_tanh: GPT-2's; gelu: by erf, nanoGPT's"),
               ir::bool_parameter("bias", true, "give linear layers and norms a bias"),
               ir::bool_parameter("tied", true, "use the embedding as the head's matrix"), window_parameter(),
               documents_parameter(), softcap_parameter(), value_embeddings_parameter(), dropout_parameter()},
    .build = build_gpt2,
    .name_here = name_here,
    .files = {.transposed = {"attn.c_attn.weight", "attn.c_proj.weight", "mlp.c_fc.weight",
                             "mlp.c_proj.weight"},
              .constants = {".attn.bias", ".attn.masked_bias"},
              .positions = {"wpe.weight"},
              .copies = {{"lm_head.weight", "transformer.wte.weight"}}},
    .variants = {{"gpt2_nano", gpt(96, 12, 3, 257, 256)},
                 {"gpt2_small", gpt(768, 12, 12)},
                 {"gpt2_medium", gpt(1024, 24, 16)},
                 {"gpt2_large", gpt(1280, 36, 20)},
                 {"gpt2_xl", gpt(1600, 48, 25)}}};

}  // namespace rewire::models
