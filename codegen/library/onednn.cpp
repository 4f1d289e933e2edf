#include "codegen/library/onednn.h"

#include <omp.h>

#include <new>

#include "ir/error.h"

namespace rewire::codegen {

const dnnl::engine& cpu_engine() {
  static const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  return engine;
}

dnnl::stream& cpu_stream() {
  thread_local dnnl::stream stream(cpu_engine());
  return stream;
}

void use_one_thread() {
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
