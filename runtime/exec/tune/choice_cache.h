// Choices made by timing, on disk beside the compiled kernels: one small file a choice, named by the hash of
// its key and of where it was timed. A file says what it is of; one that is damaged or of something else is
// as good as none. Files are written whole under another name and renamed. The folder may be deleted at any
// time: then what is chosen anew may be chosen differently.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "runtime/exec/tune/choice_record.h"

namespace rewire::runtime {

class ChoiceCache {
 public:
  /// `place`: what a timing depends on beside the key: the machine, the versions of what generates code.
  ChoiceCache(std::string directory, std::string place);

  std::optional<MadeChoice> load(const std::string& key) const;
  /// False if the disk does not take it.
  bool store(const MadeChoice& choice) const;
  std::string path(const std::string& key) const;

  /// Held until it is destroyed.
  class Lock {
   public:
    explicit Lock(int descriptor) : descriptor_(descriptor) {}
    ~Lock();
    Lock(const Lock&) = delete;
    Lock& operator=(const Lock&) = delete;

   private:
    int descriptor_;
  };
  /// While it lives, no other process makes a choice: two of them then cannot time at once, nor come to two
  /// answers. nullptr if there is no such folder, or it cannot be locked.
  std::unique_ptr<Lock> lock() const;

 private:
  std::string directory_, place_;
};

}  // namespace rewire::runtime
