// A learned scale on every branch: x' = x + c f, with one trained factor c a channel that starts small, so
// that a deep network begins close to the identity. Shows a parameter, an added weight and a claimed slot.
#include <rewire_plugin.hpp>

namespace {

using namespace rewire::plugin;

constexpr rewire_parameter kParameters[] = {
    float_parameter("start", "0.1", "what every factor is before training"),
};

void rewrite(const Rewrite& call) {
  const Init start = Init::constant(call.get_float("start"));
  for (const Join& join : call.joins()) {
    // One factor a channel, shaped to broadcast over the other axes: [1, 1, D] for tokens, [1, C, 1, 1] for
    // images.
    const Type stream = join.stream.type();
    Ints along_channels(stream.shape.size(), 1);
    const std::int64_t channels = stream.shape.at(static_cast<std::size_t>(join.channel_axis));
    along_channels.at(static_cast<std::size_t>(join.channel_axis)) = channels;
    const Value c = join.add_weight("c", {stream.dtype, {channels}}, start, Group::no_decay);
    join.set_branch(join.branch * reshape(c, along_channels));
  }
}

}  // namespace

REWIRE_PLUGIN("branch_scale", "1.0.0", "scales each channel of the branch by a learned factor", kParameters,
              rewrite)
