#include "runtime/exec/cuda_kernels.h"

#include <fmt/format.h>

#include "codegen/cuda/nvrtc.h"
#include "runtime/log.h"

namespace rewire::runtime {

CudaKernels::CudaKernels(const codegen::cuda::DeviceTarget& target, const std::string& cache_directory)
    : target_(target),
      identity_(fmt::format("{}, prelude {}\n", codegen::cuda::cubin_identity(target.arch),
                            codegen::hash_text(codegen::cuda::prelude()))) {
  if (!cache_directory.empty()) cache_.emplace(cache_directory);
}

std::vector<CudaKernel> CudaKernels::load(std::span<const codegen::tile::Kernel* const> kernels) {
  std::vector<CudaKernel> ready;
  for (const codegen::tile::Kernel* kernel : kernels) {
    const std::string structure = codegen::tile::structure(*kernel);
    auto known = loaded_.find(structure);
    if (known == loaded_.end()) known = loaded_.emplace(structure, make(*kernel)).first;
    ready.push_back(known->second.kernel);
  }
  statistics_.kernels += static_cast<int>(kernels.size());
  statistics_.unique = static_cast<int>(loaded_.size());
  return ready;
}

CudaKernels::Loaded CudaKernels::make(const codegen::tile::Kernel& kernel) {
  const codegen::cuda::KernelSource source = codegen::cuda::emit(kernel, kernel.name, target_);
  cuda::Module module(machine_code(kernel.name, source.text), fmt::format("of '{}'", kernel.name));
  void* const function = module.function(source.symbol, source.launch.shared_bytes);
  return {std::move(module),
          {kernel.name, function, {source.launch.blocks, source.launch.threads, source.launch.shared_bytes}}};
}

std::string CudaKernels::machine_code(const std::string& name, const std::string& text) {
  const std::string key = identity_ + text;
  if (cache_) {
    std::string why;
    if (auto found = cache_->load(key, &why)) {
      ++statistics_.cache_hits;
      return std::move(found->object);
    }
    write_log(LogLevel::debug,
              fmt::format("kernel '{}' is compiled: {} in the cache ({})", name, why, cache_->path(key)));
  }
  std::string cubin =
      codegen::cuda::compile_cubin(std::string(codegen::cuda::prelude()) + text, target_.arch).cubin;
  if (cache_) cache_->store(key, {cubin, 0}, text, "cu");
  return cubin;
}

}  // namespace rewire::runtime
