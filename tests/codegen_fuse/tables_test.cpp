// Which launches become one, where the table stands, and what keeps them apart. Programs are drawn launch by
// launch; what comes out is read as "a+b | c": a table of a and b, then c.
#include "codegen/tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "ir/opcodes.h"
#include "ir/passes/pass.h"
#include "ir/text.h"
#include "tests/support/catch.h"
#include "tests/support/tile_builder.h"

using namespace rewire;
using codegen::BufferKind;

namespace {

constexpr std::int64_t kSmall = 8, kOther = 16;  // elements
constexpr std::int64_t kLarge = 1000;            // the most that a table may hold longer

/// y = 2 x, or x = 2 x in place.
codegen::tile::Kernel doubling(const std::string& name, std::int64_t lanes, bool in_place) {
  test::TileBuilder t(name);
  const auto c = t.lane("c", lanes);
  const auto x = in_place ? t.argument("x", codegen::tile::ArgumentUse::read_write) : t.input("x");
  const auto y = in_place ? x : t.output("y");
  t.store(y, t.op(ir::Opcode::mul, {t.load(x, {{c, 1}}), t.constant(2)}), {{c, 1}});
  return t.finish();
}

/// Buffers come to be when they are first named: s… is state, a… an argument, all others are temporaries.
class Draft {
 public:
  /// `room`: something holds more memory than all launches of a test, so that its peak binds none of them.
  explicit Draft(bool room = true) {
    if (room) temporary("room", 100 * kLarge).kernel("top", "a", "room", 4);
  }

  /// `to` = 2 `from` over `lanes` elements: one structure for each number of lanes.
  Draft& kernel(const std::string& name, const std::string& from, const std::string& to,
                std::int64_t lanes = kSmall) {
    program_.launches.emplace_back(
        codegen::KernelLaunch{doubling(name, lanes, false), {buffer(from, lanes), buffer(to, lanes)}});
    return *this;
  }
  Draft& update(const std::string& name, const std::string& state, std::int64_t lanes = kSmall) {
    program_.launches.emplace_back(
        codegen::KernelLaunch{doubling(name, lanes, true), {buffer(state, lanes)}});
    return *this;
  }
  Draft& product(const std::string& from, const std::string& to) {
    codegen::GemmLaunch gemm;
    for (auto& [view, name] : {std::pair{&gemm.a, from}, std::pair{&gemm.b, from}, std::pair{&gemm.c, to}})
      *view = {buffer(name, kSmall), 0, {1, 1}, {1, 1}};
    program_.launches.emplace_back(std::move(gemm));
    return *this;
  }
  /// A buffer larger than what launches touch of it.
  Draft& temporary(const std::string& name, std::int64_t elements) {
    buffer(name, elements);
    return *this;
  }

  std::string merged() {
    codegen::WorkGrain grain;
    grain.table_bytes = 4 * kLarge;
    codegen::merge_launches(program_, grain);
    std::string text;
    for (const codegen::Launch& launch : program_.launches) {
      const auto* kernel = std::get_if<codegen::KernelLaunch>(&launch);
      if (kernel != nullptr && kernel->kernel.name == "top") continue;
      text += text.empty() ? "" : " | ";
      if (kernel == nullptr) text += "product";
      for (std::size_t member = 0; kernel != nullptr && member < kernel->members(); ++member)
        text += (member > 0 ? "+" : "") + kernel->member_name(member);
    }
    return text;
  }
  const codegen::Program& program() const { return program_; }

 private:
  std::int32_t buffer(const std::string& name, std::int64_t elements) {
    const auto [it, fresh] = buffers_.emplace(name, static_cast<std::int32_t>(program_.buffers.size()));
    if (fresh) {
      const BufferKind kind = name[0] == 's'   ? BufferKind::state
                              : name[0] == 'a' ? BufferKind::argument
                                               : BufferKind::temporary;
      program_.buffers.push_back({name, kind, {ir::DType::f32, {elements}}, {}});
    }
    return it->second;
  }

  codegen::Program program_;
  std::map<std::string, std::int32_t> buffers_;
};

}  // namespace

TEST_CASE("launches of one structure that share nothing are one table, with the buffers of each") {
  Draft draft;
  draft.kernel("p", "a1", "x").kernel("q", "a2", "y").kernel("r", "a3", "z");
  CHECK(draft.merged() == "p+q+r");
  const auto& table = std::get<codegen::KernelLaunch>(draft.program().launches[1]);
  REQUIRE(table.members() == 3);
  CHECK(table.member_buffers(0) == std::vector<std::int32_t>{2, 3});
  CHECK(table.member_buffers(2) == std::vector<std::int32_t>{6, 7});
}

TEST_CASE("members may read one buffer") {
  CHECK(Draft().kernel("p", "a1", "x").kernel("q", "a1", "y").merged() == "p+q");
}

TEST_CASE("launches of other structures, and calls, are not merged") {
  CHECK(Draft().kernel("p", "a1", "x").kernel("q", "a2", "y", kOther).merged() == "p | q");
  CHECK(Draft().kernel("p", "a1", "x").update("q", "s").merged() == "p | q");
  CHECK(Draft().product("a1", "x").product("a2", "y").merged() == "product | product");
}

TEST_CASE("a launch that reads what another writes stays behind it") {
  CHECK(Draft().kernel("p", "a1", "x").kernel("q", "x", "y").merged() == "p | q");
  // Over launches between, whatever these are.
  CHECK(Draft().kernel("p", "a1", "x").kernel("r", "x", "y", kOther).kernel("q", "y", "z").merged() ==
        "p | r | q");
  CHECK(Draft().kernel("p", "a1", "x").product("x", "y").kernel("q", "y", "z").merged() == "p | product | q");
}

