// The layers of all models, with timm's names and layouts. A parameter is named by its layer's place, which
// Builder::Scope gives: "weight" of the layer "fc1" in the scope "blocks.3.mlp" is blocks.3.mlp.fc1.weight.
// Every sum with the stream is a `residual` op, which a plugin can rewrite.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "ir/builder.h"

namespace rewire::models {

/// timm's trunc_normal_: standard deviation .02, cut at +-2 in absolute terms.
inline const ir::Init kTruncNormal{ir::InitKind::trunc_normal, 0.02, 2.0};

/// Appends the ops of y = f(x) and returns y.
using Layer = std::function<ir::Value(ir::Value x)>;

/// The initial values of a linear layer. timm: weight by LinearOptions::init, bias 0. pytorch: as nn.Linear,
/// both uniform within 1/sqrt(in). xavier: weight uniform of variance 2 / (in + out), bias 0. xavier_weight:
/// weight as xavier, bias as pytorch.
enum class LinearInit : std::uint8_t { timm, pytorch, xavier, xavier_weight };

struct LinearOptions {
  std::string_view role = "";  // the parameters' role; "": the layer's name
  ir::Init init = kTruncNormal;
  LinearInit start = LinearInit::timm;
  bool bias = true;
};

struct NormOptions {
  double epsilon = 1e-6;
  bool affine = true;  // false: no `weight` and `bias`
  bool bias = true;    // false: no `bias`
};

/// The initial weights of a convolution. standard is PyTorch's Conv2d: weight and bias uniform within
/// 1 / sqrt(fan in). All others have biases of 0. kaiming (He et al., ICCV 2015): normal of variance
/// 2 / fan out. xavier (Glorot and Bengio, AISTATS 2010): uniform of variance 2 / (fan in + fan out).
/// orthogonal (Saxe et al., ICLR 2014): orthonormal rows or columns. trunc_normal: timm's, of deviation .02.
enum class ConvInit : std::uint8_t { standard, kaiming, xavier, orthogonal, trunc_normal };

struct ConvOptions {
  std::int64_t kernel = 3, stride = 1, groups = 1;
  std::int64_t padding = -1;  // on each side; -1: kernel / 2
  bool bias = true;
  bool trains = true;  // false: no optimizer changes the weight
  ConvInit init = ConvInit::standard;
  std::string_view role = "";  // the parameters' role; "": the layer's name
};

struct JoinOptions {
  std::string_view last;  // the last layer of the branch: "proj"
  double drop_path = 0;
  std::int64_t heads = 0;  // attention heads; 0: no attention
  int batch_axis = 0, token_axis = 1, channel_axis = 2;
  /// True if the site is part of the branch's names: blocks.3.mlp.fc1 instead of blocks.3.fc1.
  bool branch_in_site = true;
  /// Computes the stream from the block's x and the branch's input, if the shortcut is a projection.
  std::function<ir::Value(ir::Value x, ir::Value input)> shortcut = {};
  Layer scale = {};  // scales the branch before drop path, in the block's scope; empty: none
};

/// Builds a function layer by layer.
class Layers {
 public:
  explicit Layers(ir::Builder& builder) : b_(builder) {}
  ir::Builder& builder() { return b_; }

  /// Declares "<location>.<leaf>" (`leaf` alone outside any scope) and reads it. Matrices decay. As in timm,
  /// vectors, class tokens, registers, mask tokens and position embeddings do not.
  ir::Value parameter(std::string_view leaf, ir::Shape shape, ir::Init init, std::string_view role);
  /// Declares and reads a parameter that decays whatever its role.
  ir::Value decaying(std::string_view leaf, ir::Shape shape, ir::Init init, std::string_view role);

  /// Declares and reads a parameter that no optimizer changes.
  ir::Value frozen(std::string_view leaf, ir::Shape shape, ir::Init init, std::string_view role);

  // Layers that have a name. x is [..., in].
  /// Returns [..., out]. Parameters: `weight` [out, in] and, if options.bias, `bias` [out].
  ir::Value linear(std::string_view name, ir::Value x, std::int64_t out, const LinearOptions& options = {});
  /// Normalises over the last axis.
  ir::Value layer_norm(std::string_view name, ir::Value x, const NormOptions& options = {});
  /// Divides by the root mean square over the last axis, and multiplies by `weight`.
  ir::Value rms_norm(std::string_view name, ir::Value x, double epsilon);
  /// Multiplies x by `gamma` [channels], which starts as `init` everywhere.
  ir::Value layer_scale(std::string_view name, ir::Value x, double init);
  /// Maps [B, C, H, W] to [B, outputs, …] with `weight` [outputs, C / groups, kernel, kernel] and, if
  /// options.bias, `bias`.
  ir::Value conv(std::string_view name, ir::Value maps, std::int64_t outputs, const ConvOptions& options);
  /// Normalises over all axes but the channels of maps [B, C, H, W], with PyTorch's epsilon and momentum
  /// (Ioffe and Szegedy, ICML 2015). Training steps update the statistics `running_mean` and `running_var`.
  /// `weight` starts as gamma, `bias` as 0.
  ir::Value batch_norm(std::string_view name, ir::Value maps, double gamma = 1);
  /// Normalises maps [B, C, H, W] by statistics and weights that never change (epsilon 1e-5), in training too:
  /// `weight`, `bias`, `running_mean` and `running_var` are frozen.
  ir::Value frozen_batch_norm(std::string_view name, ir::Value maps);
  /// Returns max(x, 0).
  ir::Value relu(std::string_view name, ir::Value x);
  /// Takes the maximum over windows of `kernel` pixels a side.
  ir::Value max_pool(std::string_view name, ir::Value maps, std::int64_t kernel, std::int64_t stride,
                     std::int64_t padding);
  /// Takes the mean of each map: [B, C, H, W] -> [B, C].
  ir::Value global_average(ir::Value maps);
  /// Drops elements by a random stream named after the layer's place. At rate 0 it returns x and adds no
  /// state.
  ir::Value dropout(std::string_view name, ir::Value x, double rate);
  /// Makes a row of each patch, in the element order of a convolution's weight: [B, C, H, W] -> [B, H/p W/p,
  /// C p p].
  ir::Value patch_rows(ir::Value maps, std::int64_t patch);
  /// Embeds patches: [B, C, H, W] -> [B, H/p W/p, width]. This is a convolution of extent and stride p, as
  /// one linear layer of each patch, named `proj`.
  ir::Value patch_embed(std::string_view name, ir::Value image, std::int64_t width, std::int64_t patch,
                        bool bias = true);
  /// Embeds patches as patch_embed() does, with parameters directly under `name` and of the given role.
  ir::Value patches(std::string_view name, ir::Value maps, std::int64_t width, std::int64_t patch,
                    std::string_view role, bool bias = true);
  /// Embeds patches as patches() does, from maps that are tokens [B, rows columns, C], row by row.
  ir::Value token_patches(std::string_view name, ir::Value tokens, std::int64_t rows, std::int64_t columns,
                          std::int64_t patch, std::int64_t width, std::string_view role);

