// Llama (Touvron et al., 2023) with the names and layouts of Hugging Face's code:
//   x = embed_tokens[tokens]; per block x = x + o_proj(attn(rope(q_proj(z)), rope(k_proj(z)), v_proj(z))), z =
//   rms(x), and x = x + down_proj(silu(gate_proj(z)) up_proj(z)); logits = lm_head(rms(x))
// With qk_norm, heads of queries and keys have RMS norms before the rotation, as Qwen 3 has; head_dim gives them a width
// of their own; window is Mistral's, softcap Gemma 2's.
// With fewer kv_heads than heads, several query heads read one key head (Ainslie et al., EMNLP 2023).
#include <fmt/format.h>

#include "ir/error.h"
#include "ir/opcodes.h"
#include "models/language.h"
#include "models/model.h"
#include "models/parameters.h"

namespace rewire::models {

extern const Family kLlama;

namespace {

using ir::Builder;
using ir::Value;

constexpr double kStd = 0.02;

/// Returns the channels of a head.
std::int64_t head_width(const ir::Attributes& options, std::int64_t kv_heads) {
  const std::int64_t dim = options.get_int("dim"), heads = options.get_int("heads");
  std::int64_t width = options.get_int("head_dim");
  if (width == 0) {
    check_heads(dim, heads);
    width = dim / heads;
  }
  if (heads % kv_heads != 0) {
    user_error("model.heads={} is not a multiple of model.kv_heads={}; several heads read one key head",
               heads, kv_heads);
  }
  if (width % 2 != 0)
    user_error("the {} heads have {} channels each; rotary positions need an even number: set model.head_dim",
               heads, width);
  return width;
}

void build_llama(Layers& net, const ir::Attributes& options, std::int64_t batch) {
  Builder& b = net.builder();
  const std::int64_t dim = options.get_int("dim"), depth = options.get_int("depth");
  const std::int64_t heads = options.get_int("heads"), context = options.get_int("context");
  const std::int64_t kv_heads = options.get_int("kv_heads") > 0 ? options.get_int("kv_heads") : heads;
  const std::int64_t vocab = options.get_int("vocab"), hidden = options.get_int("mlp_hidden");
  const double dropout = options.get_double("dropout"), epsilon = options.get_double("norm_eps");
  const ir::Attributes rotation = {{"theta", options.get_double("rope_theta")}};
  const std::int64_t width = head_width(options, kv_heads);
  const bool qk_norm = options.get_bool("qk_norm");
  const ir::Init matrix{ir::InitKind::normal, kStd};
  const auto linear = [&](std::string_view name, Value x, std::int64_t out, std::string_view role) {
    return net.linear(name, x, out, {.role = role, .init = matrix, .bias = false});
  };
  const auto norm = [&](std::string_view name) -> Layer {
    return [&net, name, epsilon](Value x) { return net.rms_norm(name, x, epsilon); };
  };
  const Value tokens = b.argument("tokens", {ir::DType::i32, {batch, context}});
  const Sight sight = sight_of(b, options, batch);

  Embedding words = embed(net, "model.embed_tokens", tokens, vocab, dim, kStd);
  const ValueEmbeddings values(net, options, tokens, kv_heads, width);
  Value x = net.dropout("model.drop", words.rows, dropout);
  for (std::int64_t i = 0; i < depth; ++i) {
    const Layers::Block block(net, fmt::format("model.layers.{}", i));
    const auto attention = [&](Value z) {
      const Builder::Scope scope(b, "self_attn");
      const auto rotated = [&](std::string_view name, std::int64_t count, std::string_view role) {
        Value y = split_heads(b, linear(fmt::format("{}_proj", name), z, count * width, role), count);
        if (qk_norm) y = net.rms_norm(fmt::format("{}_norm", name), y, epsilon);
        return b.emit(ir::Opcode::rope, {y}, rotation);
      };
      const Value q = rotated("q", heads, "q"), k = rotated("k", kv_heads, "k");
      const Value v =
          values.add_to(split_heads(b, linear("v_proj", z, kv_heads * width, "v"), kv_heads), z, i);
      const Value y = merge_heads(b, causal_attention(b, q, k, v, sight));
      return net.dropout("drop", linear("o_proj", y, dim, "proj"), dropout);
    };
    const auto mlp = [&](Value z) {
      const Builder::Scope scope(b, "mlp");
      const Value gate = b.emit(ir::Opcode::silu, {linear("gate_proj", z, hidden, "gate")});
      const Value h = b.mul(gate, linear("up_proj", z, hidden, "fc1"));
      return net.dropout("drop", linear("down_proj", h, dim, "fc2"), dropout);
    };
    x = net.join("attn", x, norm("input_layernorm"), attention,
                 {.last = "self_attn.o_proj", .heads = heads, .branch_in_site = false});
    x = net.join("mlp", x, norm("post_attention_layernorm"), mlp,
                 {.last = "mlp.down_proj", .heads = heads, .branch_in_site = false});
  }
  net.begin_head();
  x = net.rms_norm("model.norm", x, epsilon);
  const Value logits =
      options.get_bool("tied") ? b.linear(x, words.table) : linear("lm_head", x, vocab, "head");
  b.result("logits", capped(b, logits, options.get_double("softcap")));
}

}  // namespace

const Family kLlama{
    .name = "llama",
    .doc = "Llama, as Hugging Face builds it",
    .objective = "next_token",
    .schema =
        {dim_parameter(768), depth_parameter(12), heads_parameter(12),
         ir::int_parameter("kv_heads", 0, "heads of keys and values; 0: as many as heads").at_least(0),
         ir::int_parameter("head_dim", 0, "channels of a head; 0: dim / heads").at_least(0).at_most(1 << 12),
         ir::int_parameter("mlp_hidden", 2048, "channels inside the MLP").at_least(1).at_most(1 << 20),
         vocab_parameter(32000), context_parameter(1024),
         ir::float_parameter("norm_eps", 1e-6, "epsilon that RMS norms add to the mean square")
             .above(0)
             .below(1),
         ir::float_parameter("rope_theta", 1e4, "base of the wavelengths of rotary positions").above(1),
         ir::bool_parameter("qk_norm", false,
                            "give heads of queries and keys RMS norms, before the rotation"),
         ir::bool_parameter("tied", false, "use the embedding as the head's matrix"), window_parameter(),
         documents_parameter(), softcap_parameter(), value_embeddings_parameter(), dropout_parameter()},
    .build = build_llama,
    .variants = {{"llama_nano",
                  {{"dim", 96},
                   {"depth", 12},
                   {"heads", 4},
                   {"kv_heads", 2},
                   {"mlp_hidden", 256},
                   {"vocab", 257},
                   {"context", 256}}},
                 {"smollm_135m",
                  {{"dim", 576},
                   {"depth", 30},
                   {"heads", 9},
                   {"kv_heads", 3},
                   {"mlp_hidden", 1536},
                   {"vocab", 49152},
                   {"context", 2048},
                   {"norm_eps", 1e-5},
                   {"tied", true}}},
                 {"tinyllama_1b",
                  {{"dim", 2048},
                   {"depth", 22},
                   {"heads", 32},
                   {"kv_heads", 4},
                   {"mlp_hidden", 5632},
                   {"vocab", 32000},
                   {"context", 2048},
                   {"norm_eps", 1e-5}}}}};

}  // namespace rewire::models
