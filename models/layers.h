// The layers that models are made of, with timm's names and layouts. A parameter is named after where its
// layer stands: Builder::Scope gives the place, so "weight" of the layer "fc1" in the scope "blocks.3.mlp" is
// blocks.3.mlp.fc1.weight. Every sum with the stream is a `residual` op, which a plugin can rewrite.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "ir/builder.h"

namespace rewire::models {

/// timm's trunc_normal_: std .02, cut at +-2 in absolute terms.
inline const ir::Init kTruncNormal{ir::InitKind::trunc_normal, 0.02, 2.0};

/// y = f(x), and the ops of f behind those that are there.
using Layer = std::function<ir::Value(ir::Value x)>;

struct LinearOptions {
  std::string_view role = "";  // of its parameters; "": its name
  ir::Init init = kTruncNormal;
};

struct JoinOptions {
  std::string_view last;  // the layer that ends the branch: "proj"
  double drop_path = 0;
  std::int64_t heads = 0;  // of attention, 0: of none
  int batch_axis = 0, token_axis = 1, channel_axis = 2;
};

/// Builds one function, layer by layer.
class Layers {
 public:
  explicit Layers(ir::Builder& builder) : b_(builder) {}
  ir::Builder& builder() { return b_; }

  /// Declares "<location>.<leaf>" (or `leaf` alone outside any scope) and reads it. Matrices decay; vectors,
  /// class tokens and position embeddings do not, as timm groups them.
  ir::Value parameter(std::string_view leaf, ir::Shape shape, ir::Init init, std::string_view role);

  // Layers of a name of their own. x [..., in].
  /// [..., out], by `weight` [out, in] and `bias` [out].
  ir::Value linear(std::string_view name, ir::Value x, std::int64_t out, const LinearOptions& options = {});
  /// Over the last axis.
  ir::Value layer_norm(std::string_view name, ir::Value x);
  /// On a random stream named after the place; x itself at rate 0, and no state is added then.
  ir::Value dropout(std::string_view name, ir::Value x, double rate);
  /// [B, C, H, W] -> [B, H/p W/p, width]: a convolution of extent and stride p, as one linear layer of each
  /// patch.
  ir::Value patch_embed(std::string_view name, ir::Value image, std::int64_t width, std::int64_t patch);

  // Branches of a block, in the scope that they are called in. x [B, N, D].
  /// Layers qkv and proj, proj_drop.
  ir::Value attention(ir::Value x, std::int64_t heads, double dropout);
  /// Layers fc1, act, drop1, fc2, drop2. `act_layer` as timm has it: gelu (by erf) or gelu_tanh.
  ir::Value mlp(ir::Value x, std::int64_t hidden, std::string_view act_layer, double dropout);

  /// What is built from here on is a further layer, for rates that differ by layer: each block is one, what
  /// stands before the first is layer 0, and what stands behind a block is of its layer until this is called.
  void begin_layer() { ++layer_; }

  /// Names what is built while it lives, "blocks.3", and tells its parameters and joins which block they are
  /// of. Blocks count in the order that they are built in, over the scope that plugins know them by: the
  /// encoder's, the decoder's.
  class Block {
   public:
    Block(Layers& layers, std::string_view name, std::string_view scope = "encoder");
    ~Block();
    Block(const Block&) = delete;
    Block& operator=(const Block&) = delete;

   private:
    Layers& layers_;
    ir::Builder::Scope place_;
    const std::string outer_scope_;
    const std::int32_t outer_block_;
  };
  /// x + drop_path(branch(input(x))) in a block: the branch and the join in a scope of the site's name, attn,
  /// mlp or conv, the input's layers before it.
  ir::Value join(std::string_view site, ir::Value x, const Layer& input, const Layer& branch,
                 const JoinOptions& options);

  /// When all is built: the joins are told how many they are.
  void finish();

 private:
  struct Count {
    std::int64_t blocks = 0, joins = 0;
  };

  ir::Value drop(ir::Opcode code, std::string_view name, ir::Value x, double rate);
  ir::Value state(std::string_view name, ir::StateKind kind);

  ir::Builder& b_;
  // Where the layer being built stands.
  std::string scope_, site_;
  std::int32_t block_ = -1, layer_ = 0;
  std::map<std::string, Count, std::less<>> counts_;  // by scope
};

/// The rate of block `index`: linear from 0 at the first to `last` at the last of `depth` (stochastic depth's
/// linear rule, Huang et al., ECCV 2016, section 3).
double drop_path_rate(double last, std::int64_t index, std::int64_t depth);

/// A module of the function `forward`, which `build` fills.
ir::Module forward_module(std::string_view name, const std::function<void(Layers&)>& build);

}  // namespace rewire::models
