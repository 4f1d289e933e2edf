// Kernels of the fake device: the "machine code" is the text, which the build's own compiler turns into
// functions for the host's fibers when the first of them runs, all that are loaded by then at once.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tests/cuda_shim/compile.h"
#include "tests/cuda_shim/launch.h"

namespace rewire::fake_cuda {

/// A text as a module's image holds it, and back; empty where the image is none of ours.
std::string to_image(std::string_view text);
std::string_view from_image(const void* image);

struct Kernel {
  std::string symbol;  // as the text spells it
  std::string unique;  // and told apart from others of this name
  std::string text;
  std::size_t parameters = 0;
  int shared_limit = 48 << 10;  // of dynamic shared memory
};

struct Module {
  std::vector<std::unique_ptr<Kernel>> kernels;
};

/// Kernels of a text that begins with the prelude; empty where it does not, or has none.
std::shared_ptr<Module> parse_module(std::string_view text);

class KernelRunner {
 public:
  void add(const Module& module);
  /// RuntimeFailure if a kernel does what a device leaves undefined, or its text does not compile.
  void launch(const Kernel& kernel, const cuda_shim::Grid& grid, std::span<void* const> arguments);
  void set_order(std::uint64_t seed);

 private:
  std::vector<cuda_shim::KernelText> pending_;
  std::unique_ptr<cuda_shim::HostCompiler> compiler_;
  std::unique_ptr<cuda_shim::GridRunner> grid_;
  std::uint64_t seed_ = 0;
};

}  // namespace rewire::fake_cuda
