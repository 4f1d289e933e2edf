// The layers that models are made of, with timm's names and layouts. A parameter is named after where its
// layer stands: Builder::Scope gives the place, so "weight" of the layer "fc1" in the scope "blocks.3.mlp" is
// blocks.3.mlp.fc1.weight. Every sum with the stream is a `residual` op, which a plugin can rewrite.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "ir/builder.h"

namespace rewire::models {

/// timm's trunc_normal_: std .02, cut at +-2 in absolute terms.
inline const ir::Init kTruncNormal{ir::InitKind::trunc_normal, 0.02, 2.0};

/// y = f(x), and the ops of f behind those that are there.
using Layer = std::function<ir::Value(ir::Value x)>;

/// How a linear layer starts. timm: weight by LinearOptions::init, bias 0. pytorch: as nn.Linear has it, both
/// uniform within 1/sqrt(in). xavier: weight uniform of variance 2 / (in + out), bias 0.
enum class LinearInit : std::uint8_t { timm, pytorch, xavier };

struct LinearOptions {
  std::string_view role = "";  // of its parameters; "": its name
  ir::Init init = kTruncNormal;
  LinearInit start = LinearInit::timm;
  bool bias = true;
};

struct NormOptions {
  double epsilon = 1e-6;
  bool affine = true;  // else without `weight` and `bias`
};

/// How a convolution's weight starts. standard: PyTorch's Conv2d, uniform +-1 / sqrt(fan in), its bias alike. The others
/// have biases of 0: kaiming (He et al., ICCV 2015): normal of variance 2 / fan out; xavier (Glorot and Bengio, AISTATS
/// 2010): uniform of variance 2 / (fan in + fan out). orthogonal (Saxe et al., ICLR 2014): of orthonormal rows or columns.
/// trunc_normal: timm's, of deviation .02.
enum class ConvInit : std::uint8_t { standard, kaiming, xavier, orthogonal, trunc_normal };

struct ConvOptions {
  std::int64_t kernel = 3, stride = 1, groups = 1;
  std::int64_t padding = -1;  // on each side; -1: kernel / 2
  bool bias = true;
  ConvInit init = ConvInit::standard;
  std::string_view role = "";  // of its parameters; "": its name
};

struct JoinOptions {
  std::string_view last;  // the layer that ends the branch: "proj"
  double drop_path = 0;
  std::int64_t heads = 0;  // of attention, 0: of none
  int batch_axis = 0, token_axis = 1, channel_axis = 2;
  /// Whether the branch's layers are named after the site: blocks.3.mlp.fc1, and not blocks.3.fc1.
  bool branch_in_site = true;
  /// Where the shortcut is a projection: the stream, of the block's x and of what the branch reads.
  std::function<ir::Value(ir::Value x, ir::Value input)> shortcut = {};
  Layer scale = {};  // of the branch, before drop path, in the block's scope; none where empty
};

/// Builds one function, layer by layer.
class Layers {
 public:
  explicit Layers(ir::Builder& builder) : b_(builder) {}
  ir::Builder& builder() { return b_; }

  /// Declares "<location>.<leaf>" (or `leaf` alone outside any scope) and reads it. Matrices decay; vectors,
  /// class tokens, registers, mask tokens and position embeddings do not, as timm groups them.
  ir::Value parameter(std::string_view leaf, ir::Shape shape, ir::Init init, std::string_view role);
  /// As above, for one that decays whatever its role.
  ir::Value decaying(std::string_view leaf, ir::Shape shape, ir::Init init, std::string_view role);

  /// The same of a tensor that no optimizer changes.
  ir::Value frozen(std::string_view leaf, ir::Shape shape, ir::Init init, std::string_view role);

  // Layers of a name of their own. x [..., in].
  /// [..., out], by `weight` [out, in] and, unless options.bias is false, `bias` [out].
  ir::Value linear(std::string_view name, ir::Value x, std::int64_t out, const LinearOptions& options = {});
  /// Over the last axis.
  ir::Value layer_norm(std::string_view name, ir::Value x, const NormOptions& options = {});
  /// x times `gamma` [channels], which starts as `init` everywhere.
  ir::Value layer_scale(std::string_view name, ir::Value x, double init);
  /// Maps [B, C, H, W] -> [B, outputs, …]: `weight` [outputs, C / groups, kernel, kernel] and, with a bias, `bias`.
  ir::Value conv(std::string_view name, ir::Value maps, std::int64_t outputs, const ConvOptions& options);
  /// Over all but the channels of maps [B, C, H, W], with PyTorch's epsilon and momentum: `weight`, `bias`, and what a
  /// training step updates, `running_mean` and `running_var` (Ioffe and Szegedy, ICML 2015). gamma: where `weight` starts.
  ir::Value batch_norm(std::string_view name, ir::Value maps, double gamma = 1);
  /// max(x, 0)
  ir::Value relu(std::string_view name, ir::Value x);
  /// The largest of windows of so many pixels a side.
  ir::Value max_pool(std::string_view name, ir::Value maps, std::int64_t kernel, std::int64_t stride,
                     std::int64_t padding);
  /// [B, C, H, W] -> [B, C]: the mean of each map.
  ir::Value global_average(ir::Value maps);
  /// On a random stream named after the place; x itself at rate 0, and no state is added then.
  ir::Value dropout(std::string_view name, ir::Value x, double rate);
  /// [B, C, H, W] -> [B, H/p W/p, C p p]: each patch as one row, in the order of a convolution's weight.
  ir::Value patch_rows(ir::Value maps, std::int64_t patch);
  /// [B, C, H, W] -> [B, H/p W/p, width]: a convolution of extent and stride p, as one linear layer of each
  /// patch.
  ir::Value patch_embed(std::string_view name, ir::Value image, std::int64_t width, std::int64_t patch,
                        bool bias = true);
  /// The same under the name alone, its parameters of this role: maps [B, C, H, W] -> [B, H/p W/p, width].
  ir::Value patches(std::string_view name, ir::Value maps, std::int64_t width, std::int64_t patch,
                    std::string_view role, bool bias = true);
  /// The same of maps that are tokens [B, rows columns, C], row by row.
  ir::Value token_patches(std::string_view name, ir::Value tokens, std::int64_t rows, std::int64_t columns,
                          std::int64_t patch, std::int64_t width, std::string_view role);

