#include "bench/gemm_rate.h"

#include <omp.h>

#include <algorithm>
#include <dnnl.hpp>
#include <thread>
#include <unordered_map>

#include "bench/timing.h"
#include "ir/error.h"
#include "runtime/exec/cpu/launch_bench.h"
#include "runtime/exec/cpu/launches.h"
#include "runtime/exec/cpu/product_launch.h"

namespace rewire::bench {
namespace {

using codegen::GemmLaunch;
using codegen::View;
using dnnl::memory;

bool same_layout(const View& a, const View& b) {
  return a.shape == b.shape && a.strides == b.strides;
}

bool same(const GemmCount& a, const GemmCount& b) {
  return a.dtype == b.dtype && same_layout(a.launch.a, b.launch.a) && same_layout(a.launch.b, b.launch.b) &&
         same_layout(a.launch.c, b.launch.c) && a.launch.accumulate == b.launch.accumulate &&
         (a.launch.bias.buffer < 0) == (b.launch.bias.buffer < 0);
}

/// One more than the last element's index.
std::int64_t span_of(const View& view) {
  std::int64_t last = 0;
  for (std::size_t d = 0; d < view.shape.size(); ++d) last += (view.shape[d] - 1) * view.strides[d];
  return last + 1;
}

/// The launch alone, on buffers of its own.
codegen::Program alone(const GemmCount& gemm) {
  codegen::Program program;
  program.name = "gemm";
  for (const View* view : {&gemm.launch.a, &gemm.launch.b, &gemm.launch.c, &gemm.launch.bias}) {
    if (view->buffer < 0) continue;
    program.buffers.push_back(
        {"", codegen::BufferKind::temporary, ir::TensorType{gemm.dtype, {span_of(*view)}}, {}});
  }
  program.launches.emplace_back(gemm.launch);
  return program;
}

memory::desc describe_view(const View& view, std::size_t rank, memory::data_type type) {
  memory::dims shape(view.shape.begin(), view.shape.end()), strides(view.strides.begin(), view.strides.end());
  // oneDNN wants a stride that fits even where an extent of 1 makes it meaningless.
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] == 1) strides[d] = d + 1 < shape.size() ? shape[d + 1] * strides[d + 1] : 1;
  }
  while (shape.size() < rank) {
    strides.insert(strides.begin(), shape.front() * strides.front());
    shape.insert(shape.begin(), 1);
  }
  return {shape, type, strides};
}

dnnl::matmul make_matmul(const GemmLaunch& launch, const dnnl::engine& engine, const memory::desc& a,
                         const memory::desc& b, const memory::desc& bias, const memory::desc& c) {
  dnnl::primitive_attr attributes;
  if (launch.accumulate) {
    dnnl::post_ops post;
    post.append_sum(1.0F);
    attributes.set_post_ops(post);
  }
  const bool biased = launch.bias.buffer >= 0;
#if DNNL_VERSION_MAJOR >= 3
  return dnnl::matmul(biased ? dnnl::matmul::primitive_desc(engine, a, b, bias, c, attributes)
                             : dnnl::matmul::primitive_desc(engine, a, b, c, attributes));
#else
  const dnnl::matmul::desc op = biased ? dnnl::matmul::desc(a, b, bias, c) : dnnl::matmul::desc(a, b, c);
  return dnnl::matmul(dnnl::matmul::primitive_desc(op, attributes, engine));
#endif
}

Seconds library_seconds(const GemmCount& gemm, const runtime::BufferPointers& buffers) {
  const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  dnnl::stream stream(engine);
  const memory::data_type type =
      gemm.dtype == ir::DType::f32 ? memory::data_type::f32 : memory::data_type::bf16;
  const std::size_t rank = gemm.launch.c.shape.size();
  const memory::desc a = describe_view(gemm.launch.a, rank, type),
                     b = describe_view(gemm.launch.b, rank, type),
                     c = describe_view(gemm.launch.c, rank, type);
  memory::desc bias;
  std::unordered_map<int, memory> arguments = {{DNNL_ARG_SRC, memory(a, engine, buffers[0])},
                                               {DNNL_ARG_WEIGHTS, memory(b, engine, buffers[1])},
                                               {DNNL_ARG_DST, memory(c, engine, buffers[2])}};
  if (gemm.launch.bias.buffer >= 0) {
    bias = describe_view(gemm.launch.bias, rank, type);
    arguments.emplace(DNNL_ARG_BIAS, memory(bias, engine, buffers[3]));
  }
  const dnnl::matmul matmul = make_matmul(gemm.launch, engine, a, b, bias, c);
  return measure_seconds([&] {
    matmul.execute(stream, arguments);
    stream.wait();
  });
}

}  // namespace

std::vector<GemmCount> gemms_of(const codegen::Program& program) {
  std::vector<GemmCount> counts;
  for (const codegen::Launch& launch : program.launches) {
    const auto* gemm = std::get_if<GemmLaunch>(&launch);
    if (gemm == nullptr) continue;
    GemmCount next{*gemm, program.buffers[static_cast<std::size_t>(gemm->c.buffer)].type.dtype, 1, 0};
    next.flops = 2.0 * static_cast<double>(ir::element_count(gemm->c.shape)) *
                 static_cast<double>(gemm->a.shape.back());
    std::int32_t buffer = 0;
    for (View* view : {&next.launch.a, &next.launch.b, &next.launch.c, &next.launch.bias}) {
      view->offset = 0;
      if (view->buffer >= 0) view->buffer = buffer++;
    }
    const auto known =
        std::ranges::find_if(counts, [&](const GemmCount& other) { return same(other, next); });
    if (known == counts.end()) {
      counts.push_back(std::move(next));
    } else {
      ++known->count;
    }
  }
  return counts;
}

GemmTime measure_gemm(const GemmCount& gemm, runtime::ThreadPool& pool, const codegen::ProductCode& product) {
  const codegen::Program program = alone(gemm);
  runtime::LaunchBench bench(program, pool);
  const auto seconds = [&](const runtime::ProductsBy& products) {
    const auto launch = std::move(runtime::make_cpu_launches(program, {}, products).front());
    return measure_seconds([&] { bench.run(*launch); });
  };
  GemmTime time;
  time.cut = seconds({});
  time.own = runtime::takes_product(program, gemm.launch) ? seconds({&product, {true}}) : time.cut;
  // On a thread of its own: the engine's GEMMs set their calling thread to one OpenMP thread, for good.
  std::exception_ptr failure;
  std::thread library([&] {
    try {
      omp_set_num_threads(pool.threads());
      time.library = library_seconds(gemm, bench.pointers());
    } catch (...) {
      failure = std::current_exception();
    }
  });
  library.join();
  if (failure) std::rethrow_exception(failure);
  return time;
}

}  // namespace rewire::bench
