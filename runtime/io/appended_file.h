// A file that grows by whole pieces while a run goes on, and is cut back to where a checkpoint stands: metrics.jsonl, the
// event file, log.txt.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "codegen/files/descriptor.h"
#include "runtime/io/place.h"

namespace rewire::runtime {

class AppendedFile {
 public:
  /// Keeps the first `bytes` of a file that is there and goes on behind them. `holds`: "a run's metrics stand in one",
  /// for the message. UserError if it cannot be written, is no file, or is shorter.
  AppendedFile(const FilePlace& place, std::int64_t bytes, std::string_view holds);

  /// Whole, by one write where the system takes it so. UserError if there is no room: then nothing of it is left.
  void append(std::string_view piece);
  /// All pieces are on disk when it returns; their size in bytes.
  std::int64_t sync();
  std::int64_t bytes() const { return bytes_; }

 private:
  std::string path_;
  codegen::Descriptor file_;
  std::int64_t bytes_ = 0;
};

}  // namespace rewire::runtime
