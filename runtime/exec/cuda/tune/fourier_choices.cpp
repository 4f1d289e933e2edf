#include "runtime/exec/cuda/tune/fourier_choices.h"

#include <fmt/format.h>

#include <algorithm>

#include "codegen/library/cufft.h"
#include "ir/builder.h"
#include "ir/opcodes.h"
#include "ir/passes/pass.h"
#include "runtime/device/cuda/device.h"
#include "runtime/exec/cuda/libraries.h"

namespace rewire::runtime {
namespace {

using ir::FourierRows;
using ir::FourierWay;
using ir::Opcode;

bool may_transform(const ir::Function& function) {
  return std::ranges::any_of(function.body, [](const ir::Op& op) {
    return op.code == Opcode::rfft || op.code == Opcode::irfft || op.code == Opcode::circulant_matmul ||
           op.code == Opcode::circulant_matmul_grad;
  });
}

/// Returns the transforms of these functions in order, without duplicates, as the passes before leave them.
std::vector<FourierRows> transforms_of(const ir::Module& module, const std::vector<std::string>& functions) {
  std::vector<FourierRows> transforms;
  for (const ir::Function& function : module.functions) {
    if (std::ranges::find(functions, function.name) == functions.end() || !may_transform(function)) continue;
    ir::Module single = module;
    single.functions = {function};
    ir::PassContext context;
    context.fourier = [&](const FourierRows& rows) {
      if (std::ranges::find(transforms, rows) == transforms.end()) transforms.push_back(rows);
      return FourierWay::op;
    };
    ir::run_pipeline(single, context);
  }
  return transforms;
}

/// Returns a module in which a kernel writes the transform's input and another reads its result. In a
/// network too, these kernels handle the transform's layout.
ir::Module trial_of(const FourierRows& rows) {
  ir::Module module;
  module.name = "trial";
  ir::Function& function = module.functions.emplace_back();
  function.name = "trial";
  ir::Builder b(module, function);
  const ir::Shape real = {rows.rows, rows.length}, spectrum = {rows.rows, 2, rows.length / 2 + 1};
  const ir::Value source = b.argument("source", {rows.dtype, rows.inverse ? spectrum : real});
  const ir::Value x = b.mul(source, source);
  const ir::Value y =
      rows.inverse ? b.emit(Opcode::irfft, {x}, {{"length", rows.length}}) : b.emit(Opcode::rfft, {x});
  b.result("y", b.mul(y, y));
  return module;
}

/// Returns the candidates, the cost model's first; none if only the host can compute the transform.
std::vector<std::string> candidates_of(const FourierRows& rows, CudaLibraries& libraries) {
  std::vector<std::string> candidates;
  if (ir::has_fourier_product(rows)) candidates.emplace_back(kConstantsAnswer);
  const bool has_library = !codegen::cufft_missing() && libraries.fft(rows) != nullptr;
  if (has_library) candidates.push_back(std::string(kCufftAnswer) + codegen::cufft_version());
  return candidates;
}

}  // namespace

void choose_transforms(const ir::Module& module, const std::vector<std::string>& functions, Tuner& tuner,
                       const MakeTrial& make_trial) {
  const std::vector<FourierRows> transforms = transforms_of(module, functions);
  if (transforms.empty()) return;
  const cuda::Context context;
  CudaLibraries libraries(/*tf32=*/false);
  const double before = tuner.seconds();
  for (const FourierRows& rows : transforms) {
    const std::vector<std::string> candidates = candidates_of(rows, libraries);
    if (candidates.empty()) continue;
    tuner.choose(choice_by_trials(
        fourier_key(rows), candidates, [rows] { return trial_of(rows); }, make_trial,
        kFourierSeconds - (tuner.seconds() - before)));
  }
}

}  // namespace rewire::runtime
