// The ops of a network as steps of PyTorch: for each op that matters a piece of Python with open places. What
// PyTorch does by itself (broadcasting, a bias within a layer) has no step.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ir/module.h"
#include "runtime/export/export_function.h"

namespace rewire::runtime {

/// The binding strength of an expression in Python; parts that bind less are put in parentheses.
enum TorchBinding : int { kConditional, kComparison, kAddition, kProduct, kUnary, kPower, kPrimary };

/// A number or a name in the source in which two instances of a class may differ.
struct TorchLiteral {
  std::string text;
  std::string hint;  // the name of a constructor's argument for it
};

/// Python with open places. A place is written kMark, a letter, a number, kEnd:
///   v  an operand, by index; after the number ':' and the binding strength that it must have
///   h  a literal, by index
///   n  a name, by index: the path of a weight or a layer from the network's root
///   b  the batch's extent
///   r  a floating tensor that is at hand, for its dtype and its device
struct TorchCode {
  std::string text;
  std::vector<TorchLiteral> literals;
  std::vector<std::string> names;
};
inline constexpr char kMark = '\1', kEnd = '\2';

/// Replaces each open place of `text` by what `replacement(letter, body)` returns; body is "3:6" of "v3:6".
template <class Replacement>
std::string replace_marks(std::string_view text, Replacement replacement) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    if (text[at] != kMark) {
      out += text[at++];
      continue;
    }
    const std::size_t end = text.find(kEnd, at);
    out += replacement(text[at + 1], text.substr(at + 2, end - at - 2));
    at = end + 1;
  }
  return out;
}

/// A part of a tensor: [begin, end) of an axis, which is dropped if it is an index.
struct TorchCut {
  ir::Value source;
  std::size_t axis = 0;
  std::int64_t begin = 0, end = 0;
  bool is_index = false;
};

struct TorchStep {
  TorchCode code;
  int binding = kPrimary;
  std::vector<ir::Value> operands, results;
  std::string place;               // the path of the module that it belongs to, which need not have weights
  std::string plugin;              // the plugin that added it; "" for the network's own
  std::string join;                // the join at which the plugin added it
  std::vector<std::string> hints;  // names of the results, in order
  bool is_free = false;            // costs nothing: a weight or a literal, written where it is used
  bool is_random = false;          // two of it differ
  std::optional<TorchCut> cut;     // its one result is this part
};

/// A layer of PyTorch: nn.Linear(384, 10).
struct TorchLayer {
  TorchCode constructor;
  std::vector<std::string> weights;  // its weights' names
};

struct TorchSteps {
  std::vector<TorchStep> steps;    // in order
  std::vector<ir::Value> results;  // of the function
  std::map<std::string, TorchLayer> layers;
  std::map<std::string, ir::TensorType>
      tables;  // constant tensors that are too long for an expression, by name
  std::map<std::string, std::vector<double>> table_values;
  std::vector<std::string> helpers;  // the functions that the steps call, of torch_helpers.h
};

/// `plugins`: the names of the plugins, by which the places of their ops end. Throws UserError that lists the
/// ops that have no counterpart.
TorchSteps torch_steps(const ExportFunction& forward, const std::vector<std::string>& plugins);

}  // namespace rewire::runtime
