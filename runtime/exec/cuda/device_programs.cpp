#include "runtime/exec/cuda/device_programs.h"

#include <algorithm>

#include "ir/passes/mixed_precision.h"
#include "runtime/exec/cuda/engine.h"
#include "runtime/exec/cuda/lowering.h"

namespace rewire::runtime {

DevicePrograms::DevicePrograms(const ir::Module& module, const std::vector<std::string>& functions,
                               const ChoiceRecord& choices)
    : libraries(ir::allows_tf32(module), choices) {
  const codegen::cuda::DeviceTarget target = target_of(context.facts(), choices);
  const auto on_attention = [this](const codegen::DeviceAttentionShape& shape) {
    if (std::ranges::find(attention, shape) == attention.end()) attention.push_back(shape);
  };
  const auto on_epilogue = [this](const codegen::ProductEpilogue& epilogue, bool taken) {
    std::vector<codegen::ProductEpilogue>& list = taken ? epilogues : refused_epilogues;
    if (std::ranges::find(list, epilogue) == list.end()) list.push_back(epilogue);
  };
  for (const ir::Function& function : module.functions) {
    if (std::ranges::find(functions, function.name) == functions.end()) continue;
    programs.push_back(
        lower_for_device(module, function, {target, /*fuse=*/true, on_attention, on_epilogue}, libraries));
  }
}

}  // namespace rewire::runtime
