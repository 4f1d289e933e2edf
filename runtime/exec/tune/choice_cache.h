// Choices made by timing, on disk beside the compiled kernels. Each is a small file named by the hash of its
// key and of where it was timed. A file names its choice; one that is damaged or of another choice is
// ignored. Files are written whole under another name and renamed. The folder may be deleted at any time;
// new choices may then differ.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "runtime/exec/tune/choice_record.h"

namespace rewire::runtime {

class ChoiceCache {
 public:
  /// `place` is what a timing depends on besides the key: the machine, the versions of what generates code.
  ChoiceCache(std::string directory, std::string place);

  std::optional<MadeChoice> load(const std::string& key) const;
  /// Returns false if the disk does not take it.
  bool store(const MadeChoice& choice) const;
  std::string path(const std::string& key) const;

  /// A lock that is held until it is destroyed.
  class Lock {
   public:
    explicit Lock(int descriptor) : descriptor_(descriptor) {}
    ~Lock();
    Lock(const Lock&) = delete;
    Lock& operator=(const Lock&) = delete;

   private:
    int descriptor_;
  };
  /// Locks the cache: while the lock lives, no other process makes a choice, so that two cannot time at once
  /// or come to two answers. Returns nullptr if there is no such folder, or it cannot be locked.
  std::unique_ptr<Lock> lock() const;

 private:
  std::string directory_, place_;
};

}  // namespace rewire::runtime
