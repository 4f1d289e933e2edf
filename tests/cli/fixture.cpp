#include "tests/cli/fixture.h"

#include <cmath>
#include <regex>
#include <stdexcept>

#include "runtime/io/npy.h"

namespace rewire::test {
namespace {

runtime::HostTensor classes(const ir::Shape& shape) {
  runtime::HostTensor tensor({ir::DType::i64, shape});
  std::int64_t k = 2;
  for (std::int64_t& value : tensor.as<std::int64_t>()) value = (k += 3) % 10;
  return tensor;
}

}  // namespace

std::string without_progress(const std::string& err) {
  static const std::regex progress("rewire: info: \\d+ of \\d+ kernels compiled in [^\n]*\n");
  return std::regex_replace(err, progress, "");
}

runtime::HostTensor floats(const ir::Shape& shape) {
  runtime::HostTensor tensor({ir::DType::f32, shape});
  int k = 0;
  for (float& value : tensor.as<float>()) value = std::sin(1.7F * static_cast<float>(k++));
  return tensor;
}

Workplace::Workplace() {
  runtime::write_npy(file("x.npy"), floats({kBatch, 1, 28, 28}));
  runtime::write_npy(file("xs.npy"), floats({kSteps, kBatch, 1, 28, 28}));
  runtime::write_npy(file("y.npy"), classes({kBatch}));
  runtime::write_npy(file("ys.npy"), classes({kSteps, kBatch}));
  const Outcome outcome = init(kModel);
  if (outcome.code != 0) throw std::runtime_error("rewire init: " + outcome.err);
}

Outcome Workplace::init(const Words& model, const std::string& output) const {
  return rewire_command(Words{"init"} + model + Words{"--output", file(output)});
}

Outcome Workplace::run(const Words& model, const std::string& input, const std::string& output,
                       const std::string& weights) const {
  return rewire_command(Words{"run"} + model +
                        Words{"--weights", file(weights), "--input", file(input), "--output", file(output)});
}

Outcome Workplace::grad(const Words& model, const Words& more) const {
  return rewire_command(Words{"grad"} + model +
                        Words{"--weights", file("w.safetensors"), "--input", file("x.npy"), "--labels",
                              file("y.npy"), "--output", file("g.safetensors")} +
                        more);
}

Outcome Workplace::step(const Words& model, const Words& more) const {
  return rewire_command(Words{"step"} + model +
                        Words{"--weights", file("w.safetensors"), "--labels", file("ys.npy"), "--steps", "2",
                              "--output", file("w2.safetensors")} +
                        more);
}

}  // namespace rewire::test
