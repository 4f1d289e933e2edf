// A learned scale of every branch, applied to the result of the other strategies that were named before:
//   x' = x + gamma f.
// kind=layerscale: gamma has one number per channel, which starts small (Touvron et al., CaiT, 2021,
// section 2). kind=rezero: one number per block, shared by its joins, from 0 (Bachlechner et al., ReZero,
// 2020). kind=skipinit: one number per join, from 0 (De and Smith, Batch Normalization Biases Residual
// Blocks, 2020).
#include <map>
#include <rewire_plugin.hpp>
#include <utility>

namespace {

using namespace rewire::plugin;

constexpr rewire_parameter kParameters[] = {
    enum_parameter("kind", "layerscale", "layerscale|rezero|skipinit",
                   "factor of each branch; layerscale: one per channel; rezero: one per block, initially 0; "
                   "skipinit: one per join, initially 0"),
    float_parameter("init", "0.1", "initial factor, with kind=layerscale"),
    bool_parameter("by_depth", "false",
                   "with kind=layerscale: initial factor 0.1 up to 18 blocks, 1e-5 up to 24, else 1e-6; init "
                   "is not used"),
};

/// The initial value by the number of blocks: CaiT, section 2.
double start_by_depth(std::int64_t blocks) {
  if (blocks <= 18) return 0.1;
  return blocks <= 24 ? 1e-5 : 1e-6;
}

void rewrite(const Rewrite& call) {
  const std::string kind = call.get_text("kind");
  std::map<std::pair<std::string, std::int64_t>, Value> of_block;  // by scope and block
  for (const Join& join : call.joins()) {
    Value gamma;
    if (kind == "layerscale") {
      const double start =
          call.get_bool("by_depth") ? start_by_depth(join.block_count) : call.get_float("init");
      gamma = join.add_weight("gamma", join.channel_shape(), Init::constant(start), Group::no_decay);
    } else if (kind == "skipinit") {
      gamma = join.add_scalar("alpha", Init::zeros());
    } else {
      Value& shared = of_block[{join.scope, join.block}];
      if (!shared) shared = join.add_scalar("alpha", Init::zeros());
      gamma = shared;
    }
    join.change_branch(gamma * join.branch_slot());
  }
}

}  // namespace

REWIRE_PLUGIN("layerscale", "1.0.0", "scales every branch by a learned gamma: LayerScale, ReZero or SkipInit",
              kParameters, rewrite)
