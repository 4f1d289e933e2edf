// The norms of a join's stream and branch, and the angle between them (Oh et al., 2025).
#include "ir/opcodes.h"
#include "programs/diagnostic.h"

namespace rewire::programs {
namespace {

using ir::Builder;
using ir::Value;

void add_streams(Observation& seen, const ir::Join& join) {
  Builder& b = seen.build();
  const auto root = [&](Value x) { return b.unary(ir::Opcode::sqrt, x); };
  const Value x = seen.wide(join.stream), f = seen.wide(join.branch);
  const auto product = [&](Value y, Value z) { return b.sum(b.mul(y, z), {join.channel_axis}); };
  const Value xx = product(x, x), ff = product(f, f), xf = product(x, f);
  const Value rest = b.sub(f, b.mul(quotient(b, xf, xx), x));
  const std::string name = join.describe();
  seen.add_mean(name + ".stream", xx);
  seen.add_mean(name + ".branch", ff);
  seen.add_mean(name + ".parallel", quotient(b, b.mul(xf, xf), xx));
  seen.add_mean(name + ".perpendicular", product(rest, rest));
  seen.add_mean(name + ".cosine", quotient(b, xf, b.mul(root(xx), root(ff))));
}

}  // namespace

extern const DiagnosticRow kStreams{
    .name = "streams",
    .doc = "norms of each join's stream and branch, and the angle between them",
    .of_block = [](Observation& seen, const Block& block) {
      for (const ir::Join& join : block.joins) add_streams(seen, join);
    }};

}  // namespace rewire::programs
