// Formulas in C++ with the faults that an author may make; `fault` chooses one.
#include <rewire_formula.hpp>

namespace {

using namespace rewire::formula;
using namespace rewire::formula::names;

constexpr rewire_parameter kParameters[] = {
    rewire::plugin::enum_parameter(
        "fault", "moved", "other_weight|after_stream|after_nothing|shared_list|moved|infinite|list_of_list",
        "the fault"),
};

void rewrite(const Rewrite& call) {
  const std::string fault = call.get_text("fault");
  Formulas join, other;
  Term factor = 1;
  if (fault == "other_weight") factor = other.weight("a", {d}, 1.0);
  if (fault == "after_stream" || fault == "after_nothing") {
    factor = join.weight("a", {}, 1.0);
    join.after(fault == "after_stream" ? "a" : "b", factor * mean(x0));
  }
  if (fault == "shared_list") factor = join.weight("a", Shape::out(), 1.0, {.per_block = true})[0];
  if (fault == "infinite") factor = 1e308 * 10;
  if (fault == "list_of_list") {
    const Term list = join.weight("b", Shape::out(), 1.0);
    factor = join.weight("a", Shape::out(), maximum(k, list))[0];
  }
  Term gone = factor;
  if (fault == "moved") factor = std::move(gone);
  join.branch = (fault == "moved" ? gone : factor) * f;
  join.apply(call);
}

}  // namespace

REWIRE_PLUGIN("misuse", "0.1.0", "for a test", kParameters, rewrite)
