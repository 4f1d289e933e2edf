// The CUDA text of a few kernels is pinned whole; of others, what it must and must not hold.
#include "codegen/cuda/emit.h"
#include "ir/error.h"
#include "ir/opcodes.h"
#include "tests/support/catch.h"
#include "tests/support/tile_builder.h"

namespace rewire::test {
namespace {

using codegen::cuda::device_target;
using codegen::cuda::emit;
using codegen::cuda::KernelSource;
using ir::DType;
using ir::Opcode;

/// y = x - mean of x, in bf16, and the sums of the columns of y as partials.
codegen::tile::Kernel centre() {
  TileBuilder t("centre_100x192");
  const auto r = t.row("r", 100);
  const auto c = t.lane("c", 192);
  t.partitions(3);
  t.kernel().origin = {"sum at norm", "div at norm", "sub at norm"};
  const auto x = t.input("norm.x", DType::bf16);
  const auto y = t.output("norm.y", DType::bf16);
  const auto partials = t.output("norm.y.partials");
  const auto columns = t.carry(t.constant(0, {c}));
  t.body();
  const auto row = t.load(x, {{r, 192}, {c, 1}});
  const auto mean = t.op(Opcode::div, {t.sum(row, {c}), t.constant(192)});
  const auto centred = t.op(Opcode::sub, {row, mean});
  t.store(y, centred, {{r, 192}, {c, 1}});
  const auto last = t.carry_next(columns, t.op(Opcode::add, {columns, centred}));
  t.epilogue();
  t.store(partials, last, {{c, 1}}, 0, 192);
  return t.finish();
}

constexpr const char* kCentre = R"(// centre_100x192
// rows (r 100)  lanes (c 192)  in 3 parts
//   sum at norm
//   div at norm
//   sub at norm
// reads 38.4 kB, writes 40.7 kB, 57.7 kflop; 3 blocks of 256 threads, 12.3 kB shared
// 16 threads a row, 12 elements each; 16 groups walk a part's rows in turn and add up at the end, in their order
extern "C" __global__ void __launch_bounds__(256, 1) centre(
    const bf16* __restrict__ x,
    bf16* __restrict__ y,
    float* __restrict__ y_partials) {
  using L = Row<192, 16, 4>;
  REWIRE_SHARED(shared);
  const int thread = int(threadIdx.x) % 16;
  const int group = int(threadIdx.x) / 16;
  const int part = int(blockIdx.x);
  float carried1[L::kElements] = {};
  const int first = part * 34, end = minimum(first + 34, 100);
  for (int base = first; base < end; base += 16) {
    const bool active = base + group < end;
    const int r = active ? base + group : end - 1;
    float x_2[L::kElements];
    load<L, 4>(x_2, x + 192 * r, thread);
    float sum3 = 0.0f;
#pragma unroll
    for (int e = 0; e < L::kElements; ++e) {
      sum3 += x_2[e];
    }
    sum3 = over_threads<Sum, 16>(sum3);
    const float div5 = sum3 / 192.0f;
    float sub6[L::kElements];
#pragma unroll
    for (int e = 0; e < L::kElements; ++e) {
      sub6[e] = x_2[e] - div5;
      if (active) carried1[e] += sub6[e];
    }
    store<L, 4>(y + 192 * r, sub6, thread, active);
  }
  over_groups<Sum, 16, 16>(carried1, shared);
  store<L, 4>(y_partials + 192 * part, carried1, thread, group == 0);
}
)";

/// y = x table[index], where a flag says so.
codegen::tile::Kernel scaled_where(std::int64_t lanes) {
  TileBuilder t("scaled");
  const auto r = t.row("r", 7);
  const auto c = t.lane("c", lanes);
  const auto flag = t.load(t.input("flag", DType::i1), {}, 0, DType::i1);
  const auto x = t.input("x");
  const auto table = t.input("table");
  const auto index = t.input("index", DType::i32);
  const auto y = t.output("y");
  t.body();
  const auto at = t.load(index, {{r, 1}}, 0, DType::i32);
  const auto factor = t.gather(table, {}, at, 1, 20);
  t.store(y, t.op(Opcode::mul, {t.load(x, {{r, lanes}, {c, 1}}), factor}), {{r, lanes}, {c, 1}}, 0, 0, flag);
  return t.finish();
}

constexpr const char* kScaled = R"(// scaled
// rows (r 7)  lanes (c 12)
// reads 369 B, writes 336 B, 84 flop; 1 block of 32 threads
// 4 threads a row, 4 elements each; 8 rows a block
extern "C" __global__ void __launch_bounds__(32, 1) scaled(
    const bool* __restrict__ flag,
    const float* __restrict__ x,
    const float* __restrict__ table,
    const int* __restrict__ index,
    float* __restrict__ y) {
  using L = Row<12, 4, 4>;
  const int thread = int(threadIdx.x) % 4;
  const int group = int(threadIdx.x) / 4;
  const bool flag_0 = flag[0];
  const bool active = group < 7;
  const int r = active ? group : 6;
  const int index_1 = index[r];
  const float table_2 = table[clamped(convert<i64>(index_1), 20)];
  float x_3[L::kElements];
  load<L, 4>(x_3, x + 12 * r, thread);
  float mul4[L::kElements];
#pragma unroll
  for (int e = 0; e < L::kElements; ++e) {
    mul4[e] = x_3[e] * table_2;
  }
  store<L, 4>(y + 12 * r, mul4, thread, active && flag_0);
}
)";

