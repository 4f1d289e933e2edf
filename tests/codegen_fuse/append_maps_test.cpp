// Which maps become part of the kernel whose sums they read, what keeps them apart, and that all buffers hold the same
// bits.
#include "codegen/append_maps.h"

#include <fmt/format.h>

#include <map>
#include <set>

#include "codegen/program.h"
#include "ir/opcodes.h"
#include "tests/support/catch.h"
#include "tests/support/tile_builder.h"
#include "tests/support/tile_interpreter.h"

namespace rewire::append_maps {
namespace {

using codegen::BufferKind;
using codegen::KernelLaunch;
using ir::Opcode;

constexpr std::int64_t kRows = 5, kLanes = 7;
constexpr std::int64_t kMost = 9 * kLanes;  // elements of a buffer

/// sum = the sum of part's rows.
codegen::tile::Kernel summing(std::int64_t rows = kRows, std::int64_t partitions = 1) {
  test::TileBuilder t("finish");
  const auto r = t.row("r", rows);
  const auto c = t.lane("c", kLanes);
  const auto part = t.input("part"), sum = t.output("sum");
  t.partitions(partitions);
  const auto zero = t.constant(0, {c});
  t.body();
  const auto carried = t.carry(zero);
  const auto last = t.carry_next(carried, t.op(Opcode::add, {carried, t.load(part, {{r, kLanes}, {c, 1}})}));
  t.epilogue();
  t.store(sum, last, {{c, 1}}, 0, partitions > 1 ? kLanes : 0);
  return t.finish();
}

/// The map of a batch norm: mean = sum / 4, new = old + (mean - old) / 8; `all`, if asked for, is the sum of |new|.
codegen::tile::Kernel mean(bool all, std::int64_t first = 0, std::int64_t lanes = kLanes) {
  test::TileBuilder t("mean");
  const auto c = t.lane("c", lanes);
  const auto sum = t.input("sum"), old = t.input("old"), mean = t.output("mean"), fresh = t.output("new");
  const auto m = t.op(Opcode::mul, {t.load(sum, {{c, 1}}, first), t.constant(0.25)});
  t.store(mean, m, {{c, 1}});
  const auto before = t.load(old, {{c, 1}});
  const auto step = t.op(Opcode::mul, {t.op(Opcode::sub, {m, before}), t.constant(0.125)});
  const auto after = t.op(Opcode::add, {before, step});
  t.store(fresh, after, {{c, 1}});
  if (all) t.store(t.output("all"), t.sum(t.op(Opcode::abs, {after}), {c}), {});
  return t.finish();
}

/// normed = rows of part, each less the mean: what waits for it.
codegen::tile::Kernel centring() {
  constexpr std::int64_t kMany = 9;
  test::TileBuilder t("centre");
  const auto r = t.outer("r", kMany);
  const auto c = t.lane("c", kLanes);
  const auto x = t.input("maps"), mean = t.input("mean"), y = t.output("normed");
  t.store(y, t.op(Opcode::sub, {t.load(x, {{r, kLanes}, {c, 1}}), t.load(mean, {{c, 1}})}),
          {{r, kLanes}, {c, 1}});
  return t.finish();
}

/// to = - from.
codegen::tile::Kernel negating(const std::string& from, const std::string& to) {
  test::TileBuilder t("negate");
  const auto c = t.lane("c", kLanes);
  const auto x = t.input(from), y = t.output(to);
  t.store(y, t.op(Opcode::neg, {t.load(x, {{c, 1}})}), {{c, 1}});
  return t.finish();
}

/// Launches whose arguments are the buffers of their names.
class Draft {
 public:
  explicit Draft(std::vector<codegen::tile::Kernel> kernels) {
    for (codegen::tile::Kernel& kernel : kernels) {
      KernelLaunch launch{std::move(kernel), {}};
      launch.kernel.name += fmt::format("_{}", program_.launches.size());
      launch.kernel.origin = {"an op"};
      for (const codegen::tile::Argument& argument : launch.kernel.arguments)
        launch.buffers.push_back(buffer(argument.name));
      program_.launches.emplace_back(std::move(launch));
    }
  }

  /// Appends, and holds all buffers but dropped temporaries to what they held before. Returns the launches' names.
  std::string appended() {
    const std::vector<test::TileMemory> before = run();
    codegen::append_maps(program_);
    const std::vector<test::TileMemory> after = run();
    std::string names;
    std::vector<bool> used(program_.buffers.size());
    for (const codegen::Launch& launch : program_.launches) {
      const auto& kernel = std::get<KernelLaunch>(launch);
      names += (names.empty() ? "" : " | ") + kernel.kernel.name;
      for (const std::int32_t id : kernel.buffers) used[static_cast<std::size_t>(id)] = true;
    }
    for (std::size_t i = 0; i < before.size(); ++i) {
      INFO(program_.buffers[i].name << " of " << names);
      if (used[i])
        CHECK(after[i] == before[i]);
      else
        CHECK(program_.buffers[i].name == "sum");
    }
    return names;
  }

