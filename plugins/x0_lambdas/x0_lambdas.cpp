// The embedding mixed into every block's input (modded-nanogpt and nanochat, public training code, 2024-2026):
//   x = r_b x + l_b x0      before block b; x0 is the embedding, r_b and l_b are trained numbers
// backout=true subtracts from what the last block gives a trained multiple of what the middle block gave,
//   x' = x - c x_m          with m = B / 2, rounded down, of B blocks counted from 0
// Rates, betas, decay and initial values are nanochat's. The rates are relative to its scalar_lr.
#include <rewire_plugin.hpp>
#include <vector>

namespace {

using namespace rewire::plugin;

constexpr double kFirstResid = 1.15, kLastResid = 1.05, kFirstX0 = 0.20, kLastX0 = 0.05, kBackout = 0.2;

constexpr rewire_parameter kParameters[] = {
    enum_parameter(
        "start", "falling", "falling|plain",
        "initial factors of x, x0 and backout; falling: 1.15 and 0.20 in the first block to 1.05 and "
        "0.05 in the last, 0.2; plain: 1, 0, 0"),
    float_parameter("resid_lr", "0.01", "learning rate of the factors of x, relative to the run's", above(0)),
    float_parameter("x0_lr", "1", "learning rate of the factors of x0, relative to the run's", above(0)),
    bool_parameter("backout", "false",
                   "subtracts a trained multiple of the middle block's output at the end"),
    float_parameter("backout_lr", "0.4", "learning rate of that multiple, relative to the run's", above(0)),
};

/// Returns whether `join` follows `before` directly in the network, so that both are in one chain.
bool follows(const Join& join, const Join& before) {
  return join.scope == before.scope && join.join_index == before.join_index + 1 &&
         join.stream.type() == before.stream.type();
}

Value add_factor(const Join& join, const char* name, double start, const WeightHint& hint) {
  const Value factor = join.add_scalar(name, Init::constant(start));
  join.weight_hint(name, hint);
  return factor;
}

/// The trained factors of x and x0 in front of a block, of which `join` is the first join.
struct Factors {
  Value x, x0;

  Factors(const Rewrite& call, const Join& join) {
    const bool falls = call.get_text("start") == "falling";
    const double place = join.block_count > 1
                             ? static_cast<double>(join.block) / static_cast<double>(join.block_count - 1)
                             : 0;
    x = add_factor(
        join, "resid_lambda", falls ? kFirstResid + place * (kLastResid - kFirstResid) : 1,
        {.lr_scale = call.get_float("resid_lr"), .weight_decay = 0.05, .beta1 = 0.8, .beta2 = 0.95});
    x0 = add_factor(join, "x0_lambda", falls ? kFirstX0 + place * (kLastX0 - kFirstX0) : 0,
                    {.lr_scale = call.get_float("x0_lr"), .weight_decay = 0, .beta1 = 0.96, .beta2 = 0.95});
  }
};

/// Subtracts at the last join a trained multiple of `middle`.
void back_out(const Rewrite& call, const Join& last, const Value& middle) {
  if (!middle || middle.type() != last.stream.type())
    throw Error("backout: " + last.name + " ends another chain of blocks than the middle block is in");
  const Value factor =
      add_factor(last, "backout_lambda", call.get_text("start") == "falling" ? kBackout : 0,
                 {.lr_scale = call.get_float("backout_lr"), .weight_decay = 0, .beta1 = 0.8, .beta2 = 0.95});
  last.change_sum(last.sum() - factor * middle);
}

void rewrite(const Rewrite& call) {
  const bool backs_out = call.get_bool("backout");
  const std::vector<Join> joins = call.joins();
  Value x0, middle;  // of the chain of joins
  bool changes = false;
  for (std::size_t i = 0; i < joins.size(); ++i) {
    const Join& join = joins[i];
    const bool begins = i == 0 || !follows(join, joins[i - 1]);
    const bool ends = i + 1 == joins.size() || !follows(joins[i + 1], join);
    if (begins) {
      x0 = join.stream;
      middle = Value();
      if (join.join_index == 0) {
        const Factors factors(call, join);
        join.replace("entry", (factors.x + factors.x0) * x0);
        changes = true;
      }
    }
    const bool ends_block = ends || joins[i + 1].block != join.block;
    if (backs_out && ends_block && join.block == join.block_count / 2) middle = join.sum();
    if (!ends && ends_block) {
      const Factors factors(call, joins[i + 1]);
      join.change_sum(factors.x * join.sum() + factors.x0 * x0);
      changes = true;
    }
    if (backs_out && join.join_index + 1 == join.join_count) {
      back_out(call, join, middle);
      changes = true;
    }
  }
  if (!changes)
    throw Error("it needs the first block, or blocks that follow each other, with all their joins");
}

}  // namespace

REWIRE_PLUGIN("x0_lambdas", "1.0.0", "mixes the embedding into every block's input by trained factors",
              kParameters, rewrite)
