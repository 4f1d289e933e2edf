#include "tests/cli/fixture.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>
#include <stdexcept>

#include "runtime/io/npy.h"
#include "tests/fake_cuda/use.h"
#include "tests/support/catch.h"

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
  static const std::regex progress(
      "rewire: info: (\\d+ of \\d+ kernels compiled|compiled \\d+ kernels?) in [^\n]*\n");
  return std::regex_replace(err, progress, "");
}

void check_refusal(const Outcome& outcome, const std::string& message) {
  CHECK(outcome.err == "rewire: " + message + "\n");
  CHECK(outcome.code == 2);
  CHECK(outcome.out.empty());
}

Outcome on_fake(const Words& arguments, Words more) {
  for (const auto& [name, value] : fake_cuda::environment()) more.push_back(name + "=" + value);
  return RunningCommand(arguments, more).wait();
}

bool is_built(const std::string& plugin) {
  return std::filesystem::exists(REWIRE_PLUGIN_FOLDER "/" + plugin.substr(0, plugin.find(':')) + ".so");
}

std::vector<Json> metrics(const std::string& run) {
  std::vector<Json> lines;
  std::istringstream text(read_text(run + "/metrics.jsonl"));
  for (std::string line; std::getline(text, line);) lines.push_back(Json::parse(line));
  return lines;
}

std::size_t checkpoints(const std::string& run) {
  const std::string folder = run + "/checkpoints";
  if (!std::filesystem::exists(folder)) return 0;
  return static_cast<std::size_t>(
      std::count_if(std::filesystem::directory_iterator(folder), {},
                    [](const std::filesystem::directory_entry& entry) { return entry.is_directory(); }));
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

std::vector<float> floats_of(const std::string& npy_path) {
  const runtime::HostTensor tensor = runtime::read_npy(npy_path);
  return {tensor.as<float>().begin(), tensor.as<float>().end()};
}

double norm(const std::vector<double>& values) {
  double square = 0;
  for (const double value : values) square += value * value;
  return std::sqrt(square);
}

double norm(const runtime::HostTensor& tensor) {
  return norm(runtime::to_double(tensor).data);
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
