// Every schedule that a kernel may take computes what the interpreter does: random tile kernels, attention on
// tensor cores, rows that nothing divides. Beside the cost model's few, one that only had to fit: a recorded
// answer may be any. REWIRE_FUZZ_SEED=n replays one random kernel, REWIRE_FUZZ_COUNT=n draws that many, of which
// the slice is run.
#include <algorithm>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "codegen/cuda/emit.h"
#include "codegen/tile/attention.h"
#include "ir/opcodes.h"
#include "tests/cuda_shim/device_engine.h"
#include "tests/support/catch.h"
#include "tests/support/many_streams.h"
#include "tests/support/random_tile.h"
#include "tests/support/slice.h"
#include "tests/support/tile_builder.h"
#include "tests/support/tile_check.h"

namespace rewire::cuda_shim {
namespace {

using codegen::cuda::Schedule;

constexpr std::size_t kMostSchedules = 8;

std::uint64_t number_from(const char* variable, std::uint64_t otherwise) {
  const char* text = std::getenv(variable);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

struct ScheduledKernel {
  codegen::tile::Kernel kernel;
  std::string name;  // "random 7", with the schedule's text behind it once it is printed
  double tolerance = 1e-5;
  std::uint64_t seed = 1;
  int arch = 90;
};

struct Printing {
  const ScheduledKernel* of = nullptr;
  std::string schedule, symbol, text;
  Grid grid;
};

/// One that fits and is drawn, not chosen; nothing if ten thousand draws have none that is new.
std::vector<Schedule> with_a_drawn_one(const ScheduledKernel& one, std::vector<Schedule> list) {
  std::mt19937_64 random(one.seed);
  const auto pick = [&](int most) { return std::uniform_int_distribution<int>(1, most)(random); };
  const auto power = [&](int most) { return 1 << (pick(most + 1) - 1); };
  const codegen::cuda::DeviceTarget target = codegen::cuda::device_target(one.arch);
  for (int draw = 0; draw < 10000; ++draw) {
    Schedule schedule;
    if (const auto* block = std::get_if<codegen::cuda::BlockSchedule>(&list[0])) {
      codegen::cuda::BlockSchedule next{32 * pick(16), 1, block->widths};
      for (int& width : next.widths) width = pick(2) == 1 ? width : pick(12);
      schedule = next;
    } else if (const auto* transpose = std::get_if<codegen::cuda::TransposeSchedule>(&list[0])) {
      codegen::cuda::TransposeSchedule next{32 * pick(16), 1, transpose->tile};
      for (std::size_t axis = 0; axis < next.tile.size(); ++axis)
        next.tile[axis] = pick(std::min(2 * next.tile[axis], static_cast<int>(one.kernel.axes[axis].extent)));
      schedule = next;
    } else {
      const auto& rows = std::get<codegen::cuda::RowsSchedule>(list[0]);
      schedule = codegen::cuda::RowsSchedule{power(3),
                                             pick(4) == 1 ? 32 * pick(8) : power(5),
                                             pick(6),
                                             pick(3) == 1 ? pick(8) : power(8),
                                             pick(2) == 1 ? rows.repeats : pick(5),
                                             1};
    }
    if (!codegen::cuda::fits(one.kernel, schedule, target)) continue;
    if (std::ranges::find(list, schedule) != list.end()) continue;
    list.push_back(schedule);
    break;
  }
  return list;
}

/// LayerNorm-like rows in bf16, with the sums of their columns as partials; nothing divides anything.
codegen::tile::Kernel odd_rows() {
  test::TileBuilder t("odd_rows");
  const auto r = t.row("r", 101);
  const auto c = t.lane("c", 150);
  t.partitions(3);
  const auto x = t.input("x", ir::DType::bf16), weight = t.input("weight");
  const auto y = t.output("y", ir::DType::bf16), partials = t.output("partials");
  const auto w = t.load(weight, {{c, 1}});
  const auto columns = t.carry(t.constant(0, {c}));
  t.body();
  const auto row = t.load(x, {{r, 150}, {c, 1}});
  const auto mean = t.op(ir::Opcode::div, {t.sum(row, {c}), t.constant(150)});
  const auto centred = t.op(ir::Opcode::mul, {t.op(ir::Opcode::sub, {row, mean}), w});
  t.store(y, centred, {{r, 150}, {c, 1}});
  const auto last = t.carry_next(columns, t.op(ir::Opcode::add, {columns, centred}));
  t.epilogue();
  t.store(partials, last, {{c, 1}}, 0, 150);
  return t.finish();
}

/// Two heads of attention in bf16.
codegen::tile::AttentionShape heads(std::int64_t count, std::int64_t others, std::int64_t width) {
  codegen::tile::AttentionShape shape;
  shape.batch = 1, shape.heads = 2, shape.queries = count, shape.keys = others;
  shape.width = shape.value_width = width;
  shape.dtype = ir::DType::bf16;
  shape.scale = 0.2;
  shape.narrow = true;
  const codegen::tile::AttentionView queries{0, 2 * count * width, count * width, width, 1},
      keys{0, 2 * others * width, others * width, width, 1};
  shape.q = shape.output = shape.d_output = shape.dq = queries;
  shape.k = shape.v = shape.dk = shape.dv = keys;
  shape.lse = {0, 2 * count, count, 1, 0};
  return shape;
}

/// 33 queries, 50 keys, 24 channels: tiles of 16 x 8 divide none of them.
std::vector<codegen::tile::Kernel> attention_kernels() {
  const codegen::tile::AttentionShape shape = heads(33, 50, 24);
  std::vector<codegen::tile::Kernel> kernels = codegen::tile::attention_forward(shape);
  for (codegen::tile::Kernel& kernel : codegen::tile::attention_backward(shape)) kernels.push_back(kernel);
  return kernels;
}

/// A gradient that 99 kB of shared memory hold only in windows of its queries (blocks_windows.h).
codegen::tile::Kernel walked_attention() {
  codegen::tile::AttentionShape shape = heads(150, 131, 60);
  shape.tile_elements = 48000;
  shape.streamed_keys = 256, shape.streamed_sums = 256 * 64;
  return codegen::tile::attention_backward(shape).front();
}

/// Attention that walks tiles, of which neither queries nor keys fill the last one.
std::vector<codegen::tile::Kernel> tiled_attention(bool causal) {
  codegen::tile::AttentionShape shape = causal ? heads(150, 150, 24) : heads(133, 70, 24);
  shape.causal = causal;
  shape.walked_tokens = 1;
  std::vector<codegen::tile::Kernel> kernels = codegen::tile::attention_forward(shape);
  for (codegen::tile::Kernel& kernel : codegen::tile::attention_backward(shape)) kernels.push_back(kernel);
  return kernels;
}

std::vector<ScheduledKernel> all_kernels() {
  std::vector<ScheduledKernel> kernels;
  const std::uint64_t only = number_from("REWIRE_FUZZ_SEED", 0);
  const auto [first, count] = only > 0 ? testing::Slice::Range{only, 1}
                                       : testing::slice().part(1, number_from("REWIRE_FUZZ_COUNT", 24));
  for (std::uint64_t seed = first; seed < first + count; ++seed)
    kernels.push_back(
        {test::random_kernel(seed), "random " + std::to_string(seed), 1e-5, seed, seed % 2 == 0 ? 80 : 90});
  kernels.push_back({odd_rows(), "odd rows", 2e-2, 1, 90});
  kernels.push_back({test::many_streams(37, 390, 27), "many streams", 2e-2, 1, 90});
  kernels.push_back({test::many_streams(101, 387, 26, 3), "many streams with sums of columns", 2e-2, 3, 90});
  for (const codegen::tile::Kernel& kernel : attention_kernels())
    kernels.push_back({kernel, kernel.name, 2e-2, 2, 90});
  for (const bool causal : {false, true}) {
    for (const codegen::tile::Kernel& kernel : tiled_attention(causal))
      kernels.push_back({kernel, "tiles of " + kernel.name, 2e-2, 2, 90});
  }
  kernels.push_back({walked_attention(), "attention in windows", 2e-2, 2, 89});
  return kernels;
}

std::vector<Printing> print_all(const std::vector<ScheduledKernel>& kernels) {
  std::vector<Printing> printings;
  for (const ScheduledKernel& one : kernels) {
    const codegen::cuda::DeviceTarget target = codegen::cuda::device_target(one.arch);
    for (const Schedule& schedule :
         with_a_drawn_one(one, codegen::cuda::schedules(one.kernel, target, kMostSchedules))) {
      const std::string symbol = "scheduled_" + std::to_string(printings.size());
      auto source = codegen::cuda::emit(one.kernel, symbol, target, &schedule);
      printings.push_back({&one,
                           codegen::cuda::schedule_text(schedule),
                           symbol,
                           std::move(source.text),
                           {source.launch.blocks, source.launch.threads, source.launch.shared_bytes}});
    }
  }
  return printings;
}

TEST_CASE("every schedule of a kernel computes the interpreter's numbers, in any order of threads") {
  const std::vector<ScheduledKernel> kernels = all_kernels();
  const std::vector<Printing> printings = print_all(kernels);
  CHECK(printings.size() >= 2 * kernels.size());
  std::vector<KernelText> texts;
  for (const Printing& one : printings) texts.push_back({one.symbol, one.text});
  HostCompiler compiler(kernel_folder(), codegen::cuda::prelude(), CompileOptions{2, false});
  compiler.add(texts);
  for (const Printing& one : printings) {
    test::TileCheck check;
    check.seed = one.of->seed;
    check.tolerance = one.of->tolerance;
    check.floor = 0.01;
    for (const std::uint64_t order : {2 * one.of->seed, 2 * one.of->seed + 1}) {
      GridRunner runner(order_of_seed(order));
      const auto run = [&](const codegen::tile::Kernel&, const std::vector<void*>& arguments) {
        runner.launch(compiler.kernel(one.symbol), one.grid, arguments);
      };
      INFO(one.of->name << ", " << one.schedule << ", order " << order << "\n"
                        << codegen::tile::print(one.of->kernel) << one.text);
      std::string problem;
      REQUIRE_NOTHROW(problem = test::check_kernel(one.of->kernel, check, run));
      CHECK(problem == "");
    }
  }
}

}  // namespace
}  // namespace rewire::cuda_shim
