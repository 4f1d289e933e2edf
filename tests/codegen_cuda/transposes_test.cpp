// Which kernels go through shared memory and which do not, what it saves in sectors, and the text of two.
#include "codegen/cuda/transposes_plan.h"

#include <cstdlib>

#include "codegen/cuda/nvrtc.h"
#include "codegen/tile/walk.h"
#include "ir/opcodes.h"
#include "tests/support/catch.h"
#include "tests/support/tile_builder.h"
#include "tests/support/transposing_kernels.h"

namespace rewire::test {
namespace {

using namespace codegen::cuda;  // NOLINT: the subject of this file
using codegen::tile::ArgumentUse;
using codegen::tile::Kernel;
using ir::DType;
using ir::Opcode;

constexpr const char* kTransposed = R"(// transposed
// outer (b 1)  rows (r 1024)  lanes (c 768)
// reads 3.15 MB, writes 3.15 MB, 0 flop; 768 blocks of 256 threads, 4.22 kB shared
// a tile (r 32, c 32) a block, through shared memory x; 196608 sectors in 49152 lines, row by row 491520 in 417792
extern "C" __global__ void __launch_bounds__(256, 4) transposed(
    const float* __restrict__ x,
    float* __restrict__ y) {
  REWIRE_SHARED(shared);
  float* const x_0_tile = reinterpret_cast<float*>(shared);  // strides r 33, c 1
  using P = Row<4, 1, 4>;
  const int r_tile = int(blockIdx.x) / 24 * 32;
  const int c_tile = int(blockIdx.x) % 24 * 32;
  for (int at = int(threadIdx.x); at < 256; at += 256) {
    // x, 4 neighbours at once
    const int r_in = at % 8 * 4;
    const int r = r_tile + r_in;
    const int c_in = at / 8;
    const int c = c_tile + c_in;
    const auto packet = packet_at<4>(x + r + 1024 * c);
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      x_0_tile[33 * r_in + 33 * e + c_in] = packet.lane[e];
    }
  }
  __syncthreads();
  for (int at = int(threadIdx.x); at < 256; at += 256) {
    // the tile's points
    const int c_in = at % 8 * 4;
    const int c = c_tile + c_in;
    const int r_in = at / 8;
    const int r = r_tile + r_in;
    float y_row1[P::kElements];
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const float x_0 = x_0_tile[33 * r_in + c_in + e];
      y_row1[e] = x_0;
    }
    store<P, 4>(y + 768 * r + c, y_row1, 0);
  }
}
)";

constexpr const char* kPatches = R"(// patches
// rows (b 256, i 8, j 8, c 3, k 4)  lanes (l 4)
// reads 3.15 MB, writes 3.15 MB, 1.57 Mflop; 1024 blocks of 192 threads, 3.84 kB shared
// a tile (i 2, j 8, c 3, k 4, l 4) a block, through shared memory image; 208896 sectors in 61440 lines, row by row 241536 in 110592
extern "C" __global__ void __launch_bounds__(192, 5) patches(
    const float* __restrict__ image,
    const float* __restrict__ mean,
    const float* __restrict__ scale,
    float* __restrict__ y) {
  REWIRE_SHARED(shared);
  float* const image_0_tile = reinterpret_cast<float*>(shared);  // strides i 480, j 60, c 20, k 5, l 1
  using P = Row<4, 1, 4>;
  const int b = int(blockIdx.x) / 4;
  const int i_tile = int(blockIdx.x) % 4 * 2;
  for (int at = int(threadIdx.x); at < 192; at += 192) {
    // image, 4 neighbours at once
    const int j = at % 8;
    const int k = at / 8 % 4;
    const int i_in = at / 32 % 2;
    const int i = i_tile + i_in;
    const int c = at / 64;
    const auto packet = packet_at<4>(image + 3072 * b + 128 * i + 4 * j + 1024 * c + 32 * k);
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      image_0_tile[480 * i_in + 60 * j + 20 * c + 5 * k + e] = packet.lane[e];
    }
  }
  __syncthreads();
  for (int at = int(threadIdx.x); at < 192; at += 192) {
    // the tile's points
    const int k = at % 4;
    const int c = at / 4 % 3;
    const int j = at / 12 % 8;
    const int i_in = at / 96;
    const int i = i_tile + i_in;
    float y_row3[P::kElements];
    const float mean_1 = mean[c];
    const float scale_3 = scale[c];
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const float image_0 = image_0_tile[480 * i_in + 60 * j + 20 * c + 5 * k + e];
      y_row3[e] = (image_0 - mean_1) * scale_3;
    }
    store<P, 4>(y + 3072 * b + 384 * i + 48 * j + 16 * c + 4 * k, y_row3, 0);
  }
}
)";

