// A classifier small enough to follow by hand, and the few steps that tests of its programs share.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "ir/evaluate.h"
#include "ir/module.h"

namespace rewire::runtime {

/// forward(image [batch, 1, 1, inputs]) -> logits = image W^T + b, with trainable "w" [classes, inputs]
/// (decays) and "b" [classes] (does not); with `dropout`, the image is dropped at that rate on stream "drop".
ir::Module linear_model(std::int64_t batch, std::int64_t inputs, std::int64_t classes, double dropout = 0);

/// forward returns its image [batch, classes] as logits; no parameter.
ir::Module identity_model(std::int64_t batch, std::int64_t classes);

/// Zero or one state as each parameter's Init says (zeros and ones only), then `values` on top.
ir::EvalState start(const ir::Module& module, const std::map<std::string, std::vector<double>>& values);

/// Evaluates a function on flat argument values; results by name.
std::map<std::string, std::vector<double>> call(const ir::Module& module, const std::string& function,
                                                const std::vector<std::vector<double>>& arguments,
                                                ir::EvalState& state);

/// n numbers of no pattern in [-1, 1], the same for one k.
std::vector<double> numbers(std::size_t n, int k);

}  // namespace rewire::runtime
