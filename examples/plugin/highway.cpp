// Highway joins (Srivastava et al., Highway Networks, 2015): a learned gate weighs the stream x against the
// branch f,
//   x' = g x + (1 - g) f,   g = sigmoid(W x + b),
// element by element. W [D, D] works on the channels; with gate=channel it is a vector w [D], and w x is
// taken channel by channel. b begins positive, so that the first steps train what is nearly the stream alone.
#include <rewire_plugin.hpp>

namespace {

using namespace rewire::plugin;

constexpr rewire_parameter kParameters[] = {
    enum_parameter("gate", "linear", "linear|channel", "what the gate sees: every channel, or its own"),
    float_parameter("bias", "2", "b before training; sigmoid(2) = 0.88 is the stream's share"),
};

/// W x over the channels, on whatever axis they are; W is stored as out by in.
Value project(const Join& join, const Value& w) {
  const std::int64_t rank = std::ssize(join.stream.shape()), channel = join.channel_axis;
  Ints to_last, back;
  for (std::int64_t axis = 0; axis < rank; ++axis) {
    if (axis != channel) to_last.push_back(axis);
    back.push_back(axis == channel ? rank - 1 : axis - (axis > channel ? 1 : 0));
  }
  to_last.push_back(channel);
  return transpose(matmul(transpose(join.stream, to_last), w, false, true), back);
}

void rewrite(const Rewrite& call) {
  const bool linear = call.get_text("gate") == "linear";
  const Init bias = Init::constant(call.get_float("bias"));
  for (const Join& join : call.joins()) {
    const Value x = join.stream, f = join.branch;
    const Ints along = join.channel_shape();  // [1, 1, D], or [1, C, 1, 1]
    const std::int64_t channels = along.at(static_cast<std::size_t>(join.channel_axis));
    const Value b = join.add_weight("gate_bias", along, bias, Group::no_decay);
    Value score;
    if (linear) {
      score = project(join, join.add_weight("gate_weight", {channels, channels}, Init::trunc_normal(0.02, 2),
                                            Group::decay));
    } else {
      score = x * join.add_weight("gate_weight", along, Init::zeros(), Group::no_decay);
    }
    const Value g = sigmoid(score + b);
    join.set_shortcut(g * x);
    join.set_branch((1 - g) * f);
  }
}

}  // namespace

REWIRE_PLUGIN("highway", "1.0.0", "a learned gate weighs the stream against the branch", kParameters, rewrite)
