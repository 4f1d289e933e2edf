// Who may work in a sweep's folder: one `rewire sweep` for all runs, or several for one run each, as in a SLURM array.
#pragma once

#include <string>
#include <string_view>

#include "codegen/files/descriptor.h"

namespace rewire::runtime {

/// Holds a part of a sweep's folder, as a lock on a range of bytes of its file .lock. The lock ends with this object or
/// the process.
class SweepLock {
 public:
  /// Takes the whole folder. Throws UserError if another process holds a part of it.
  static SweepLock whole(const std::string& folder);
  /// Takes one run. Throws UserError if another process holds it or the whole folder.
  static SweepLock of_run(const std::string& folder, std::string_view name);
  /// Takes the records of other runs and the tables. Waits for another process that has them.
  static SweepLock of_tables(const std::string& folder);

 private:
  explicit SweepLock(codegen::Descriptor file) : file_(std::move(file)) {}

  codegen::Descriptor file_;
};

}  // namespace rewire::runtime
