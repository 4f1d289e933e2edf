// A pyramid vision transformer, plain and with one strategy of each kind, against PyTorch in float64: streams of
// several widths, attention with fewer keys than queries.
#include <string>

#include "tests/plugins/backends.h"
#include "tests/support/catch.h"

namespace rewire::parity {
namespace {

Golden pyramid() {
  const std::string model = GENERATE(as<std::string>{}, "two", "three");
  const std::string option =
      GENERATE(as<std::string>{}, "plain", "decay", "decay_learnable", "orthogonal", "orthogonal_global",
               "augment", "augment_dense", "skipless", "layerscale");
  return read_golden("pvt_" + model + "_" + option);
}

TEST_CASE("A pyramid of stages computes and learns as in PyTorch, with every kind of strategy") {
  const Golden golden = pyramid();
  check_gradients(golden, rewriting_evaluator(golden), kExact);
  for (const auto& [run, options] : golden.runs) check_run(golden, run, rewriting_evaluator(golden), kExact);
}

TEST_CASE("A compiled pyramid of stages stays within the bounds of f32") {
  const Golden golden = pyramid();
  check_gradients(golden, compiled(golden), kSingle);
  for (const auto& [run, options] : golden.runs) check_run(golden, run, compiled(golden), kSingle);
}

}  // namespace
}  // namespace rewire::parity
