#include "runtime/plugin/at_work.h"

#include <atomic>
#include <utility>

namespace rewire::runtime {
namespace {

/// One per process, not per thread: a plugin may end the process from any thread.
std::atomic<const char*> name_at_work{nullptr};
std::atomic<bool> any_began{false};

}  // namespace

PluginAtWork::PluginAtWork(std::string name)
    : name_(std::move(name)), before_(name_at_work.exchange(name_.c_str())) {
  any_began = true;
}

PluginAtWork::~PluginAtWork() {
  name_at_work = before_;
}

const char* PluginAtWork::name() {
  return name_at_work;
}

bool PluginAtWork::any() {
  return any_began;
}

}  // namespace rewire::runtime