TEST_CASE("no launch passes an update in place of what it reads, nor one update another of the same") {
  CHECK(Draft().kernel("p", "s", "x").update("u", "s", kOther).kernel("q", "s", "y").merged() == "p | u | q");
  CHECK(Draft().update("u", "s").update("v", "s").merged() == "u | v");
  CHECK(Draft().kernel("p", "s1", "x").update("u", "s2", kOther).kernel("q", "s1", "y").merged() ==
        "p+q | u");
  CHECK(Draft().update("u", "s1").update("v", "s2").merged() == "u+v");
}

TEST_CASE("two writes of one buffer keep their order") {
  CHECK(Draft().kernel("p", "a1", "x").kernel("q", "a2", "x").merged() == "p | q");
  CHECK(Draft().kernel("p", "a1", "x").kernel("r", "a3", "x", kOther).kernel("q", "a2", "x").merged() ==
        "p | r | q");
}

TEST_CASE("last sums behind a chain come together where the last of them stood") {
  CHECK(Draft()
            .kernel("chain1", "a1", "x1", kOther)
            .kernel("sum1", "x1", "g1")
            .kernel("chain2", "x1", "x2", kOther)
            .kernel("sum2", "x2", "g2")
            .kernel("chain3", "x2", "x3", kOther)
            .kernel("sum3", "x3", "g3")
            .merged() == "chain1 | chain2 | chain3 | sum1+sum2+sum3");
}

TEST_CASE("what is known early comes together where the first stood, before who reads it") {
  CHECK(Draft()
            .kernel("part1", "a1", "x1", kOther)
            .kernel("sum1", "x1", "g1")
            .kernel("part2", "a2", "x2", kOther)
            .kernel("sum2", "x2", "g2")
            .kernel("norm", "g1", "n", 24)
            .update("u1", "s1")
            .update("u2", "s2")
            .merged() == "part1+part2 | sum1+sum2 | norm | u1+u2");
}

TEST_CASE("a table that frees the way lets others merge") {
  // sum1 cannot pass its reader, nor sum2 what it reads, before the readers are one.
  CHECK(Draft()
            .kernel("chain1", "a1", "x1", kOther)
            .kernel("sum1", "x1", "g1")
            .kernel("reader1", "g1", "r1", 24)
            .kernel("chain2", "x1", "x2", kOther)
            .kernel("sum2", "x2", "g2")
            .kernel("reader2", "g2", "r2", 24)
            .merged() == "chain1 | chain2 | sum1+sum2 | reader1+reader2");
}

TEST_CASE("members hold no more together than the program ever did, and one such tensor") {
  const auto pairs = [](Draft draft) {
    for (int pair = 1; pair <= 3; ++pair) {
      const std::string number = std::to_string(pair);
      draft.temporary("x" + number, kLarge).kernel("p" + number, "a" + number, "x" + number);
      draft.kernel("r" + number, "x" + number, "s" + number, kOther);
    }
    return draft.merged();
  };
  CHECK(pairs(Draft(false)) == "p1+p2 | r1+r2 | p3 | r3");
  CHECK(pairs(Draft()) == "p1+p2+p3 | r1+r2+r3");  // more is held elsewhere
}

TEST_CASE("no large tensor is held longer for a table's sake, a state or argument of any size is") {
  const auto pairs = [](std::int64_t elements, const std::string& from) {
    Draft draft;
    draft.temporary(from + "1", elements).temporary(from + "2", elements);
    if (from == "x") draft.kernel("p", "a1", "x1", 40);
    draft.kernel("r", from + "1", "s1", kOther);
    if (from == "x") draft.kernel("q", "x1", "x2", 48);
    draft.kernel("t", from + "2", "s2", kOther);
    return draft.merged();
  };
  CHECK(pairs(kLarge, "x") == "p | q | r+t");
  CHECK(pairs(kLarge + 1, "x") == "p | r | q | t");
  CHECK(pairs(100 * kLarge, "a") == "r+t");
}

TEST_CASE("lowering merges, unless it is told not to, and the printed program names every member") {
  std::string text = "module @m {\n";
  std::string arguments, body;
  for (int i = 0; i < 3; ++i) {
    text += fmt::format("param @w{} : f32[40] {{init = \"zeros\"}}\n", i);
    arguments += fmt::format("{}%x{}: f32[40]", i == 0 ? "" : ", ", i);
    body += fmt::format("%w{0} = param {{name = \"w{0}\"}} : f32[40]\n", i);
    body += fmt::format("%d{0} = mul %w{0}, %x{0} : f32[40]\n", i);
    body += fmt::format("update %d{0} {{name = \"w{0}\"}}\n", i);
  }
  const ir::Module module =
      ir::parse(text + "func @main(" + arguments + ") -> () {\n" + body + "return\n}\n}\n", "t.rir");
  const ir::Function& main = module.function("main");
  const codegen::Program apart = codegen::lower(module, main, {true, {}, false});
  const codegen::Program merged = codegen::lower(module, main);
  CHECK(apart.launches.size() == 3);
  REQUIRE(merged.launches.size() == 1);
  const std::string printed = codegen::print(merged);
  CHECK(printed.find("\n  table of 3\n    kernel ") != std::string::npos);
  for (const codegen::Launch& launch : apart.launches) {
    const std::string& name = std::get<codegen::KernelLaunch>(launch).kernel.name;
    CAPTURE(name, printed);
    CHECK(printed.find(" " + name) != std::string::npos);
  }
}