  bool stores_sum() const {
    const auto& sum = std::get<KernelLaunch>(program_.launches[0]);
    return std::ranges::find(sum.buffers, buffers_.at("sum")) != sum.buffers.end();
  }

 private:
  std::int32_t buffer(const std::string& name) {
    const auto [it, fresh] = buffers_.try_emplace(name, static_cast<std::int32_t>(program_.buffers.size()));
    const bool result =
        name == "mean" || name == "new" || name == "all" || name == "negative" || name == "normed";
    if (fresh)
      program_.buffers.push_back(
          {name, result ? BufferKind::result : BufferKind::temporary, {ir::DType::f32, {kMost}}, {}});
    return it->second;
  }

  std::vector<test::TileMemory> run() const {
    std::vector<test::TileMemory> all(program_.buffers.size(), test::TileMemory(kMost, -1e30));
    const std::set<std::string> given = {"part", "old", "maps"};
    for (std::size_t k = 0; k < all.size(); ++k) {
      if (!given.contains(program_.buffers[k].name)) continue;
      for (std::size_t i = 0; i < all[k].size(); ++i)
        all[k][i] = static_cast<double>((i * 37 + k) % 11) - 5;  // exact in all sums and products
    }
    for (const codegen::Launch& launch : program_.launches) {
      const auto& kernel = std::get<KernelLaunch>(launch);
      std::vector<test::TileMemory> memory;
      for (const std::int32_t id : kernel.buffers) memory.push_back(all[static_cast<std::size_t>(id)]);
      test::interpret(kernel.kernel, memory);
      for (std::size_t i = 0; i < memory.size(); ++i)
        all[static_cast<std::size_t>(kernel.buffers[i])] = memory[i];
    }
    return all;
  }

  codegen::Program program_;
  std::map<std::string, std::int32_t> buffers_;
};

TEST_CASE("a map becomes part of the kernel whose sums it reads, and the sums are no longer stored") {
  Draft draft({summing(), mean(false), centring()});
  CHECK(draft.appended() == "finish_0 | centre_2");
  CHECK_FALSE(draft.stores_sum());
}

TEST_CASE("a reduction over the map's lanes remains a launch, and reads what the sum's kernel stores") {
  Draft draft({summing(), mean(true), centring()});
  CHECK(draft.appended() == "finish_0 | mean_1 | centre_2");
  CHECK_FALSE(draft.stores_sum());
}

TEST_CASE("sums that another launch reads are still stored") {
  Draft draft({summing(), mean(false), negating("sum", "negative"), centring()});
  CHECK(draft.appended() == "finish_0 | negate_2 | centre_3");
  CHECK(draft.stores_sum());
}

TEST_CASE("a map for which no large launch waits stays apart: a table may take it") {
  CHECK(Draft({summing(), mean(false)}).appended() == "finish_0 | mean_1");
  CHECK(Draft({summing(), mean(false), negating("mean", "negative")}).appended() ==
        "finish_0 | mean_1 | negate_2");
}

TEST_CASE("maps stay apart that read other lanes, fewer lanes, or sums of several parts") {
  CHECK(Draft({summing(), mean(false, 1), centring()}).appended() == "finish_0 | mean_1 | centre_2");
  CHECK(Draft({summing(), mean(false, 0, kLanes - 1), centring()}).appended() ==
        "finish_0 | mean_1 | centre_2");
  CHECK(Draft({summing(kRows, 2), mean(false), centring()}).appended() == "finish_0 | mean_1 | centre_2");
}

TEST_CASE(
    "a map stays apart from its sums if a launch between them uses what it writes, or writes what it reads") {
  CHECK(Draft({summing(), negating("mean", "negative"), mean(false), centring()}).appended() ==
        "finish_0 | negate_1 | mean_2 | centre_3");
  CHECK(Draft({summing(), negating("part", "old"), mean(false), centring()}).appended() ==
        "finish_0 | negate_1 | mean_2 | centre_3");
  CHECK(Draft({summing(), negating("part", "negative"), mean(false), centring()}).appended() ==
        "finish_0 | negate_1 | centre_3");
}

}  // namespace
}  // namespace rewire::append_maps