std::optional<TransposePlan> plan(const Kernel& kernel) {
  return plan_transpose(kernel, device_target(90));
}

/// The accesses that go through shared memory, by the names of their arguments.
std::string staged(const Kernel& kernel) {
  const auto of = plan(kernel);
  if (!of) return "none";
  std::string names;
  for (const TileAccess& access : of->accesses) {
    const codegen::tile::Access& at = *codegen::tile::access_of(*access.node);
    if (access.staged)
      names += (names.empty() ? "" : " ") + kernel.arguments[static_cast<std::size_t>(at.argument)].name;
  }
  return names;
}

/// y = what `write` makes of x[c, r] at [r, c].
template <class Write>
Kernel with_transposed(Write write, std::int64_t rows = 640, std::int64_t columns = 512) {
  TileBuilder t("with_transposed");
  const auto r = t.row("r", rows), c = t.lane("c", columns);
  const auto x = t.input("x");
  t.body();
  write(t, t.load(x, {{r, 1}, {c, rows}}), TileBuilder::Strides{{r, columns}, {c, 1}}, r, c);
  return t.finish();
}

TEST_CASE("a transpose prints as pinned") {
  CHECK(emit(transposed(1024, 768), "transposed", device_target(90)).text == kTransposed);
}

TEST_CASE("images to patches print as pinned") {
  CHECK(emit(patches(256, 8, 8, 4), "patches", device_target(90)).text == kPatches);
}

TEST_CASE("a transpose touches each sector once, and rows touch one for each two elements that they read") {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const Kernel kernel = transposed(1024, 768, dtype, dtype, 2);
    const std::int64_t elements = 2 * 1024 * 768, bytes = dtype == DType::f32 ? 4 : 2;
    const auto of = plan(kernel);
    REQUIRE(of);
    CHECK(of->traffic.sectors == 2 * elements * bytes / kSectorBytes);
    CHECK(of->traffic.lines == 2 * elements * bytes / kLineBytes);
    // A warp is two rows of 16 threads, or four of 8, of a vector each: of each of these it loads an element
    // at once, whose neighbours in memory are the other rows'.
    const auto rows = plan_rows(kernel, device_target(90));
    REQUIRE(rows);
    const std::int64_t side_by_side = kWarp / rows->threads;
    CHECK(side_by_side * bytes <= kSectorBytes);
    CHECK(of->row_traffic.sectors == elements / side_by_side + elements * bytes / kSectorBytes);
    CHECK(of->shared_bytes <= 12 << 10);
  }
}

TEST_CASE("rows of a tile in shared memory are an odd number of elements apart") {
  for (const auto& kernel : {transposed(1024, 768), transposed(1024, 768, DType::bf16, DType::bf16)}) {
    const auto of = plan(kernel);
    REQUIRE(of);
    const TileAccess& x = of->accesses[0];
    REQUIRE(x.staged);
    CHECK(x.strides[2] == 1);
    CHECK(x.strides[1] % 2 == 1);
    CHECK(x.strides[1] > of->tile[2]);
  }
}

TEST_CASE("accesses take 16 bytes at once where sizes allow it") {
  const auto widths = [](std::int64_t rows, std::int64_t columns, DType dtype) {
    const auto of = plan(transposed(rows, columns, dtype, dtype));
    REQUIRE(of);
    return std::pair(of->accesses[0].walk.packet, of->accesses[1].walk.packet);
  };
  CHECK(widths(640, 512, DType::f32) == std::pair(4, 4));
  CHECK(widths(640, 512, DType::bf16) == std::pair(8, 8));
  CHECK(widths(644, 1030, DType::bf16) == std::pair(4, 2));
  CHECK(widths(641, 514, DType::f32) == std::pair(1, 2));
  CHECK(widths(640, 511, DType::f64) == std::pair(2, 1));
}

