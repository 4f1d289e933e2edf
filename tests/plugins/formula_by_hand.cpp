// A strategy over rewire_formula.hpp with what no text of a formula has: a parameter, and an op of the author's choice.
#include <rewire_formula.hpp>

namespace {

using namespace rewire::formula;
using namespace rewire::formula::names;  // x, f, h, l, L, ...

constexpr rewire_parameter kParameters[] = {
    rewire::plugin::float_parameter("start", "0.1", "initial value of gamma"),
};

Formulas formulas(const Call& call) {
  Formulas join;
  const Term gamma = join.weight("gamma", Shape::channels(), call.get_float("start"));
  const Term s = custom({h}, [](const Join& at, const std::vector<Value>& operands) {
    return rewire::plugin::emit("exp", {sum(at_least_f32(operands[0]), {at.channel_axis})});
  });
  join.branch = gamma * s * f;
  return join;
}

void rewrite(const Rewrite& call) {
  formulas(call).apply(call);
}

}  // namespace

REWIRE_PLUGIN("by_hand", "0.1.0", "for a test", kParameters, rewrite)
