// CUDA C++ to machine code by NVRTC, which is opened when it is first asked for: this library links to
// nothing of CUDA and needs no toolkit to be built. NVRTC itself needs neither a GPU nor a driver.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace rewire::codegen::cuda {

/// Why NVRTC cannot be used, in one line; nullopt: it can. $REWIRE_NVRTC names the library itself; else it is
/// looked for as codegen/cuda/shared_library.h says.
std::optional<std::string> nvrtc_missing();
/// "13.0". UserError with the line above.
std::string nvrtc_version();
/// The file that was opened. UserError as above.
std::string nvrtc_path();

/// What beside the text decides what compile_cubin gives: NVRTC's version and options. UserError as above.
std::string cubin_identity(int arch);

/// What one kernel takes, as the assembler says.
struct KernelResources {
  std::string symbol;
  int registers = 0;              // of a thread
  int stack_bytes = 0;            // of a thread
  int spill_bytes = 0;            // stores and loads
  std::int64_t shared_bytes = 0;  // fixed at compile time; dynamic shared memory is the launch's
};

enum class Output : std::uint8_t { cubin, ptx };

/// NVRTC's answer to one text.
struct Compiled {
  bool accepted = false;
  std::string code;  // of an accepted text
  std::string log;   // accepted: the assembler's lines about its kernels; else why it is not
};

/// `text`: prelude and kernels. UserError if NVRTC is missing or does not know the architecture;
/// InternalError where NVRTC fails without a word about the text.
Compiled try_compile(std::string_view text, int arch, Output output = Output::cubin);

struct CudaBinary {
  std::string cubin;
  std::vector<KernelResources> kernels;
};

/// The same for a text of ours: InternalError with NVRTC's words if it refuses it.
CudaBinary compile_cubin(std::string_view text, int arch);
std::string compile_ptx(std::string_view text, int arch);

/// The lines of `ptxas -v` about kernels.
std::vector<KernelResources> resources_of(std::string_view log);

}  // namespace rewire::codegen::cuda
