// submit() and results() of engines whose run() returns the results at once.
#include "runtime/exec/engine.h"

#include "ir/error.h"

namespace rewire::runtime {

Engine::Ticket Engine::submit(std::string_view function, const TensorMap& inputs) {
  finished_.emplace(++last_ticket_, run(function, inputs));
  return last_ticket_;
}

Engine::Ticket Engine::submit_again(std::string_view function, const TensorMap& inputs) {
  return submit(function, inputs);
}

std::unique_ptr<Engine> Engine::alike(const ir::Module& /*module*/) const {
  return nullptr;
}

bool Engine::finished(Ticket ticket) const {
  return finished_.contains(ticket);
}

TensorMap Engine::results(Ticket ticket) {
  const auto found = finished_.find(ticket);
  if (found == finished_.end()) internal_error("the results of run {} have already been read", ticket);
  TensorMap results = std::move(found->second);
  finished_.erase(found);
  return results;
}

}  // namespace rewire::runtime
