// What a residual network is while it learns, as a program: the quantities of Oh et al. (2025), Revisiting Residual
// Connections; Zhang et al. (2025), Residual Connections Harm Generative Representation Learning; Tang et al. (2021),
// Augmented Shortcuts for Vision Transformers. Of a join J ("blocks.3.attn"), with x the stream before it (behind a
// projection, where there is one), f what the branch gave, whatever plugins make of both, and f_par = x <x, f> / |x|^2;
// of a block B ("blocks.3") with tokens z_1 … z_n of the image, class token and registers left out, at its exit:
//
//   streams     J.stream |x|^2, J.branch |f|^2, J.parallel |f_par|^2, J.perpendicular |f - f_par|^2,
//               J.cosine <x, f> / (|x| |f|): means over samples and positions; 0 where x or f is
//   rank        B.effective_rank, features.effective_rank: below
//   diversity   B.diversity r(Z) = |Z - 1 z^T| with z the mean token and |M| = sqrt(|M|_1 |M|_inf), the largest sum of
//               sizes in a column and in a row; B.relative_diversity r(Z) / |Z|: means over samples
//   similarity  B.similarity: the mean cosine of two different tokens
//   entropy     B.attention_entropy: the mean over heads, queries and samples of -sum p ln p of a row of attention
//   gradients   B.gradient_norm, gradient_norm: of the loss by the weights of the block, and by all
//   parameters  the weights of one number that plugins have added to joins, under their names
//
// The loss is that of training, with what plugins add to it; nothing is dropped, and batch norms take their statistics.
// What plugins report stands behind it, "report.<join>.<plugin>.<name>".
//
// Results are f32: scalars, or rows [batch, width] that the host finishes (diagnostic.h): an effective rank is of a sample's class
// token, or the mean over its tokens or positions; of what the last product before `logits` reads.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ir/module.h"
#include "ir/registry.h"

namespace rewire::programs {

/// What conditioning.h of the runtime measures; it is no part of the program.
inline constexpr std::string_view kConditioning = "conditioning";

/// All diagnostics (diagnostic.h) but conditioning, in the order above; joined by '+'.
std::string default_diagnostics();
/// "streams+rank" as a list. UserError that begins with `key`: nothing, an unknown name, one that stands twice.
std::vector<std::string> parse_diagnostics(std::string_view text, std::string_view key);

struct DiagnoseOptions {
  ir::Selection objective{"supervised"};
  std::vector<std::string> what;  // as parse_diagnostics() gives it
};

/// Adds `diagnose`(inputs): no parameter and no update; no result where the network has nothing of what is asked for.
/// UserError where it has no residual joins.
void add_diagnose_program(ir::Module& module, const DiagnoseOptions& options);

}  // namespace rewire::programs
