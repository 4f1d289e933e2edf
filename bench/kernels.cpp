// Speed of generated row kernels beside the copy bandwidth of the same run, and the time each takes to
// compile.
//   rewire_bench_kernels [threads] [columns] [name filter]
// One line a kernel and size: GB/s counts every tensor once, read or written. "in cache" is 1 MB a thread and
// run; "in memory" is tensors of 512 MB, larger than any L3 here.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <memory>
#include <new>
#include <string>
#include <tuple>
#include <vector>

#include "codegen/library/gemm.h"
#include "codegen/llvm/jit.h"
#include "codegen/tile/attention.h"
#include "ir/opcodes.h"
#include "runtime/device/thread_pool.h"
#include "tests/support/tile_builder.h"
#include "tests/support/tile_check.h"

namespace rewire {
namespace {

using codegen::tile::Kernel;
using ir::DType;
using ir::Opcode;
using test::TileBuilder;
using Value = TileBuilder::Value;

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// The processor time of this thread: what other programs on the machine do not lengthen.
double cpu_seconds_now() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

/// rows x columns, cut into 64 partitions.
struct RowKernel {
  RowKernel(const std::string& name, std::int64_t rows, std::int64_t columns)
      : t(name), r(t.row("r", rows)), c(t.lane("c", columns)), at({{r, columns}, {c, 1}}), n(columns) {
    t.partitions(std::min<std::int64_t>(rows, 64));
  }
  Value in(const std::string& name, DType dtype = DType::f32) { return t.load(t.input(name, dtype), at); }
  void out(const std::string& name, Value value, DType dtype = DType::f32) {
    t.store(t.output(name, dtype), value, at);
  }
  Value mul(Value a, Value b) { return t.op(Opcode::mul, {a, b}); }
  Value add(Value a, Value b) { return t.op(Opcode::add, {a, b}); }
  Value sub(Value a, Value b) { return t.op(Opcode::sub, {a, b}); }
  Value number(double x) { return t.constant(x); }
  Value mean(Value x) { return mul(t.sum(x, {c}), number(1.0 / static_cast<double>(n))); }

