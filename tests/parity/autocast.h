// Mixed precision against PyTorch's bf16 autocast, each by its distance from float64.
#pragma once

#include "tests/parity/parity.h"

namespace rewire::parity {

/// The error may be this much of autocast's.
inline constexpr double kAutocastFactor = 1.2;

/// Whether autocast.json, beside the folder of goldens, has it.
bool has_autocast(const std::string& name);

/// The golden's model with its products in bf16, on `engine`, over the batches of
/// tests/reference/autocast.json (their makers say which): of the logits, the loss, each weight's gradient
/// and all gradients together, the error sqrt(sum |x - y|^2 / sum |y|^2) against the evaluator in float64, at
/// most kAutocastFactor times what autocast has. `rewrite` is applied to the model first; empty for plain
/// joins. `make_engine`: empty for the CPU's.
void check_against_autocast(
    const std::string& name, const std::function<void(ir::Module&)>& rewrite,
    const std::function<std::unique_ptr<runtime::Engine>(const ir::Module&)>& make_engine = {});

}  // namespace rewire::parity
