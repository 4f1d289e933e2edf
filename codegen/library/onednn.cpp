#include "codegen/library/onednn.h"

#include <omp.h>

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <new>

#include "codegen/llvm/target.h"
#include "ir/error.h"

namespace rewire::codegen {

void limit_instructions() {
  static const bool done = [] {
    constexpr const char* kOwn[] = {"ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA"};
    const bool is_set = std::any_of(std::begin(kOwn), std::end(kOwn),
                                    [](const char* name) { return std::getenv(name) != nullptr; });
    if (!is_set && cpu::is_target_named() && !cpu::find_target("").avx512)
      dnnl::set_max_cpu_isa(dnnl::cpu_isa::avx2);
    return true;
  }();
  static_cast<void>(done);
}

const dnnl::engine& cpu_engine() {
  static const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  return engine;
}

dnnl::stream& cpu_stream() {
  thread_local dnnl::stream stream(cpu_engine());
  return stream;
}

void use_one_thread() {
  limit_instructions();
  thread_local bool done = false;
  if (!done) omp_set_num_threads(1);
  done = true;
}

dnnl::primitive_attr user_scratch() {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attributes;
}

dnnl::memory wrap(const dnnl::memory::desc& desc, const void* data) {
  return dnnl::memory(desc, cpu_engine(), const_cast<void*>(data));
}

void fail_of_onednn(const dnnl::error& error, std::string_view action) {
  if (error.status == dnnl_out_of_memory) throw std::bad_alloc();
  internal_error("oneDNN {}: {}", action, error.what());
}

}  // namespace rewire::codegen
