// Builds the modules of residual_net.h.
#include "tests/support/residual_net.h"

#include <string>

#include "ir/builder.h"
#include "ir/opcodes.h"

namespace rewire::test {
namespace {

using ir::Builder;
using ir::Opcode;
using ir::Value;

struct Place {
  std::string prefix;  // "blocks.3"
  std::string scope, site, layer, norm;
  std::int64_t block, join_index, join_count;
};

Value weight(Builder& b, const Place& place, const std::string& name, const std::string& role,
             ir::Shape shape, bool ones) {
  ir::Parameter p;
  p.name = place.prefix + "." + name;
  p.decay = shape.size() > 1;
  p.type = {ir::DType::f32, std::move(shape)};
  p.init = ones ? ir::Init{ir::InitKind::ones} : ir::Init{ir::InitKind::normal, 0.5};
  p.role = role;
  p.site = place.site;
  p.block = static_cast<std::int32_t>(place.block);
  return b.param(b.module().add_parameter(std::move(p)).name);
}

Value join(Builder& b, Value x, const Place& place) {
  const std::int64_t dim = b.shape(x).back();
  b.set_location(place.prefix + "." + place.site);
  const Value gamma = weight(b, place, place.norm + ".weight", "norm", {dim}, true);
  const Value beta = weight(b, place, place.norm + ".bias", "norm", {dim}, false);
  const Value input = b.emit(Opcode::layer_norm, {x, gamma, beta});
  const std::string layer = place.site + "." + place.layer;
  const Value matrix = weight(b, place, layer + ".weight", place.layer, {dim, dim}, false);
  const Value bias = weight(b, place, layer + ".bias", place.layer, {dim}, false);
  const Value branch = b.linear(input, matrix, bias);
  return b.emit(Opcode::residual, {x, branch, input, x, branch},
                {{"block", place.block},
                 {"site", place.site},
                 {"scope", place.scope},
                 {"join_index", place.join_index},
                 {"join_count", place.join_count},
                 {"heads", std::int64_t{2}},
                 {"last_weight", place.prefix + "." + layer + ".weight"}});
}

}  // namespace

ir::Module residual_net(const ResidualNet& net) {
  ir::Module module;
  module.name = "residual_net";
  ir::Function forward;
  forward.name = "forward";
  Builder b(module, forward);
  Value x = b.argument("image", {ir::DType::f32, {net.batch, net.tokens, net.dim}});
  for (std::int64_t i = 0; i < net.depth; ++i) {
    const std::string prefix = "blocks." + std::to_string(i);
    x = join(b, x, {prefix, "encoder", "attn", "proj", "norm1", i, 2 * i, 2 * net.depth});
    x = join(b, x, {prefix, "encoder", "mlp", "fc2", "norm2", i, 2 * i + 1, 2 * net.depth});
  }
  for (std::int64_t i = 0; i < net.decoder_depth; ++i) {
    const std::string prefix = "decoder_blocks." + std::to_string(i);
    x = join(b, x, {prefix, "decoder", "mlp", "fc2", "norm2", i, i, net.decoder_depth});
  }
  b.result("logits", x);
  module.functions.push_back(std::move(forward));
  return module;
}

ir::Module single_join(const ir::TensorType& type, JoinAxes axes) {
  ir::Module module;
  module.name = "single_join";
  ir::Function forward;
  forward.name = "forward";
  Builder b(module, forward);
  const Value x = b.argument("x", type);
  const Value f = b.argument("f", type);
  b.result("y", b.emit(Opcode::residual, {x, f, x, x, f},
                       {{"block", std::int64_t{0}},
                        {"site", std::string("mlp")},
                        {"join_index", std::int64_t{0}},
                        {"join_count", std::int64_t{1}},
                        {"batch_axis", axes.batch},
                        {"token_axis", axes.token},
                        {"channel_axis", axes.channel}}));
  module.functions.push_back(std::move(forward));
  return module;
}

}  // namespace rewire::test
