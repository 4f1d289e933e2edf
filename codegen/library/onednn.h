// What all calls of oneDNN share: one engine, one thread a call, the CPU that $REWIRE_CPU names, the caller's scratch. It shows oneDNN's own types, so only
// the files of this folder include it.
#pragma once

#include <dnnl.hpp>
#include <string_view>

namespace rewire::codegen {

const dnnl::engine& cpu_engine();
/// The calling thread's own.
dnnl::stream& cpu_stream();

/// oneDNN uses no more than AVX2 where $REWIRE_CPU names a CPU without AVX-512, unless its own variable
/// (ONEDNN_MAX_CPU_ISA) says what it may use. Before all else that is asked of oneDNN.
void limit_instructions();

/// As limit_instructions, and one thread: oneDNN asks OpenMP for its number of threads when it plans and when it runs: before either, on any thread.
void use_one_thread();

/// Scratch is the caller's.
dnnl::primitive_attr user_scratch();

/// Memory that oneDNN may read, or write, at `data`.
dnnl::memory wrap(const dnnl::memory::desc& desc, const void* data);

/// What oneDNN has refused: std::bad_alloc, or InternalError "oneDNN <action>: …".
[[noreturn]] void fail_of_onednn(const dnnl::error& error, std::string_view action);

}  // namespace rewire::codegen
