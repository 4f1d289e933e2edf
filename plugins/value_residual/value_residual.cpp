// Value residuals (Zhou et al., Value Residual Learning, 2024): all later attentions also read V_1, the
// values of the first attention. They use
//   V' = first V_1 + own V
// instead of V. kind=fixed: both factors are constants. learnable: each attention trains its own two
// factors, which start at those constants. shared: V' = V_1 (SVFormer).
#include <rewire_plugin.hpp>
#include <string>

namespace {

using namespace rewire::plugin;

constexpr rewire_parameter kParameters[] = {
    enum_parameter("kind", "fixed", "fixed|learnable|shared",
                   "mix of values; fixed: constants first and own; learnable: trained, starting from first "
                   "and own; shared: only the first attention's values"),
    float_parameter("first", "0.5", "weight of the first attention's values; not used by kind=shared"),
    float_parameter("own", "0.5", "weight of an attention's own values; not used by kind=shared"),
};

Value mixed(const Rewrite& call, const Join& join, const Value& first, const Value& own) {
  const std::string kind = call.get_text("kind");
  if (kind == "shared") return first;
  const double a = call.get_float("first"), b = call.get_float("own");
  if (kind == "fixed") return a * first + b * own;
  const Value of_first = join.add_scalar("first", Init::constant(a)) * first;
  return of_first + join.add_scalar("own", Init::constant(b)) * own;
}

void rewrite(const Rewrite& call) {
  Value first;
  std::string scope;
  bool changed = false;
  for (const Join& join : call.joins()) {
    if (!join.has("v")) continue;
    const Value own = join.value("v");
    if (!first || join.scope != scope || own.type() != first.type()) {
      first = own;
      scope = join.scope;
    } else {
      join.replace("v", mixed(call, join, first, own));
      changed = true;
    }
  }
  if (!changed)
    throw Error("it needs two blocks with attention: the first gives the values, the others read them");
}

}  // namespace

REWIRE_PLUGIN("value_residual", "1.0.0",
              "lets every attention read the first attention's values besides its own", kParameters, rewrite)
