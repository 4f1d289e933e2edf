// The pre-norm vision transformer (Dosovitskiy et al., ICLR 2021) with timm's blocks, parameter names,
// layouts and initialisation:
//   z = [cls; patches W^T + b] + pos;  z = z + attn(LN(z)), z = z + mlp(LN(z)) per block;  head(pool(LN(z)))
// Every sum with the stream is a `residual` op, so that a plugin can rewrite it. With Builder::Scope the
// location of a layer's ops is timm's name of the layer, and a parameter is named location.leaf.
#include "models/vit.h"

#include <cmath>

#include "ir/builder.h"

namespace rewire::models {
namespace {

using ir::Builder;
using ir::Init;
using ir::InitKind;
using ir::Opcode;
using ir::Value;

const Init kZeros{InitKind::zeros};
const Init kOnes{InitKind::ones};
/// timm's trunc_normal_: std .02, cut at +-2 in absolute terms.
const Init kTruncNormal{InitKind::trunc_normal, 0.02, 2.0};

class VitBuilder {
 public:
  VitBuilder(const ModelOptions& options, std::int64_t batch, Builder& builder)
      : options_(options), batch_(batch), b_(builder) {}

  void build() {
    const std::int64_t size = options_.image;
    Value image = b_.argument("image", {ir::DType::f32, {batch_, options_.channels, size, size}});
    Value x = embed(image);
    for (std::int64_t i = 0; i < options_.depth; ++i) x = block(x, i);
    b_.result("logits", linear("head", pool(x), options_.classes, "head"));
  }

 private:
  std::int64_t tokens() const { return b_.shape(stream_).at(1); }
  bool has_cls() const { return options_.pool == "token"; }

  /// Declares "<location>.<leaf>" (or `leaf` alone outside any scope) and reads it. Matrices decay; vectors,
  /// cls_token and pos_embed do not, as timm groups them.
  Value parameter(std::string_view leaf, ir::Shape shape, Init init, std::string_view role) {
    ir::Parameter p;
    p.name = b_.location().empty() ? std::string(leaf) : b_.location() + "." + std::string(leaf);
    p.decay = shape.size() > 1 && role != "cls_token" && role != "pos_embed";
    p.type = {ir::DType::f32, std::move(shape)};
    p.init = init;
    p.role = role;
    p.site = site_;
    p.block = block_;
    return b_.param(b_.module().add_parameter(std::move(p)).name);
  }

  Value linear(std::string_view name, Value x, std::int64_t out, std::string_view role) {
    Builder::Scope scope(b_, name);
    const std::int64_t in = b_.shape(x).back();
    Value weight = parameter("weight", {out, in}, kTruncNormal, role);
    Value bias = parameter("bias", {out}, kZeros, role);
    return b_.linear(x, weight, bias);
  }

  Value norm(std::string_view name, Value x) {
    Builder::Scope scope(b_, name);
    Value weight = parameter("weight", {options_.dim}, kOnes, "norm");
    Value bias = parameter("bias", {options_.dim}, kZeros, "norm");
    return b_.emit(Opcode::layer_norm, {x, weight, bias}, {{"epsilon", 1e-6}});
  }

  /// dropout or drop_path on a stream named after the place; nothing at rate 0, and no state is added then.
  Value drop(Opcode code, std::string_view name, Value x, double rate) {
    if (rate == 0) return x;
    Builder::Scope scope(b_, name);
    Value seed = state("rng.seed", ir::StateKind::random);
    Value step = state("train.step", ir::StateKind::counter);
    Value training = b_.emit(Opcode::is_training, {}, {}, ir::TensorType{ir::DType::i1, {}});
    return b_.emit(code, {x, seed, step, training}, {{"probability", rate}, {"stream", b_.location()}});
  }
  Value dropout(std::string_view name, Value x) { return drop(Opcode::dropout, name, x, options_.dropout); }

  Value state(std::string_view name, ir::StateKind kind) {
    return b_.param(b_.module().add_state(name, {ir::DType::i64, {}}, kind).name);
  }

  /// [B, C, S, S] -> [B, (S/p)^2, C p p]: each patch as one row, in the order of a convolution's weight.
  Value patchify(Value image) {
    const std::int64_t p = options_.patch, grid = options_.image / p, c = options_.channels;
    Value x = b_.reshape(image, {batch_, c, grid, p, grid, p});
    x = b_.transpose(x, {0, 2, 4, 1, 3, 5});
    return b_.reshape(x, {batch_, grid * grid, c * p * p});
  }

  Value embed(Value image) {
    const std::int64_t d = options_.dim, p = options_.patch, c = options_.channels;
    const std::int64_t grid = options_.image / p, prefix = has_cls() ? 1 : 0;
    Value cls;
    if (has_cls()) cls = parameter("cls_token", {1, 1, d}, {InitKind::normal, 1e-6}, "cls_token");
    Value pos = parameter("pos_embed", {1, grid * grid + prefix, d}, kTruncNormal, "pos_embed");
    Value x;
    {
      Builder::Scope outer(b_, "patch_embed");
      Builder::Scope inner(b_, "proj");
      // torch's Conv2d default: kaiming_uniform with a = sqrt(5) is uniform +-1/sqrt(fan in), bias alike.
      const double bound = 1 / std::sqrt(static_cast<double>(c * p * p));
      const Init init{InitKind::uniform, -bound, bound};
      Value weight = parameter("weight", {d, c, p, p}, init, "patch_embed");
      Value bias = parameter("bias", {d}, init, "patch_embed");
      x = b_.linear(patchify(image), b_.reshape(weight, {d, c * p * p}), bias);
    }
    if (has_cls()) {
      const Value parts[] = {b_.broadcast(cls, {batch_, 1, d}), x};
      x = b_.concat(parts, 1);
    }
    stream_ = dropout("pos_drop", b_.add(x, pos));
    return stream_;
  }

