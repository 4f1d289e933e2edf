#include "programs/schedule.h"

namespace rewire::programs {
namespace {

using ir::Value;

Value constant(ir::Builder& b, Value s, double lr, const ir::Attributes&, const Timeline&) {
  return b.constant_like(s, lr);
}

}  // namespace

extern const ScheduleRow kConstantSchedule{"constant", "optimizer.lr throughout", with_warmup({}), constant};

}  // namespace rewire::programs