TEST_CASE("only what is strided goes through shared memory") {
  CHECK(staged(transposed(640, 512)) == "x");
  CHECK(staged(patches(256, 8, 8, 4)) == "image");
  const auto add = [](DType dtype) {
    return with_transposed([=](TileBuilder& t, auto x, const auto& along, auto, auto) {
      t.store(t.output("y", dtype), t.op(Opcode::add, {x, t.load(t.input("z", dtype), along)}), along);
    });
  };
  CHECK(staged(add(DType::f32)) == "x");
  CHECK(staged(add(DType::bf16)) == "x");
  // What a row or a column shares is left to the cache.
  CHECK(staged(with_transposed([](TileBuilder& t, auto x, const auto& along, auto r, auto c) {
          const auto scaled = t.op(Opcode::mul, {x, t.load(t.input("scale"), {{r, 1}})});
          t.store(t.output("y"), t.op(Opcode::add, {scaled, t.load(t.input("bias"), {{c, 1}})}), along);
        })) == "x");
  // Two results, one in the order of what is read: the other one leaves through shared memory, or both loads
  // do.
  CHECK(staged(with_transposed([](TileBuilder& t, auto x, const auto& along, auto r, auto c) {
          const auto twice = t.op(Opcode::add, {x, x});
          t.store(t.output("y"), twice, along);
          t.store(t.output("same"), twice, {{r, 1}, {c, 640}});
        })) == "y");
  // Several loads alike: one result through shared memory is less.
  CHECK(staged(with_transposed([](TileBuilder& t, auto x, const auto& along, auto r, auto c) {
          const auto z = t.load(t.input("z"), {{r, 1}, {c, 640}});
          t.store(t.output("y"), t.op(Opcode::mul, {x, z}), along);
        })) == "y");
  // Read and written at one place: that stays with its thread.
  CHECK(staged(with_transposed([](TileBuilder& t, auto x, const auto& along, auto, auto) {
          const auto sum = t.argument("sum", ArgumentUse::read_write);
          t.store(sum, t.op(Opcode::add, {x, t.load(sum, along)}), along);
        })) == "x");
}

TEST_CASE("padding with permuted reads is computed where it is read, and leaves through shared memory") {
  const Kernel kernel = [] {
    TileBuilder t("padded");
    const auto r = t.row("r", 642), c = t.lane("c", 512);
    const auto x = t.input("x"), y = t.output("y");
    t.body();
    const auto at = t.op(Opcode::sub, {t.index(r, DType::i64), t.constant(1, {}, DType::i64)});
    const auto inside =
        t.op(Opcode::logical_and, {t.op(Opcode::compare, {at, t.constant(0, {}, DType::i64)}, "ge"),
                                   t.op(Opcode::compare, {at, t.constant(640, {}, DType::i64)}, "lt")});
    const auto value = t.gather(x, {{c, 640}}, at, 1, 640);
    t.store(y, t.op(Opcode::select, {inside, value, t.constant(0)}), {{r, 512}, {c, 1}});
    return t.finish();
  }();
  CHECK(staged(kernel) == "y");
}

TEST_CASE("what is whole sectors already, adds up or draws numbers is left to rows") {
  // In order, and with rows as long as heads: neighbours move together.
  CHECK_FALSE(plan([] {
    TileBuilder t("copy");
    const auto r = t.row("r", 640), c = t.lane("c", 512);
    const auto x = t.input("x"), y = t.output("y", DType::bf16);
    t.body();
    t.store(y, t.load(x, {{r, 512}, {c, 1}}), {{r, 512}, {c, 1}});
    return t.finish();
  }()));
  CHECK_FALSE(plan([] {
    TileBuilder t("heads");
    const auto b = t.row("b", 8), h = t.row("h", 6), n = t.row("n", 65), d = t.lane("d", 64);
    const auto x = t.input("x", DType::bf16), y = t.output("y", DType::bf16);
    t.body();
    t.store(y, t.load(x, {{b, 65 * 384}, {n, 384}, {h, 64}, {d, 1}}),
            {{b, 65 * 384}, {h, 65 * 64}, {n, 64}, {d, 1}});
    return t.finish();
  }()));
  CHECK_FALSE(plan(patches(32, 14, 14, 16)));
  // Rows of ten, and all in their order.
  CHECK_FALSE(plan([] {
    TileBuilder t("short_rows");
    const auto r = t.row("r", 1024), c = t.lane("c", 10);
    const auto x = t.input("x", DType::bf16), y = t.output("y");
    t.body();
    t.store(y, t.load(x, {{r, 10}, {c, 1}}), {{r, 10}, {c, 1}});
    return t.finish();
  }()));
  // An axis so short that a thread has all of it: rows read along the other one. And one of a few elements.
  CHECK_FALSE(plan(transposed(4096, 4)));
  CHECK_FALSE(plan(transposed(16, 16)));
  // Sums, and numbers that are drawn four at once.
  CHECK_FALSE(plan(with_transposed([](TileBuilder& t, auto x, const auto& along, auto, auto c) {
    t.store(t.output("y"), t.op(Opcode::sub, {x, t.sum(x, {c})}), along);
  })));
  CHECK_FALSE(plan([] {
    TileBuilder t("dropped");
    const auto r = t.row("r", 640), c = t.lane("c", 512);
    const auto seed = t.load(t.input("seed", DType::i64), {}, 0, DType::i64);
    const auto x = t.input("x"), y = t.output("y");
    t.body();
    const auto drawn = t.random(false, seed, seed, 7, {{r, 512}, {c, 1}});
    t.store(y, t.op(Opcode::mul, {t.load(x, {{r, 1}, {c, 640}}), drawn}), {{r, 512}, {c, 1}});
    return t.finish();
  }()));
  // A store that several points share.
  CHECK_FALSE(plan(with_transposed([](TileBuilder& t, auto x, const auto& along, auto r, auto) {
    t.store(t.output("y"), x, along);
    t.store(t.output("row"), t.load(t.input("z"), {{r, 1}}), {{r, 1}});
  })));
  // Read at one place and written at another.
  CHECK_FALSE(plan(with_transposed([](TileBuilder& t, auto x, const auto& along, auto r, auto c) {
    const auto both = t.argument("both", ArgumentUse::read_write);
    t.store(both, t.op(Opcode::add, {x, t.load(both, {{r, 1}, {c, 640}})}), along);
  })));
}