  TileBuilder t;
  TileBuilder::Axis r, c;
  TileBuilder::Strides at;
  std::int64_t n;
};

Kernel copy(std::int64_t rows, std::int64_t columns, DType out) {
  RowKernel k(out == DType::f32 ? "copy" : "to bf16", rows, columns);
  k.t.body();
  k.out("y", k.in("x"), out);
  return k.t.finish();
}

Kernel join(std::int64_t rows, std::int64_t columns) {
  RowKernel k("add", rows, columns);
  k.t.body();
  k.out("y", k.add(k.in("x"), k.in("branch")));
  return k.t.finish();
}

Kernel gelu(std::int64_t rows, std::int64_t columns) {
  RowKernel k("gelu", rows, columns);
  k.t.body();
  const Value x = k.in("x");
  const Value erf = k.t.op(Opcode::erf, {k.mul(x, k.number(0.7071067811865476))});
  k.out("y", k.mul(k.mul(x, k.number(0.5)), k.add(erf, k.number(1))));
  return k.t.finish();
}

Kernel gelu_backward(std::int64_t rows, std::int64_t columns) {
  RowKernel k("gelu backward", rows, columns);
  k.t.body();
  const Value x = k.in("x");
  const Value erf = k.t.op(Opcode::erf, {k.mul(x, k.number(0.7071067811865476))});
  const Value cdf = k.mul(k.add(erf, k.number(1)), k.number(0.5));
  const Value pdf =
      k.mul(k.t.op(Opcode::exp, {k.mul(k.mul(x, x), k.number(-0.5))}), k.number(0.3989422804014327));
  k.out("dx", k.mul(k.in("dy"), k.add(cdf, k.mul(x, pdf))));
  return k.t.finish();
}

Kernel layer_norm(std::int64_t rows, std::int64_t columns) {
  RowKernel k("layer_norm", rows, columns);
  const Value w = k.t.load(k.t.input("w"), {{k.c, 1}});
  const Value b = k.t.load(k.t.input("b"), {{k.c, 1}});
  k.t.body();
  const Value x = k.in("x");
  const Value mean = k.mean(x);
  const Value d = k.sub(x, mean);
  const Value rstd = k.t.op(Opcode::rsqrt, {k.add(k.mean(k.mul(d, d)), k.number(1e-6))});
  k.out("y", k.add(k.mul(k.mul(d, rstd), w), b));
  k.t.store(k.t.output("mean"), mean, {{k.r, 1}});
  k.t.store(k.t.output("rstd"), rstd, {{k.r, 1}});
  return k.t.finish();
}

Kernel layer_norm_backward(std::int64_t rows, std::int64_t columns) {
  RowKernel k("layer_norm backward", rows, columns);
  const Value w = k.t.load(k.t.input("w"), {{k.c, 1}});
  const Value zero = k.t.constant(0, {k.c});
  const Value sum_w = k.t.carry(zero);
  const Value sum_b = k.t.carry(zero);
  k.t.body();
  const Value g = k.in("g");
  const Value xh = k.mul(k.sub(k.in("x"), k.t.load(k.t.input("mean"), {{k.r, 1}})),
                         k.t.load(k.t.input("rstd"), {{k.r, 1}}));
  const Value gw = k.mul(g, w);
  const Value inner = k.sub(k.sub(gw, k.mean(gw)), k.mul(xh, k.mean(k.mul(gw, xh))));
  k.out("dx", k.mul(inner, k.t.load(2 + 1, {{k.r, 1}})));
  const Value last_w = k.t.carry_next(sum_w, k.add(sum_w, k.mul(g, xh)));
  const Value last_b = k.t.carry_next(sum_b, k.add(sum_b, g));
  k.t.epilogue();
  k.t.store(k.t.output("partial_w"), last_w, {{k.c, 1}}, 0, columns);
  k.t.store(k.t.output("partial_b"), last_b, {{k.c, 1}}, 0, columns);
  return k.t.finish();
}

Kernel softmax(std::int64_t rows, std::int64_t columns) {
  RowKernel k("softmax", rows, columns);
  k.t.body();
  const Value x = k.in("x");
  const Value e = k.t.op(Opcode::exp, {k.sub(x, k.t.max(x, {k.c}))});
  k.out("y", k.mul(e, k.t.op(Opcode::div, {k.number(1), k.t.sum(e, {k.c})})));
  return k.t.finish();
}

Kernel adamw(std::int64_t rows, std::int64_t columns) {
  RowKernel k("adamw", rows, columns);
  const auto state = [&](const char* name) {
    return k.t.argument(name, codegen::tile::ArgumentUse::read_write);
  };
  const auto p = state("p");
  const auto m = state("m");
  const auto v = state("v");
  const Value finite = k.t.load(k.t.input("finite", DType::i1), {}, 0, DType::i1);
  const Value rate = k.t.load(k.t.input("rate"), {});
  k.t.body();
  const Value g = k.in("g");
  const Value old = k.t.load(p, k.at);
  const Value m1 = k.add(k.mul(k.t.load(m, k.at), k.number(0.9)), k.mul(g, k.number(0.1)));
  const Value v1 = k.add(k.mul(k.t.load(v, k.at), k.number(0.999)), k.mul(k.mul(g, g), k.number(0.001)));
  const Value step = k.t.op(Opcode::div, {m1, k.add(k.t.op(Opcode::sqrt, {v1}), k.number(1e-8))});
  const Value next = k.sub(k.mul(old, k.number(0.9999)), k.mul(step, rate));
  k.t.store(p, next, k.at, 0, 0, finite);
  k.t.store(m, m1, k.at, 0, 0, finite);
  k.t.store(v, v1, k.at, 0, 0, finite);
  return k.t.finish();
}

Kernel transpose(std::int64_t rows, std::int64_t columns) {
  TileBuilder t("transpose");
  const auto o = t.outer("o", rows / 16);
  const auto r = t.lane("r", columns);
  const auto c = t.lane("c", 16);
  const Value x = t.load(t.input("x"), {{o, 16 * columns}, {c, columns}, {r, 1}});
  t.store(t.output("y"), x, {{o, 16}, {r, rows}, {c, 1}});
  return t.finish();
}

Kernel dropout(std::int64_t rows, std::int64_t columns) {
  RowKernel k("dropout", rows, columns);
  const Value seed = k.t.load(k.t.input("seed", DType::i64), {}, 0, DType::i64);
  k.t.body();
  const Value u = k.t.random(false, seed, seed, 99, k.at);
  const Value keep = k.t.cast(k.t.op(Opcode::compare, {u, k.number(0.9)}, "lt"), DType::f32);
  k.out("y", k.mul(k.in("x"), keep));
  return k.t.finish();
}

/// 64-byte aligned memory, written once so that its pages exist.
struct Memory {
  explicit Memory(std::size_t bytes) : data(static_cast<char*>(::operator new(bytes, std::align_val_t{64}))) {
    std::memset(data.get(), 0, bytes);
  }
  struct Free {
    void operator()(char* p) const { ::operator delete(p, std::align_val_t{64}); }
  };
  std::unique_ptr<char, Free> data;
};

class Bench {
 public:
  explicit Bench(int threads) : pool_(threads) {}