/// The softmax of q k over the keys, times v: what attention is made of.
codegen::tile::Kernel small_attention(std::int64_t queries, std::int64_t keys, std::int64_t width) {
  TileBuilder t("small_attention");
  const auto b = t.outer("b", 6);
  const auto m = t.lane("m", queries), n = t.lane("n", keys), d = t.lane("d", width);
  const auto q = t.load(t.input("q"), {{b, queries * width}, {m, width}, {d, 1}});
  const auto k = t.load(t.input("k"), {{b, keys * width}, {n, width}, {d, 1}});
  const auto v = t.load(t.input("v"), {{b, keys * width}, {n, width}, {d, 1}});
  const auto s = t.dot(q, k, d);
  const auto e = t.op(Opcode::exp, {t.op(Opcode::sub, {s, t.max(s, {n})})});
  const auto o = t.op(Opcode::div, {t.dot(e, v, n), t.sum(e, {n})});
  t.store(t.output("o"), o, {{b, queries * width}, {m, width}, {d, 1}});
  return t.finish();
}

/// Twelve columns of x, scaled by the norm of them all.
codegen::tile::Kernel many_arrays(std::int64_t lanes) {
  TileBuilder t("many_arrays");
  const auto c = t.lane("c", lanes);
  std::vector<TileBuilder::Value> loaded;
  TileBuilder::Value total;
  for (int i = 0; i < 12; ++i) {
    loaded.push_back(t.load(t.input("x"), {{c, 1}}));
    const auto sum = t.sum(t.op(Opcode::mul, {loaded.back(), loaded.back()}), {c});
    total = i == 0 ? sum : t.op(Opcode::add, {total, sum});
  }
  for (const auto& x : loaded) t.store(t.output("y"), t.op(Opcode::div, {x, total}), {{c, 1}});
  return t.finish();
}

bool holds(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

constexpr const char* kTableHead = R"(// a table of 3; the arguments bear the names of the first member's
//   scaled, blocks_0_scaled, blocks_1_scaled
REWIRE_DEVICE void scaled_member(
)";

constexpr const char* kTableFoot =
    R"(extern "C" __global__ void __launch_bounds__(32, 1) scaled(void* const* __restrict__ table) {
  void* const* const member = table + 5 * blockIdx.y;
  scaled_member(
      static_cast<const bool*>(member[0]),
      static_cast<const float*>(member[1]),
      static_cast<const float*>(member[2]),
      static_cast<const int*>(member[3]),
      static_cast<float*>(member[4]));
}
)";

TEST_CASE("a row kernel with sums of columns prints as pinned") {
  const KernelSource source = emit(centre(), "centre", device_target(90));
  CHECK(source.text == kCentre);
  CHECK(source.symbol == "centre");
  CHECK(source.launch.blocks == 3);
}

