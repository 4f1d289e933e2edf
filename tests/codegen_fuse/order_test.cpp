// The order of the nodes of a grouping: what it answers, and what that costs as networks grow deeper. Counted
// are the nodes that it looks at, not seconds.
#include "codegen/fuse/order.h"

#include <fmt/format.h>

#include <algorithm>
#include <random>
#include <vector>

#include "codegen/fuse/grouping.h"
#include "codegen/fuse/prepare.h"
#include "ir/text.h"
#include "tests/codegen_fuse/fuse.h"
#include "tests/support/catch.h"

using namespace rewire;
using codegen::NodeOrder;

namespace {

/// The same graph, of which every question is answered by walking all of it.
class Reference {
 public:
  int add_node() {
    next_.emplace_back();
    home_.push_back(static_cast<int>(home_.size()));
    return static_cast<int>(home_.size()) - 1;
  }
  bool live(int node) const { return home_[static_cast<std::size_t>(node)] == node; }
  int count() const { return static_cast<int>(home_.size()); }
  void add_edge(int from, int to) { next_[static_cast<std::size_t>(from)].push_back(to); }
  void merge(int into, int gone) {
    for (int& home : home_) home = home == gone ? into : home;
    auto& edges = next_[static_cast<std::size_t>(gone)];
    next_[static_cast<std::size_t>(into)].insert(next_[static_cast<std::size_t>(into)].end(), edges.begin(),
                                                 edges.end());
  }
  /// `direct`: without the edge from one to the other itself.
  bool reaches(int from, int to, bool direct = true) const {
    std::vector<bool> seen(home_.size());
    std::vector<int> pending = {from};
    while (!pending.empty()) {
      const int node = pending.back();
      pending.pop_back();
      if (node == to) return true;
      if (seen[static_cast<std::size_t>(node)]) continue;
      seen[static_cast<std::size_t>(node)] = true;
      for (const int edge : next_[static_cast<std::size_t>(node)]) {
        const int other = home_[static_cast<std::size_t>(edge)];
        if (direct || node != from || other != to) pending.push_back(other);
      }
    }
    return false;
  }

 private:
  std::vector<std::vector<int>> next_;
  std::vector<int> home_;
};

/// Blocks of a product, tanh and a sum, and then their gradients, the last block's first.
std::string deep_network(int depth) {
  std::string text = "    func @main(%x0: f32[40,24], %g: f32[40,24]";
  for (int k = 0; k < depth; ++k) text += fmt::format(", %w{}: f32[24,24]", k);
  std::string results = "s: f32[40,24]", returned = fmt::format("s = %g{}", depth);
  for (int k = 0; k < depth; ++k) {
    results += fmt::format(", d{}: f32[24,24]", k);
    returned += fmt::format(", d{0} = %d{0}", k);
  }
  text += ") -> (" + results + ") {\n      %one = constant {value = 1.0} : f32[40,24]\n";
  for (int k = 0; k < depth; ++k) {
    text += fmt::format("      %p{0} = matmul %x{0}, %w{0} : f32[40,24]\n", k);
    text += fmt::format("      %t{0} = tanh %p{0} : f32[40,24]\n", k);
    text += fmt::format("      %x{1} = add %x{0}, %t{0} : f32[40,24]\n", k, k + 1);
  }
  text += fmt::format("      %g0 = mul %g, %x{} : f32[40,24]\n", depth);
  for (int i = 0; i < depth; ++i) {
    const int k = depth - 1 - i;
    text += fmt::format("      %q{0} = mul %t{0}, %t{0} : f32[40,24]\n", k);
    text += fmt::format("      %r{0} = sub %one, %q{0} : f32[40,24]\n", k);
    text += fmt::format("      %h{0} = mul %g{1}, %r{0} : f32[40,24]\n", k, i);
    text += fmt::format("      %d{0} = matmul %x{0}, %h{0} {{transpose_a = true}} : f32[24,24]\n", k);
    text += fmt::format("      %b{0} = matmul %h{0}, %w{0} {{transpose_b = true}} : f32[40,24]\n", k);
    text += fmt::format("      %g{2} = add %g{1}, %b{0} : f32[40,24]\n", k, i, i + 1);
  }
  return test::module(text + "      return " + returned + "\n    }\n");
}

std::int64_t steps_at(int depth) {
  codegen::Prepared prepared{ir::parse(deep_network(depth)), {}};
  codegen::prepare(prepared);
  return codegen::Grouping(std::move(prepared), {}).order_steps();
}

}  // namespace

TEST_CASE("the order of nodes answers as a walk over the whole graph does, while nodes come and merge") {
  const unsigned seed = GENERATE(1u, 2u, 3u, 4u, 5u);
  CAPTURE(seed);
  std::mt19937 random(seed);
  NodeOrder order;
  Reference reference;
  const auto draw = [&] { return static_cast<int>(random() % static_cast<unsigned>(reference.count())); };
  int merged = 0;
  for (int round = 0; round < 400; ++round) {
    const int node = order.add_node();
    REQUIRE(reference.add_node() == node);
    for (int trial = 0; trial < 12; ++trial) {
      const int a = trial < 2 ? node : draw(), b = draw();
      if (a == b || !reference.live(a) || !reference.live(b)) continue;
      if (trial < 6 && !reference.reaches(b, a)) {
        order.add_edge(a, b);
        reference.add_edge(a, b);
      } else if (trial == 11 && !reference.reaches(b, a) && !reference.reaches(a, b, false)) {
        order.merge(a, b);
        reference.merge(a, b);
        ++merged;
      }
    }
    const int from = draw(), to = draw();
    if (reference.live(from) && reference.live(to))
      CHECK(order.reaches({from}, to) == reference.reaches(from, to));
  }
  CHECK(merged > 10);
}

TEST_CASE("ops on a longest chain come before those that it leads to, whatever stands between") {
  const ir::Module module = ir::parse(deep_network(3));
  const std::vector<codegen::SpineSpan> spans = codegen::spine_spans(module.function("main"));
  const auto& body = module.function("main").body;
  const auto definitions = module.function("main").definitions();
  int last = 0;
  for (std::size_t i = 0; i < body.size(); ++i) {
    for (const ir::Value operand : body[i].operands) {
      const auto at = definitions[static_cast<std::size_t>(operand.id)];
      if (at < 0) continue;
      const codegen::SpineSpan& before = spans[static_cast<std::size_t>(at)];
      CHECK(before.leads_to <= spans[i].leads_to);
      CHECK(before.reached_from <= spans[i].reached_from);
    }
    if (spans[i].leads_to == spans[i].reached_from) last = std::max(last, spans[i].leads_to);
  }
  CHECK(last == 3 * 3 + 1 + 3 * 3);  // product, tanh, sum; %g0; product with h, with w, sum
}

TEST_CASE("the order of nodes costs a deeper network as much a block as a shallow one") {
  const std::int64_t first = steps_at(16), second = steps_at(32), third = steps_at(64);
  CAPTURE(first, second, third);
  CHECK(second - first > 0);
  CHECK(third - second <= 9 * (second - first) / 4);  // linear: 2; quadratic: 4
}
