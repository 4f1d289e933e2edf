// Schedules as data: their text and back, the few that a kernel may take, and which are refused.
#include "codegen/cuda/schedule.h"

#include <algorithm>
#include <set>

#include "codegen/cuda/emit.h"
#include "codegen/tile/attention.h"
#include "ir/error.h"
#include "ir/opcodes.h"
#include "tests/support/catch.h"
#include "tests/support/many_streams.h"
#include "tests/support/random_tile.h"
#include "tests/support/tile_builder.h"

namespace rewire::test {
namespace {

using namespace codegen::cuda;  // NOLINT: the subject of this file
using ir::DType;

constexpr std::size_t kMost = 6;

/// y = x - mean of its row of `lanes`.
codegen::tile::Kernel centred_rows(std::int64_t rows, std::int64_t lanes) {
  TileBuilder t("centred");
  const auto r = t.row("r", rows);
  const auto c = t.lane("c", lanes);
  const auto x = t.input("x"), y = t.output("y");
  t.body();
  const auto row = t.load(x, {{r, lanes}, {c, 1}});
  const auto mean = t.op(ir::Opcode::div, {t.sum(row, {c}), t.constant(static_cast<double>(lanes))});
  t.store(y, t.op(ir::Opcode::sub, {row, mean}), {{r, lanes}, {c, 1}});
  return t.finish();
}

/// Attention of 65 tokens in bf16, on tensor cores.
codegen::tile::Kernel attention(bool backward, std::int64_t width = 40, std::int64_t tokens = 65) {
  codegen::tile::AttentionShape shape;
  shape.batch = 2, shape.heads = 3, shape.queries = shape.keys = tokens;
  shape.width = shape.value_width = width;
  shape.dtype = DType::bf16;
  shape.narrow = true;
  const codegen::tile::AttentionView view{0, 3 * tokens * width, tokens * width, width, 1};
  shape.q = shape.k = shape.v = shape.output = shape.d_output = shape.dq = shape.dk = shape.dv = view;
  shape.lse = {0, 3 * tokens, tokens, 1, 0};
  shape.streamed_keys = 256, shape.streamed_sums = 256 * 64;
  return backward ? codegen::tile::attention_backward(shape).front()
                  : codegen::tile::attention_forward(shape).front();
}

std::string text_of(const codegen::tile::Kernel& kernel, const Schedule* schedule, int arch = 90) {
  return emit(kernel, "k", device_target(arch), schedule).text;
}

TEST_CASE("a schedule is one line of text, read back to the letter or not at all") {
  const Schedule rows = RowsSchedule{4, 32, 3, 8, 2, 5};
  const Schedule block = BlockSchedule{160, 3, {4, 9}}, plain = BlockSchedule{64, 1, {}};
  CHECK(schedule_text(rows) == "rows: vector 4, threads 32, chunks 3, groups 8, repeats 2, resident 5");
  CHECK(schedule_text(block) == "block: threads 160, resident 3, widths 4 9");
  CHECK(schedule_text(plain) == "block: threads 64, resident 1");
  const Schedule transpose = TransposeSchedule{256, 4, {1, 32, 64}};
  CHECK(schedule_text(transpose) == "transpose: threads 256, resident 4, tile 1 32 64");
  for (const Schedule& schedule : {rows, block, plain, transpose}) {
    const std::string text = schedule_text(schedule);
    REQUIRE(parse_schedule(text));
    CHECK(*parse_schedule(text) == schedule);
    for (std::size_t i = 0; i < text.size(); ++i) {  // a letter left out, doubled, or changed for a sign
      CAPTURE(text, i);
      std::string without = text, twice = text, other = text;
      without.erase(i, 1);
      twice.insert(i, 1, text[i]);
      other[i] = '-';
      for (const std::string& damaged : {without, twice, other}) {
        const auto parsed = parse_schedule(damaged);
        CHECK((!parsed || schedule_text(*parsed) == damaged));
        CHECK((!parsed || *parsed != schedule));
      }
    }
  }
  for (const char* text :
       {"", "rows", "rows:", "block: threads 064, resident 1", "block: threads 64, resident 1 ",
        "block: threads 64, resident 1, widths", "block: threads 1234567, resident 1",
        "transpose: threads 64, resident 1, tile", "transpose: threads 64, resident 1, tile 1 ",
        "rows: vector 4, threads 32, chunks 3, groups 8, repeats 2, resident 5, widths 1"}) {
    CAPTURE(text);
    CHECK_FALSE(parse_schedule(text));
  }
}

TEST_CASE("a kernel's first schedule is the cost model's, and the others are few, distinct and fit it") {
  std::size_t several = 0;
  std::vector<codegen::tile::Kernel> kernels = {attention(false), attention(true), centred_rows(3200, 192)};
  for (std::uint64_t seed = 1; seed <= 80; ++seed) kernels.push_back(random_kernel(seed));
  for (std::size_t i = 0; i < kernels.size(); ++i) {
    for (const int arch : {80, 89, 90}) {
      const codegen::tile::Kernel& kernel = kernels[i];
      INFO("kernel " << i << " (the random ones from 3 on, seeds from 1) for sm_" << arch);
      const std::vector<Schedule> list = schedules(kernel, device_target(arch), kMost);
      REQUIRE_FALSE(list.empty());
      CHECK(list.size() <= kMost);
      CHECK(list == schedules(kernel, device_target(arch), kMost));
      CHECK(text_of(kernel, nullptr, arch) == text_of(kernel, &list[0], arch));
      std::set<std::string> texts;
      for (const Schedule& schedule : list) {
        CAPTURE(schedule_text(schedule));
        CHECK(fits(kernel, schedule, device_target(arch)));
        CHECK(texts.insert(text_of(kernel, &schedule, arch)).second);  // so that no cache mistakes them
      }
      several += list.size() > 1;
    }
  }
  CHECK(several > 100);
}

TEST_CASE("rows of a usual width may be cut in several ways, and attention too") {
  CHECK(schedules(centred_rows(3200, 192), device_target(90), kMost).size() == kMost);
  CHECK(schedules(centred_rows(3200, 192), device_target(90), 2).size() == 2);
  CHECK(schedules(attention(false), device_target(90), kMost).size() >= 3);
  CHECK(schedules(attention(true), device_target(90), kMost).size() >= 3);
}

int count_of(std::string_view part, std::string_view text) {
  int count = 0;
  for (std::size_t at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++count;
  return count;
}

TEST_CASE(
    "a row of many streams is a block's, of few threads and several at once, and its sums go together") {
  const codegen::tile::Kernel kernel = many_streams(50432, 384, 30);
  const std::vector<Schedule> list = schedules(kernel, device_target(90), kMost);
  const auto& model = std::get<RowsSchedule>(list[0]);
  CHECK(model.threads > 32);
  CHECK(model.groups == 1);
  CHECK(model.elements() >= 2);
  CHECK(model.resident_blocks >= 2);
  std::set<int> residents;
  for (const Schedule& schedule : list) {
    const auto& rows = std::get<RowsSchedule>(schedule);
    if (rows.threads == model.threads && rows.vector == model.vector) residents.insert(rows.resident_blocks);
  }
  CHECK(residents.size() >= 3);  // for a clock to choose from
  const std::string text = text_of(kernel, nullptr);
  CHECK(count_of("  over_block<Sum, ", text) == 4);  // 8 + 8 + 8 + 6
  REQUIRE(text.find(" = a0[") != text.npos);
  CHECK(text.find(" = a0[") > text.rfind("  over_block<Sum, "));  // no register until it is read
}

TEST_CASE("what is multiplied next by the warp that computed it stays in its registers") {
  const std::string forward = text_of(attention(false), nullptr),
                    gradient = text_of(attention(true), nullptr);
  CHECK(count_of("multiply_tile<", forward) == 1);
  CHECK(count_of("// [65][40]", forward) == 3);  // q, k, v; not p
  CHECK(count_of("__syncthreads", forward) == 2);
  CHECK(count_of("multiply_tile<", gradient) == 4);  // dv, dk; apart for the last queries
  CHECK(count_of("// [65][40]", gradient) == 5);     // q, k, v, do, o
  CHECK(count_of("// [65][72]", gradient) == 1);     // ds, for dq
  CHECK(count_of("round_to_bf16", gradient) == 0);   // a tile is rounded as it leaves
  CHECK(count_of("pairs_at<8>", gradient) == 2);     // do and o, for D
}

TEST_CASE("sums of chained products that registers do not hold go through shared memory") {
  const std::string text = text_of(attention(true, 160), nullptr);
  CHECK(count_of("multiply_tile<", text) == 2);  // apart for the last queries
  CHECK(count_of("multiply<", text) == 6);       // s, dp, also for the last queries; dk or dv; dq
}

TEST_CASE("where ds does not fit, the gradient walks the queries in windows, as wide as fit") {
  const std::string text = text_of(attention(true, 64, 197), nullptr, 89);
  CHECK(count_of("// [64][72]", text) == 2);   // two windows of 32 of q, do
  CHECK(count_of("// [197][72]", text) == 2);  // k, v
  CHECK(count_of("// [197][40]", text) == 1);  // a window of ds
  CHECK(count_of("for (int first = 0; first < 197; first += 32)", text) == 1);
  CHECK(count_of("copy_rows<32, ", text) == 4);  // the first window, the next ones
  CHECK(count_of("copy_rows<5, ", text) == 2);   // the last
  CHECK(count_of("multiply_tile<", text) == 4);  // dv, dk; apart for the last queries
  CHECK(count_of("__syncthreads", text) == 3);   // before all; in a window, two
  CHECK(count_of("first += 16)", text_of(attention(true, 64, 256), nullptr, 89)) == 1);
  CHECK(count_of("first += ", text_of(attention(true, 64, 197), nullptr, 90)) == 1);  // of D; ds fits
}

TEST_CASE("only the last tile of a warp's rows looks for the end of the columns") {
  const std::string text = text_of(attention(true), nullptr);
  const std::size_t loop = text.find("for (int right = 0; right < 64; right += 16)");
  const std::size_t last = text.find("const int right = 64;");
  REQUIRE(loop != text.npos);
  REQUIRE(last != text.npos);
  const std::string inner = text.substr(loop, last - loop), end = text.substr(last);
  CHECK(count_of("? ", inner) == 0);
  CHECK(count_of(", true>(", inner) == 4);  // s, dp; dv, dk
  CHECK(count_of("put_tile<2, true, ", inner) == 1);
  CHECK(count_of(" < 65 ? ", end) == 2);  // p, ds
  CHECK(count_of("power_of_two(", inner) == 1);
  CHECK(count_of("lse[", inner) == 0);  // it is in shared memory
}

TEST_CASE("a kernel waits for its copies once, when all of its loads are in flight") {
  const std::string text = text_of(attention(true), nullptr);
  CHECK(count_of("copy_rows<", text) == 5);  // q, k, v, do, o
  CHECK(count_of("finish_copies();", text) == 1);
  CHECK(text.find("lse[") < text.find("finish_copies();"));
}

TEST_CASE("what does not fit a kernel is refused") {
  const codegen::tile::Kernel rows = centred_rows(3200, 192), other = centred_rows(3200, 200);
  const DeviceTarget target = device_target(90);
  const auto good = std::get<RowsSchedule>(schedules(rows, target, 1)[0]);
  const auto with = [&](int RowsSchedule::* number, int value) {
    RowsSchedule changed = good;
    changed.*number = value;
    return Schedule(changed);
  };
  CHECK(fits(rows, good, target));
  CHECK_FALSE(fits(rows, BlockSchedule{}, target));
  for (const Schedule& schedule :
       {with(&RowsSchedule::vector, 3), with(&RowsSchedule::vector, 8), with(&RowsSchedule::threads, 0),
        with(&RowsSchedule::threads, 48), with(&RowsSchedule::threads, 2048),
        with(&RowsSchedule::chunks, good.chunks + 1), with(&RowsSchedule::chunks, good.chunks - 1),
        with(&RowsSchedule::groups, 0), with(&RowsSchedule::groups, 999999), with(&RowsSchedule::repeats, 0),
        with(&RowsSchedule::repeats, 999999), with(&RowsSchedule::resident_blocks, 0),
        with(&RowsSchedule::resident_blocks, 99)}) {
    CAPTURE(schedule_text(schedule));
    CHECK_FALSE(fits(rows, schedule, target));
    CHECK_THROWS_AS(emit(rows, "k", target, &schedule), InternalError);
  }
  const Schedule elsewhere = RowsSchedule{4, 16, 3, 16, 1, 1};  // 192 lanes, and not 200
  CHECK(fits(rows, elsewhere, target));
  CHECK_FALSE(fits(other, elsewhere, target));

  const codegen::tile::Kernel heads = attention(true);
  const auto tiles = std::get<BlockSchedule>(schedules(heads, target, 1)[0]);
  REQUIRE(tiles.widths.size() == 2);
  CHECK(fits(heads, tiles, target));
  CHECK_FALSE(fits(heads, good, target));
  for (const BlockSchedule& schedule :
       {BlockSchedule{100, 1, tiles.widths}, BlockSchedule{0, 1, tiles.widths},
        BlockSchedule{128, 99, tiles.widths}, BlockSchedule{128, 1, {}},
        BlockSchedule{128, 1, {tiles.widths[0] - 1, tiles.widths[1]}},
        BlockSchedule{128, 1, {tiles.widths[0], 100}}, BlockSchedule{128, 1, {tiles.widths[0], 0}}}) {
    CAPTURE(schedule_text(schedule));
    CHECK_FALSE(fits(heads, schedule, target));
  }
}

TEST_CASE(
    "a number of warps that is set holds for block kernels that fit in it, and for all their candidates") {
  const codegen::tile::Kernel heads = attention(true);
  DeviceTarget target;
  const Schedule usual = schedules(heads, target, 1)[0];
  const auto warps_of = [](const Schedule& schedule) {
    return std::get<BlockSchedule>(schedule).threads / 32;
  };
  for (const int warps : {2, 4, 8}) {
    CAPTURE(warps);
    target.block_warps = warps;
    const std::vector<Schedule> candidates = schedules(heads, target, 6);
    REQUIRE_FALSE(candidates.empty());
    for (const Schedule& candidate : candidates) {
      CHECK(warps_of(candidate) == warps);
      CHECK(fits(heads, candidate, target));
    }
    CHECK(emit(heads, "k", target).launch.threads == 32 * warps);
  }
  target.block_warps = 32;  // more than its registers allow: the cost model decides
  CHECK(schedules(heads, target, 1)[0] == usual);
  CHECK(emit(centred_rows(3200, 192), "k", target).text ==
        emit(centred_rows(3200, 192), "k", DeviceTarget()).text);
  target.block_warps = 0;
  CHECK(schedules(heads, target, 1)[0] == usual);
}

}  // namespace
}  // namespace rewire::test