TEST_CASE("a kernel of elements prints as pinned") {
  CHECK(emit(scaled_where(12), "scaled", device_target(90)).text == kScaled);
}

TEST_CASE("a table's kernel finds the pointers of a block's member, and is else the kernel alone") {
  codegen::KernelLaunch launch{scaled_where(12), {0, 1, 2, 3, 4}};
  CHECK(emit(launch, "scaled", device_target(90)).text == kScaled);
  launch.others = {{"blocks_0_scaled", {5, 1, 2, 3, 6}}, {"blocks_1_scaled", {7, 1, 2, 3, 8}}};
  const std::string alone = kScaled,
                    entry = "extern \"C\" __global__ void __launch_bounds__(32, 1) scaled(\n";
  const std::size_t at = alone.find(entry);
  REQUIRE(at != std::string::npos);
  const KernelSource source = emit(launch, "scaled", device_target(90));
  CHECK(source.text == alone.substr(0, at) + kTableHead + alone.substr(at + entry.size()) + kTableFoot);
  CHECK(source.symbol == "scaled");
  CHECK(source.launch.blocks == 1);  // of a member
}

TEST_CASE("tables of any length share a text, and none with a kernel that is launched alone") {
  codegen::KernelLaunch launch{scaled_where(12), {0, 1, 2, 3, 4}};
  const std::string alone = codegen::cuda::text_key(launch);
  launch.others = {{"other", {5, 1, 2, 3, 6}}};
  const std::string two = codegen::cuda::text_key(launch);
  launch.others.push_back({"third", {7, 1, 2, 3, 8}});
  CHECK(codegen::cuda::text_key(launch) == two);
  CHECK_FALSE(alone == two);
}

TEST_CASE("accesses are as wide as lanes, strides and offsets allow") {
  CHECK(holds(emit(scaled_where(12), "k", device_target(90)).text, "load<L, 4>("));
  CHECK(holds(emit(scaled_where(14), "k", device_target(90)).text, "load<L, 2>("));
  CHECK(holds(emit(scaled_where(13), "k", device_target(90)).text, "load<L, 1>("));
}

TEST_CASE("a block is whole warps") {
  for (std::int64_t lanes = 1; lanes < 70; ++lanes) {
    CAPTURE(lanes);
    CHECK(emit(scaled_where(lanes), "k", device_target(90)).launch.threads % 32 == 0);
  }
}

TEST_CASE("attention keeps its products in shared memory, and each value only as long as it is read") {
  const KernelSource source = emit(small_attention(50, 50, 64), "k", device_target(90));
  CHECK(source.launch.blocks == 6);
  CHECK(holds(source.text, "dot<50, 50, 64, 256, "));
  CHECK(holds(source.text, "dot<50, 64, 50, 256, "));
  // q, k and s, or e, v and o: three arrays of 50 rows of up to 65, and some vectors.
  CHECK(source.launch.shared_bytes < 4 * 4 * 50 * 65);
}

TEST_CASE("what a dot reads stays in device memory where shared memory is too small") {
  codegen::cuda::DeviceTarget small = device_target(80);
  const KernelSource whole = emit(small_attention(50, 50, 64), "k", small);
  small.shared_bytes_per_block = whole.launch.shared_bytes - 1;
  const KernelSource source = emit(small_attention(50, 50, 64), "k", small);
  CHECK(source.launch.shared_bytes <= small.shared_bytes_per_block);
  CHECK_FALSE(source.text == whole.text);
  small.shared_bytes_per_block = 1024;
  CHECK_THROWS_AS(emit(small_attention(50, 50, 64), "k", small), InternalError);
}

TEST_CASE("a row that registers cannot hold is read again instead") {
  CHECK(holds(emit(many_arrays(512), "k", device_target(90)).text, "using L = Row<512, "));
  CHECK_FALSE(holds(emit(many_arrays(8192), "k", device_target(90)).text, "using L = Row<"));
}

TEST_CASE("an architecture that kernels are not written for is refused") {
  CHECK_THROWS_WITH(
      device_target(75),
      "there are no kernels for sm_75; choose from sm_80, sm_86, sm_89, sm_90, sm_100, sm_103, sm_120");
}

}  // namespace
}  // namespace rewire::test