  // Branches of a block, in the scope that they are called in. x [B, N, D].
  /// Layers qkv and proj, proj_drop.
  ir::Value attention(ir::Value x, std::int64_t heads, double dropout, bool qkv_bias = true,
                      LinearInit start = LinearInit::timm);
  /// Layers fc1, act, drop1, fc2, drop2. `act_layer` as timm has it: gelu (by erf), gelu_tanh or quick_gelu,
  /// x sigmoid(1.702 x).
  ir::Value mlp(ir::Value x, std::int64_t hidden, std::string_view act_layer, double dropout,
                LinearInit start = LinearInit::timm);

  /// What is built from here on is a further layer, for rates that differ by layer: each block is one, what
  /// stands before the first is layer 0, and what stands behind a block is of its layer until this is called.
  void begin_layer() {
    ++layer_;
    in_head_ = false;
  }
  /// The head's layer, which is one, however often this is called.
  void begin_head() {
    if (!in_head_) begin_layer();
    in_head_ = true;
  }

  /// Names what is built while it lives, "blocks.3", and tells its parameters and joins which block they are
  /// of. Blocks count in the order that they are built in, over the scope that plugins know them by: the
  /// encoder's, the decoder's. `stage`: which of a network's stages they stand in, 0 where it has none.
  class Block {
   public:
    Block(Layers& layers, std::string_view name, std::string_view scope = "encoder", std::int64_t stage = 0);
    ~Block();
    Block(const Block&) = delete;
    Block& operator=(const Block&) = delete;

   private:
    Layers& layers_;
    ir::Builder::Scope place_;
    const std::string outer_scope_;
    const std::int32_t outer_block_;
    const std::int64_t outer_stage_;
  };
  /// x + drop_path(scale(branch(input(x)))) in a block: the branch and the join in a scope of the site's name,
  /// attn, mlp or conv, the input's layers before it.
  ir::Value join(std::string_view site, ir::Value x, const Layer& input, const Layer& branch,
                 const JoinOptions& options);

  /// The result of a classifier: `logits` = head(features, classes); of no classes `features`, what the head would see.
  void classify(ir::Value features, std::int64_t classes,
                const std::function<ir::Value(ir::Value features, std::int64_t classes)>& head);

  /// When all is built: the joins are told how many they are, and running statistics are handed out.
  void finish();

 private:
  struct Count {
    std::int64_t blocks = 0, joins = 0;
  };
  ir::Parameter described(std::string_view leaf, ir::Shape shape, ir::Init init, std::string_view role) const;

  struct PatchWeights {
    ir::Value weight, bias;  // [width, C, p, p], [width]
  };

  PatchWeights patch_weights(std::int64_t width, std::int64_t channels, std::int64_t patch,
                             std::string_view role, bool has_bias);
  ir::Value activate(std::string_view act_layer, ir::Value x);
  ir::Value drop(ir::Opcode code, std::string_view name, ir::Value x, double rate);
  ir::Value state(std::string_view name, ir::StateKind kind);
  ir::Value training();

  ir::Builder& b_;
  // Where the layer being built stands.
  std::string scope_, site_;
  std::int32_t block_ = -1, layer_ = 0;
  bool in_head_ = false;
  std::int64_t stage_ = 0;
  std::map<std::string, Count, std::less<>> counts_;  // by scope
  std::vector<ir::Argument> updates_;                 // results of `forward` that come behind all others
};

/// The rate of block `index`: linear from 0 at the first to `last` at the last of `depth` (stochastic depth's
/// linear rule, Huang et al., ECCV 2016, section 3).
double drop_path_rate(double last, std::int64_t index, std::int64_t depth);

/// The option `depths`: blocks of each stage, whole numbers. UserError unless there are 1 to `most` stages.
std::vector<std::int64_t> stage_depths(const ir::Attributes& options, std::size_t most);

/// UserError where the last of the halvings that make one pixel of stride x stride would find one pixel. `other_stem`: an
/// option that halves less, "" if there is none.
void check_image_side(std::int64_t image, std::int64_t stride, std::string_view other_stem);

/// A module of the function `forward`, which `build` fills.
ir::Module forward_module(std::string_view name, const std::function<void(Layers&)>& build);

}  // namespace rewire::models
