// Diagnostics of a residual network during training, as a program. The quantities come from Oh et al.
// (2025), Revisiting Residual Connections; Zhang et al. (2025), Residual Connections Harm Generative
// Representation Learning; Tang et al. (2021), Augmented Shortcuts for Vision Transformers. A join J
// ("blocks.3.attn") has the stream x before it (after a projection, if there is one), the branch's output f,
// whatever plugins make of both, and f_par = x <x, f> / |x|^2. A block B ("blocks.3") has tokens z_1 … z_n
// of the image at its exit, without class token and registers:
//
//   streams     J.stream |x|^2, J.branch |f|^2, J.parallel |f_par|^2, J.perpendicular |f - f_par|^2,
//               J.cosine <x, f> / (|x| |f|): means over samples and positions; 0 if x or f is 0
//   rank        B.effective_rank, features.effective_rank: see below
//   diversity   B.diversity r(Z) = |Z - 1 z^T| with z the mean token and |M| = sqrt(|M|_1 |M|_inf), the
//               largest sum of magnitudes in a column and in a row; B.relative_diversity r(Z) / |Z|: means
//               over samples
//   similarity  B.similarity: the mean cosine of two different tokens
//   entropy     B.attention_entropy: -sum p ln p of a row of attention, mean over heads, queries and samples
//   gradients   B.gradient_norm, gradient_norm: gradient of the loss by the block's weights, and by all
//   parameters  the one-number weights that plugins have added to joins, under their names
//
// The loss is the training loss, with the terms of plugins. Nothing is dropped, and batch norms use their
// running statistics. After these results come plugins' reports, "report.<join>.<plugin>.<name>".
//
// Results are f32: scalars, or rows [batch, width] that the host finishes (diagnostic.h). An effective rank
// takes a sample's class token, or the mean over its tokens or positions; for `features` the input of the
// last product before `logits`.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ir/module.h"
#include "ir/registry.h"

namespace rewire::programs {

/// The diagnostic that the runtime measures (conditioning.h); it is not part of the program.
inline constexpr std::string_view kConditioning = "conditioning";

/// Returns all diagnostics (diagnostic.h) but conditioning, in the order above, joined by '+'.
std::string default_diagnostics();
/// Splits "streams+rank". Throws UserError, beginning with `key`, on an empty, unknown or repeated name.
std::vector<std::string> parse_diagnostics(std::string_view text, std::string_view key);

struct DiagnoseOptions {
  ir::Selection objective{"supervised"};
  std::vector<std::string> what;  // as parse_diagnostics() returns it
};

/// Adds `diagnose`(inputs), without parameters or updates. It has no result if the network has none of the
/// requested quantities. Throws UserError if the network has no residual joins.
void add_diagnose_program(ir::Module& module, const DiagnoseOptions& options);

}  // namespace rewire::programs