TEST_CASE("a table's kernel that transposes finds the pointers of a block's member") {
  codegen::KernelLaunch launch{transposed(1024, 768), {0, 1}};
  launch.others = {{"other", {2, 3}}};
  const std::string text = emit(launch, "transposed", device_target(90)).text;
  CHECK_THAT(text, REWIRE_CATCH_CONTAINS("REWIRE_DEVICE void transposed_member("));
  CHECK_THAT(text, REWIRE_CATCH_CONTAINS("void* const* const member = table + 2 * blockIdx.y;"));
  CHECK_THAT(text, REWIRE_CATCH_CONTAINS("through shared memory x"));
}

TEST_CASE("kernels that transpose may be timed against rows, and take no schedule that is not theirs") {
  const DeviceTarget target = device_target(90);
  const Kernel kernel = transposed(1024, 768);
  const std::vector<Schedule> list = schedules(kernel, target, 6);
  CHECK(std::holds_alternative<TransposeSchedule>(list[0]));
  CHECK(std::holds_alternative<RowsSchedule>(list.back()));
  CHECK(list.size() == 6);
  for (const Schedule& schedule : list) CHECK(fits(kernel, schedule, target));
  const auto good = std::get<TransposeSchedule>(list[0]);
  for (const TransposeSchedule& schedule :
       {TransposeSchedule{100, 1, good.tile}, TransposeSchedule{0, 1, good.tile},
        TransposeSchedule{2048, 1, good.tile}, TransposeSchedule{256, 0, good.tile},
        TransposeSchedule{256, 7, good.tile}, TransposeSchedule{256, 1, {}},
        TransposeSchedule{256, 1, {32, 32}}, TransposeSchedule{256, 1, {2, 32, 32}},
        TransposeSchedule{256, 1, {1, 0, 32}}, TransposeSchedule{256, 1, {1, 1024, 768}}}) {
    CAPTURE(schedule_text(schedule));
    CHECK_FALSE(fits(kernel, schedule, target));
  }
  CHECK_FALSE(fits(kernel, BlockSchedule{}, target));
  CHECK_FALSE(fits(with_transposed([](TileBuilder& t, auto x, const auto& along, auto, auto c) {
                     t.store(t.output("y"), t.op(Opcode::sub, {x, t.sum(x, {c})}), along);
                   }),
                   TransposeSchedule{256, 1, {32, 32}}, target));
}

TEST_CASE("kernels that transpose compile for every architecture, and spill nothing") {
  if (const auto missing = nvrtc_missing()) {
    if (std::getenv("REWIRE_REQUIRE_NVRTC") != nullptr) FAIL(*missing);
    WARN("not run: " << *missing);
    return;
  }
  std::vector<Kernel> kernels = {transposed(1024, 768), transposed(1024, 768, DType::bf16, DType::bf16, 4),
                                 transposed(1001, 763, DType::f32, DType::bf16), patches(256, 8, 8, 4)};
  for (std::uint64_t seed = 1; seed <= 20; ++seed) kernels.push_back(random_transposing_kernel(seed));
  for (const int arch : {80, 90, 100}) {
    if (const auto unknown = nvrtc_lacks(arch)) {
      if (std::getenv("REWIRE_REQUIRE_NVRTC") != nullptr) FAIL(*unknown);
      WARN("not run: " << *unknown);
      continue;
    }
    std::string text(prelude());
    for (std::size_t i = 0; i < kernels.size(); ++i)
      text += emit(kernels[i], "kernel" + std::to_string(i), device_target(arch)).text;
    codegen::KernelLaunch table{kernels[0], {0, 1}};
    table.others = {{"other", {2, 3}}};
    text += emit(table, "table", device_target(arch)).text;
    const CudaBinary binary = compile_cubin(text, arch);
    CHECK(binary.kernels.size() == kernels.size() + 1);
    for (const KernelResources& kernel : binary.kernels) {
      CAPTURE(arch, kernel.symbol);
      CHECK(kernel.spill_bytes == 0);
      CHECK(kernel.registers <= 128);
    }
  }
}

}  // namespace
}  // namespace rewire::test
