// Handles of the fake libraries beside the driver's own: what was made and not destroyed shows among what
// lives (controls.h).
#pragma once

#include <map>
#include <memory>
#include <string>

#include "tests/fake_cuda/calls.h"
#include "tests/fake_cuda/world.h"

namespace rewire::fake_cuda {

void count_object(const char* kind, int change);
/// A line for each kind that lives: "cublasLt layout: 3".
std::string live_objects();

/// The objects of one kind, by their handles.
template <class Object>
class Objects {
 public:
  explicit Objects(const char* kind) : kind_(kind) {}

  void* make(Object object) {
    auto owned = std::make_unique<Object>(std::move(object));
    void* const handle = owned.get();
    objects_.emplace(handle, std::move(owned));
    count_object(kind_, 1);
    return handle;
  }
  /// null, with a fault, if there is none.
  Object* find(const void* handle) const {
    const auto found = objects_.find(handle);
    if (found != objects_.end()) return found->second.get();
    fault(std::string("no such ") + kind_ + ", or it was destroyed");
    return nullptr;
  }
  bool destroy(const void* handle) {
    if (find(handle) == nullptr) return false;
    objects_.erase(handle);
    count_object(kind_, -1);
    return true;
  }

 private:
  const char* kind_;
  std::map<const void*, std::unique_ptr<Object>> objects_;
};

}  // namespace rewire::fake_cuda
