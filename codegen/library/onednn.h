// Shared by all calls of oneDNN: one engine, one thread per call, the CPU that $REWIRE_CPU names, the
// caller's scratch. It exposes oneDNN's own types, so only the files of this folder include it.
#pragma once

#include <dnnl.hpp>
#include <string_view>

namespace rewire::codegen {

const dnnl::engine& cpu_engine();
/// Returns the calling thread's own stream.
dnnl::stream& cpu_stream();

/// Limits oneDNN to AVX2 if $REWIRE_CPU names a CPU without AVX-512, unless oneDNN's own variable
/// (ONEDNN_MAX_CPU_ISA) sets a limit. It must precede all other calls of oneDNN.
void limit_instructions();

/// Does limit_instructions, and limits oneDNN to one thread. oneDNN asks OpenMP for its number of threads
/// when it plans and when it runs, so this must precede both, on any thread.
void use_one_thread();

/// Returns attributes that leave the scratch to the caller.
dnnl::primitive_attr user_scratch();

/// Returns memory at `data` that oneDNN may read, or write.
dnnl::memory wrap(const dnnl::memory::desc& desc, const void* data);

/// Reports a refusal of oneDNN: throws std::bad_alloc, or InternalError "oneDNN <action>: …".
[[noreturn]] void fail_of_onednn(const dnnl::error& error, std::string_view action);

}  // namespace rewire::codegen