  /// Returns softmax(q k^T / sqrt(width) + key_bias) v, of heads [B, H, tokens, width]. `key_bias` is
  /// [B or 1, H or 1, 1, keys], or invalid for none.
  ir::Value attend(ir::Value query, ir::Value key, ir::Value value, ir::Value key_bias = {});

  // Branches of a block, built in the current scope. x is [B, N, D].
  /// Builds the layers qkv, proj and proj_drop. `key_bias` [B or 1, 1, 1, N], if valid, is added to the logits.
  ir::Value attention(ir::Value x, std::int64_t heads, double dropout, bool qkv_bias = true,
                      LinearInit start = LinearInit::timm, ir::Value key_bias = {});
  /// Builds the layers fc1, act, drop1, fc2 and drop2. `act_layer` is timm's: gelu (by erf), gelu_tanh or
  /// quick_gelu, which is x sigmoid(1.702 x).
  ir::Value mlp(ir::Value x, std::int64_t hidden, std::string_view act_layer, double dropout,
                LinearInit start = LinearInit::timm);

  /// Returns act_layer(x).
  ir::Value activate(std::string_view act_layer, ir::Value x);

  /// Begins a layer, for learning rates that differ by layer. Each block is one layer; whatever precedes the
  /// first block is layer 0. Ops after a block belong to its layer until this is called.
  void begin_layer() {
    ++layer_;
    in_head_ = false;
  }
  /// Begins the head's layer, once however often it is called.
  void begin_head() {
    if (!in_head_) begin_layer();
    in_head_ = true;
  }

  /// Names ops and parameters built during its lifetime, "blocks.3", and records the block in its parameters
  /// and joins. Blocks are numbered in building order within a plugin's scope: encoder or decoder. `stage`
  /// is the network's stage; 0 in a network without stages.
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
  /// Builds x + drop_path(scale(branch(input(x)))) in a block. Branch and join are in a scope named by the
  /// site (attn, mlp or conv); the input's layers are outside of it.
  ir::Value join(std::string_view site, ir::Value x, const Layer& input, const Layer& branch,
                 const JoinOptions& options);

  /// Adds the result of a classifier: `logits` = head(features, classes), or `features` if `classes` is 0.
  void classify(ir::Value features, std::int64_t classes,
                const std::function<ir::Value(ir::Value features, std::int64_t classes)>& head);

  /// Finishes the function: sets the joins' counts and adds the updates of running statistics as results.
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
  ir::Value drop(ir::Opcode code, std::string_view name, ir::Value x, double rate);
  ir::Value state(std::string_view name, ir::StateKind kind);
  ir::Value training();

  ir::Builder& b_;
  // The place of the layer that is being built.
  std::string scope_, site_;
  std::int32_t block_ = -1, layer_ = 0;
  bool in_head_ = false;
  std::int64_t stage_ = 0;
  std::map<std::string, Count, std::less<>> counts_;  // by scope
  std::vector<ir::Argument> updates_;                 // results of `forward`, added after all others
};

/// Returns the bias [batch, 1, 1, keys] of logits that hides the keys with a 0 in `valid` f32 [batch, keys].
/// If a sample has only zeros, none is hidden.
ir::Value bias_of_keys(ir::Builder& builder, ir::Value valid);

/// Returns the drop-path rate of block `index`: linear from 0 at the first of `depth` blocks to `last` at
/// the last one (stochastic depth's linear rule, Huang et al., ECCV 2016, section 3).
double drop_path_rate(double last, std::int64_t index, std::int64_t depth);

/// Returns the option `depths`: the blocks of each stage. Throws UserError unless they are whole numbers for
/// 1 to `most` stages.
std::vector<std::int64_t> stage_depths(const ir::Attributes& options, std::size_t most);

/// Throws UserError if the image is so small that the last halving of stride x stride would see one pixel.
/// `other_stem` is an option that halves less; "" if there is none.
void check_image_side(std::int64_t image, std::int64_t stride, std::string_view other_stem);

/// Builds a module with the function `forward`, which `build` fills.
ir::Module forward_module(std::string_view name, const std::function<void(Layers&)>& build);

}  // namespace rewire::models
