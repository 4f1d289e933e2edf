// Compiles CUDA C++ to machine code by NVRTC, which is opened at its first use: this library links to no
// part of CUDA and builds without a toolkit. NVRTC itself needs neither a GPU nor a driver.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "codegen/cuda/shared_library.h"

namespace rewire::codegen::cuda {

/// Returns why NVRTC cannot be used, in one line; nullopt: it can. $REWIRE_NVRTC names the library file;
/// else it is searched for as codegen/cuda/shared_library.h says.
std::optional<std::string> nvrtc_missing();
/// Returns "13.0". Throws UserError with the line above.
std::string nvrtc_version();
/// Returns the file that was opened. Throws UserError as above.
std::string nvrtc_path();
/// Returns the library, whether it can be used or not.
const SharedLibrary& nvrtc_file();

/// Returns the architecture that kernels for `arch` are compiled for: itself, or the newest older one of the same major
/// number that NVRTC knows, whose machine code runs there too (CUDA C++ Programming Guide, "Binary Compatibility").
/// nullopt: there is none. Throws UserError as above.
std::optional<int> nvrtc_arch(int arch);
/// Returns why NVRTC cannot compile for `arch`, in one line; nullopt: it can.
std::optional<std::string> nvrtc_lacks(int arch);

/// Returns what decides compile_cubin()'s result besides the text: NVRTC's version and options. Throws
/// UserError as above.
std::string cubin_identity(int arch);

/// The resources of one kernel, as the assembler reports them.
struct KernelResources {
  std::string symbol;
  int registers = 0;              // per thread
  int stack_bytes = 0;            // per thread
  int spill_bytes = 0;            // stores plus loads
  std::int64_t shared_bytes = 0;  // fixed at compile time; the launch sets dynamic shared memory
};

enum class Output : std::uint8_t { cubin, ptx };

/// NVRTC's answer to one text.
struct Compiled {
  bool accepted = false;
  std::string code;  // of an accepted text
  std::string log;   // accepted: the assembler's lines about its kernels; else the errors
};

/// Compiles `text`: prelude and kernels. Throws UserError if NVRTC is missing or does not know the
/// architecture, InternalError if NVRTC fails for a reason other than the text.
Compiled try_compile(std::string_view text, int arch, Output output = Output::cubin);

struct CudaBinary {
  std::string cubin;
  std::vector<KernelResources> kernels;
};

/// Compiles a text that Rewire wrote. Throws InternalError with NVRTC's log if NVRTC refuses it.
CudaBinary compile_cubin(std::string_view text, int arch);
std::string compile_ptx(std::string_view text, int arch);

/// Reads the lines of `ptxas -v` about kernels.
std::vector<KernelResources> resources_of(std::string_view log);

}  // namespace rewire::codegen::cuda