  double compile_ms = 0, seconds = 0;  // of the last kernel that ran

  /// GB/s over all arguments.
  double run(const Kernel& kernel) {
    codegen::CpuJit jit({"", 1, ""});
    const double compile_start = cpu_seconds_now();
    const codegen::CompiledKernel compiled = jit.compile({&kernel, 1})[0];
    compile_ms = (cpu_seconds_now() - compile_start) * 1e3;
    std::vector<Memory> memory;
    std::vector<void*> pointers;
    double bytes = 0;
    const std::vector<std::int64_t> elements = test::argument_elements(kernel);
    for (std::size_t i = 0; i < elements.size(); ++i) {
      const codegen::tile::Argument& argument = kernel.arguments[i];
      const std::size_t size = static_cast<std::size_t>(elements[i]) * ir::dtype_bytes(argument.dtype);
      memory.emplace_back(size);
      fill(memory.back(), argument.dtype, static_cast<std::size_t>(elements[i]));
      pointers.push_back(memory.back().data.get());
      bytes += static_cast<double>(size) * (argument.use == codegen::tile::ArgumentUse::read_write ? 2 : 1);
    }
    std::vector<Memory> scratch;
    for (int worker = 0; worker < pool_.threads(); ++worker) {
      scratch.emplace_back(static_cast<std::size_t>(std::max<std::int64_t>(compiled.scratch_bytes, 64)));
    }
    const std::int64_t instances = kernel.instances();
    const std::int64_t grain = std::max<std::int64_t>(instances / (8 * pool_.threads()), 1);
    seconds = best_seconds([&] {
      pool_.run(instances, grain, [&](std::int64_t begin, std::int64_t end, int worker) {
        compiled.function(pointers.data(), begin, end, scratch[static_cast<std::size_t>(worker)].data.get());
      });
    });
    return bytes / seconds / 1e9;
  }

  /// GFLOP/s of oneDNN at 512 x 512 x 512, one product a thread.
  double gemm_rate() {
    constexpr std::int64_t kSize = 512;
    const codegen::Gemm gemm({kSize, kSize, kSize, kSize, 1, kSize, 1, kSize});
    const Memory a(kSize * kSize * 4), b(kSize * kSize * 4);
    std::vector<Memory> c, scratch;
    for (int worker = 0; worker < pool_.threads(); ++worker) {
      c.emplace_back(kSize * kSize * 4);
      scratch.emplace_back(static_cast<std::size_t>(gemm.scratch_bytes()) + 64);
    }
    const double each = best_seconds([&] {
      pool_.run(pool_.threads(), 1, [&](std::int64_t begin, std::int64_t, int worker) {
        gemm.run(a.data.get(), b.data.get(), c[static_cast<std::size_t>(begin)].data.get(), nullptr,
                 scratch[static_cast<std::size_t>(worker)].data.get());
      });
    });
    return 2.0 * kSize * kSize * kSize * pool_.threads() / each / 1e9;
  }

  double copy_bandwidth(std::size_t bytes) {
    Memory from(bytes), to(bytes);
    const auto piece = static_cast<std::int64_t>(bytes / 64);
    return 2.0 * static_cast<double>(bytes) / best_seconds([&] {
             pool_.run(64, 1, [&](std::int64_t begin, std::int64_t end, int) {
               std::memcpy(to.data.get() + begin * piece, from.data.get() + begin * piece,
                           static_cast<std::size_t>((end - begin) * piece));
             });
           }) /
           1e9;
  }

 private:
  static void fill(Memory& memory, DType dtype, std::size_t count) {
    if (dtype == DType::f32) {
      auto* x = reinterpret_cast<float*>(memory.data.get());
      for (std::size_t i = 0; i < count; ++i) x[i] = static_cast<float>(i % 97) / 32 - 1;
    } else {
      memory.data.get()[0] = 1;
    }
  }

  /// The best of many runs, in processor time where one thread does all.
  template <class Run>
  double best_seconds(Run run) {
    const auto clock = pool_.threads() == 1 ? cpu_seconds_now : seconds_now;
    run();
    double best = 1e9;
    const double until = seconds_now() + 0.4;
    for (int round = 0; round < 5 || seconds_now() < until; ++round) {
      const double start = clock();
      run();
      best = std::min(best, clock() - start);
    }
    return best;
  }

