#include "tests/fake_cuda/kernels.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "codegen/cuda/emit.h"

namespace rewire::fake_cuda {
namespace {

constexpr std::string_view kMagic = "rewire-fake-cubin\n";
constexpr std::string_view kKernel = "extern \"C\" __global__";
constexpr std::string_view kMember = "_member(";  // the function of a table's kernel that stands before it
constexpr std::string_view kEnd = "\n}\n";

bool is_word(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
}

void replace_all(std::string& text, const std::string& from, const std::string& to) {
  for (std::size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
}

/// A kernel's text between two ends: its name is the word before the parameters' parenthesis.
std::unique_ptr<Kernel> parse_kernel(std::string_view text) {
  const std::size_t bounds = text.find("__launch_bounds__(");
  const std::size_t after = bounds == std::string_view::npos ? 0 : text.find(')', bounds);
  const std::size_t open = text.find('(', after);
  const std::size_t close = text.find(')', open);
  if (open == std::string_view::npos || close == std::string_view::npos) return nullptr;
  std::size_t begin = open;
  while (begin > 0 && is_word(text[begin - 1])) --begin;
  auto kernel = std::make_unique<Kernel>();
  kernel->symbol = text.substr(begin, open - begin);
  kernel->unique = fmt::format("{}_{:016x}", kernel->symbol, cuda_shim::hash_text(text));
  kernel->text = fmt::format("{}{}{}", text.substr(0, begin), kernel->unique, text.substr(open));
  replace_all(kernel->text, fmt::format(" {}{}", kernel->symbol, kMember),
              fmt::format(" {}{}", kernel->unique, kMember));
  const std::string_view parameters = text.substr(open + 1, close - open - 1);
  kernel->parameters = static_cast<std::size_t>(std::count(parameters.begin(), parameters.end(), ',')) +
                       (std::any_of(parameters.begin(), parameters.end(), is_word) ? 1 : 0);
  return kernel;
}

}  // namespace

std::string to_image(std::string_view text) {
  const std::uint64_t size = text.size();
  std::string image(kMagic);
  image.append(reinterpret_cast<const char*>(&size), sizeof(size));
  return image.append(text);
}

std::string_view from_image(const void* image) {
  const auto* bytes = static_cast<const char*>(image);
  if (std::strncmp(bytes, kMagic.data(), kMagic.size()) != 0) return {};
  std::uint64_t size = 0;
  std::memcpy(&size, bytes + kMagic.size(), sizeof(size));
  return {bytes + kMagic.size() + sizeof(size), size};
}

std::shared_ptr<Module> parse_module(std::string_view text) {
  const std::string_view prelude = codegen::cuda::prelude();
  if (!text.starts_with(prelude)) return nullptr;
  text.remove_prefix(prelude.size());
  auto module = std::make_shared<Module>();
  for (std::size_t at = text.find(kKernel); at != std::string_view::npos; at = text.find(kKernel)) {
    const std::size_t end = text.find(kEnd, at), next = text.find(kKernel, at + 1);
    const std::size_t size = end < next ? end + kEnd.size() : std::min(next, text.size());
    auto kernel = parse_kernel(text.substr(0, size));
    if (kernel == nullptr) return nullptr;
    module->kernels.push_back(std::move(kernel));
    text.remove_prefix(size);
  }
  return module->kernels.empty() ? nullptr : module;
}

void KernelRunner::add(const Module& module) {
  for (const auto& kernel : module.kernels) pending_.push_back({kernel->unique, kernel->text});
}

void KernelRunner::set_order(std::uint64_t seed) {
  seed_ = seed;
  grid_.reset();
}

void KernelRunner::launch(const Kernel& kernel, const cuda_shim::Grid& grid,
                          std::span<void* const> arguments) {
  if (compiler_ == nullptr)
    compiler_ = std::make_unique<cuda_shim::HostCompiler>(REWIRE_SHIM_FOLDER, codegen::cuda::prelude(),
                                                          cuda_shim::CompileOptions{2, false});
  if (grid_ == nullptr) grid_ = std::make_unique<cuda_shim::GridRunner>(cuda_shim::order_of_seed(seed_));
  if (!pending_.empty()) compiler_->add(pending_);
  pending_.clear();
  grid_->launch(compiler_->kernel(kernel.unique), grid, arguments);
}

}  // namespace rewire::fake_cuda