  Value attention(Value x) {
    const std::int64_t n = tokens(), h = options_.heads, d = options_.dim, width = d / h;
    Value qkv = b_.reshape(linear("qkv", x, 3 * d, "qkv"), {batch_, n, 3, h, width});
    qkv = b_.transpose(qkv, {2, 0, 3, 1, 4});
    Value part[3];
    for (int i = 0; i < 3; ++i) part[i] = b_.reshape(b_.slice(qkv, 0, i, i + 1), {batch_, h, n, width});
    const double scale = 1 / std::sqrt(static_cast<double>(width));
    Value heads = b_.emit(Opcode::attention, {part[0], part[1], part[2]}, {{"scale", scale}});
    Value merged = b_.reshape(b_.transpose(heads, {0, 2, 1, 3}), {batch_, n, d});
    return dropout("proj_drop", linear("proj", merged, d, "proj"));
  }

  Value mlp(Value x) {
    // timm: int(dim * mlp_ratio), toward zero.
    const auto hidden = static_cast<std::int64_t>(static_cast<double>(options_.dim) * options_.mlp_ratio);
    Value h = linear("fc1", x, hidden, "fc1");
    {
      Builder::Scope scope(b_, "act");
      h = options_.act_layer == "gelu_tanh"
              ? b_.emit(Opcode::gelu, {h}, {{"approximate", std::string("tanh")}})
              : b_.emit(Opcode::gelu, {h});
    }
    return dropout("drop2", linear("fc2", dropout("drop1", h), options_.dim, "fc2"));
  }

  /// x + drop_path(branch), as a join that says all a plugin may ask.
  Value join(Value x, Value branch, Value input, std::string_view last_layer) {
    const std::int64_t last = options_.depth - 1;
    const double rate =
        last == 0 ? 0 : options_.drop_path * static_cast<double>(block_) / static_cast<double>(last);
    branch = drop(Opcode::drop_path, "drop_path", branch, rate);
    return b_.emit(Opcode::residual, {x, branch, input, x, branch},
                   {{"block", std::int64_t{block_}},
                    {"site", site_},
                    {"scope", std::string("encoder")},
                    {"join_index", 2 * std::int64_t{block_} + (site_ == "attn" ? 0 : 1)},
                    {"join_count", 2 * options_.depth},
                    {"heads", options_.heads},
                    {"last_weight", b_.location() + "." + std::string(last_layer) + ".weight"}});
  }

  Value block(Value x, std::int64_t index) {
    Builder::Scope blocks(b_, "blocks");
    Builder::Scope scope(b_, std::to_string(index));
    block_ = static_cast<std::int32_t>(index);
    site_ = "attn";
    Value input = norm("norm1", x);
    {
      Builder::Scope inner(b_, site_);
      x = join(x, attention(input), input, "proj");
    }
    site_ = "mlp";
    input = norm("norm2", x);
    {
      Builder::Scope inner(b_, site_);
      x = join(x, mlp(input), input, "fc2");
    }
    block_ = -1;
    site_.clear();
    return x;
  }

  /// The norm works token by token, so the cls token is taken before it: the same numbers as timm's, which
  /// norms all tokens and takes one.
  Value pool(Value x) {
    const std::int64_t d = options_.dim;
    if (has_cls()) return norm("norm", b_.reshape(b_.slice(x, 1, 0, 1), {batch_, d}));
    return b_.reshape(b_.mean(norm("norm", x), {1}), {batch_, d});
  }

  const ModelOptions& options_;
  const std::int64_t batch_;
  Builder& b_;
  Value stream_;             // the embedded tokens: their shape is every block's
  std::int32_t block_ = -1;  // where the layer being built stands
  std::string site_;
};

}  // namespace

ir::Module build_vit(const ModelOptions& options, std::int64_t batch) {
  ir::Module module;
  module.name = options.name;
  module.attributes = {{"batch", batch},
                       {"dim", options.dim},
                       {"depth", options.depth},
                       {"heads", options.heads},
                       {"mlp_ratio", options.mlp_ratio},
                       {"patch", options.patch},
                       {"image", options.image},
                       {"channels", options.channels},
                       {"classes", options.classes},
                       {"pool", options.pool},
                       {"act_layer", options.act_layer},
                       {"drop_path", options.drop_path},
                       {"dropout", options.dropout}};
  ir::Function forward;
  forward.name = "forward";
  Builder builder(module, forward);
  VitBuilder(options, batch, builder).build();
  module.functions.push_back(std::move(forward));
  return module;
}

}  // namespace rewire::models