  runtime::ThreadPool pool_;
};

codegen::tile::AttentionShape vit_attention(std::int64_t batch, std::int64_t heads, std::int64_t tokens) {
  codegen::tile::AttentionShape shape;
  constexpr std::int64_t kWidth = 64;
  const std::int64_t model = heads * kWidth;
  shape.batch = batch, shape.heads = heads, shape.queries = shape.keys = tokens, shape.width = kWidth;
  shape.scale = 0.125;
  const auto window = [&](std::int64_t parts, std::int64_t part) {
    return codegen::tile::AttentionView{part * model, tokens * parts * model, kWidth, parts * model, 1};
  };
  shape.q = shape.dq = window(3, 0);
  shape.k = shape.dk = window(3, 1);
  shape.v = shape.dv = window(3, 2);
  shape.output = shape.d_output = window(1, 0);
  shape.lse = {0, heads * tokens, tokens, 1, 0};
  return shape;
}

void run_attention(Bench& bench) {
  const double gemm = bench.gemm_rate();
  std::printf("attention: oneDNN's f32 GEMM %.1f GFLOP/s\n", gemm);
  const auto report = [&](const std::vector<Kernel>& kernels, double dots,
                          const codegen::tile::AttentionShape& shape) {
    double seconds = 0, compile_ms = 0;
    for (const Kernel& kernel : kernels) {
      bench.run(kernel);
      seconds += bench.seconds;
      compile_ms += bench.compile_ms;
    }
    const double flops =
        dots * 2 * static_cast<double>(shape.batch * shape.heads * shape.queries * shape.keys * shape.width);
    std::printf("  %-32s %7.1f GFLOP/s  %4.0f %% of GEMM  %8.1f us  compiled in %5.1f ms\n",
                kernels[0].name.c_str(), flops / seconds / 1e9, 100 * flops / seconds / 1e9 / gemm,
                seconds * 1e6, compile_ms);
  };
  for (const auto& [batch, heads, tokens] :
       {std::tuple<int, int, int>{64, 3, 50}, {32, 6, 65}, {4, 6, 197}, {1, 6, 577}}) {
    const auto shape = vit_attention(batch, heads, tokens);
    report(codegen::tile::attention_forward(shape), 2, shape);
    report(codegen::tile::attention_backward(shape), 5, shape);
  }
}

int run(int threads, std::int64_t columns, const std::string& filter) {
  Bench bench(threads);
  std::printf("%s, %d threads, rows of %lld\n", codegen::host_cpu_description().c_str(), threads,
              static_cast<long long>(columns));
  if (std::string("attention").find(filter) != std::string::npos) run_attention(bench);
  for (const bool in_memory : {false, true}) {
    const std::int64_t bytes = in_memory ? std::int64_t{512} << 20 : std::int64_t{threads} << 19;
    const std::int64_t rows = bytes / 4 / columns / 64 * 64;
    const double bandwidth = bench.copy_bandwidth(static_cast<std::size_t>(bytes));
    std::printf("%s: memcpy %.1f GB/s\n", in_memory ? "in memory" : "in cache", bandwidth);
    const Kernel kernels[] = {copy(rows, columns, DType::f32),
                              copy(rows, columns, DType::bf16),
                              join(rows, columns),
                              gelu(rows, columns),
                              gelu_backward(rows, columns),
                              layer_norm(rows, columns),
                              layer_norm_backward(rows, columns),
                              softmax(rows, columns),
                              adamw(rows, columns),
                              dropout(rows, columns),
                              transpose(rows, columns)};
    for (const Kernel& kernel : kernels) {
      if (kernel.name.find(filter) == std::string::npos) continue;
      const double rate = bench.run(kernel);
      std::printf("  %-20s %7.1f GB/s  %4.0f %% of memcpy   compiled in %5.1f ms\n", kernel.name.c_str(),
                  rate, 100 * rate / bandwidth, bench.compile_ms);
    }
  }
  return 0;
}

}  // namespace
}  // namespace rewire

int main(int argc, char** argv) {
  const int threads = argc > 1 ? std::atoi(argv[1]) : 1;
  const int columns = argc > 2 ? std::atoi(argv[2]) : 384;
  return rewire::run(threads, columns, argc > 3 ? argv[3] : "");
}
