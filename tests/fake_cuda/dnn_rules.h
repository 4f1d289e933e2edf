// What cuDNN's descriptors are called, and which attributes each takes.
#pragma once

#include <cstddef>
#include <vector>

namespace rewire::fake_cuda::dnn {

enum Status : int {
  kGood = 0,
  kUninitialized = 1001,
  kBadParameter = 2000,
  kNotFinal = 2004,
  kWrongType = 2010,
  kUnsupported = 3000,
  kUnsupportedGraph = 3001,
  kFailed = 5000
};
enum Kind : int {
  kPointwise = 0,
  kConvolution = 1,
  kEngine = 2,
  kConfig = 3,
  kHeuristic = 4,
  kPlan = 5,
  kKnob = 7,
  kConvolutionForward = 10,
  kConvolutionFilter = 11,
  kConvolutionData = 12,
  kPointwiseOperation = 13,
  kGraph = 15,
  kPack = 16,
  kTensor = 17,
  kMatmul = 18,
  kMatmulOperation = 19,
  kReduction = 21,
  kReductionOperation = 22,
  kReshapeOperation = 31
};
enum Type : int { kHandleType = 0, kInt64 = 3, kPointer = 6, kNoteType = 11, kDescriptorType = 15 };

/// An attribute that may be set: of which kind of descriptor, its type, how often, and what kind it names. What cuDNN
/// would take a default for must be set here.
struct Rule {
  int kind, attribute, type;
  bool is_required;
  int most;
  std::vector<int> names = {};
};
const std::vector<Rule>& rules();

bool is_kind(int kind);
std::size_t attribute_bytes(int type);

}  // namespace rewire::fake_cuda::dnn
