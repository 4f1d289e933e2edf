#include "runtime/train/run_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <span>
#include <system_error>
#include <utility>

#include "codegen/llvm/jit.h"
#include "ir/error.h"
#include "runtime/device/probe.h"
#include "runtime/io/files.h"
#include "runtime/log.h"

namespace rewire::runtime {
namespace {

namespace fs = std::filesystem;

void make_folder(const std::string& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (error) user_error("cannot make the folder {}: {}", path, error.message());
}

/// The entries of RUN/checkpoints, by name.
std::vector<fs::path> checkpoint_entries(const std::string& run) {
  std::vector<fs::path> entries;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(fs::path(run) / "checkpoints", error))
    entries.push_back(entry.path());
  std::ranges::sort(entries);
  return entries;
}

}  // namespace

RunFolder RunFolder::create(const std::string& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (fs::exists(status) && !fs::is_directory(status))
    user_error("{} is no folder: choose another --out", path);
  if (fs::is_directory(status) && !fs::is_empty(path, error)) {
    user_error("{} is not empty: choose another --out{}", path,
               fs::exists(fs::path(path) / "recipe.toml") ? ", or go on with --resume " + path : "");
  }
  make_folder(path);
  RunFolder folder(path);
  folder.claim();
  return folder;
}

RunFolder RunFolder::open(const std::string& path) {
  std::error_code error;
  if (!fs::is_directory(path, error))
    user_error("{} is no folder; a run is the folder that `rewire train` made", path);
  if (!fs::exists(fs::path(path) / "recipe.toml", error)) {
    user_error("{} has no recipe.toml: it is no run of `rewire train`", path);
  }
  return RunFolder(path);
}

RunFolder::RunFolder(RunFolder&& other) noexcept
    : path_(std::move(other.path_)), lock_(std::exchange(other.lock_, -1)) {}

RunFolder::~RunFolder() {
  if (lock_ >= 0) ::close(lock_);
}

void RunFolder::claim() {
  require_writable(file("metrics.jsonl"));
  lock_ = ::open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (lock_ < 0) user_error("cannot open {}: {}", path_, std::generic_category().message(errno));
  if (::flock(lock_, LOCK_EX | LOCK_NB) != 0) user_error("another process is training in {}", path_);
  make_folder(file("checkpoints"));
  for (const fs::path& entry : checkpoint_entries(path_)) {
    std::error_code ignored;
    if (entry.filename().string().starts_with('.')) fs::remove_all(entry, ignored);
  }
}

std::vector<std::string> RunFolder::checkpoints() const {
  std::vector<std::string> complete;
  for (const fs::path& entry : checkpoint_entries(path_)) {
    if (!entry.filename().string().starts_with('.')) complete.push_back(entry.string());
  }
  return complete;
}

std::string RunFolder::last_checkpoint() const {
  const std::vector<std::string> all = checkpoints();
  if (all.empty()) user_error("{} has no checkpoint yet: train again into another --out", path_);
  return all.back();
}

void RunFolder::prune_checkpoints(std::int64_t keep) const {
  const std::vector<std::string> all = checkpoints();
  for (std::size_t i = 0; i + static_cast<std::size_t>(keep) < all.size(); ++i) {
    std::error_code ignored;
    fs::remove_all(all[i], ignored);
  }
}

std::string free_run_path(const std::string& wanted) {
  std::error_code error;
  std::string path = wanted;
  for (int number = 2; fs::exists(fs::symlink_status(path, error)); ++number)
    path = fmt::format("{}-{}", wanted, number);
  return path;
}

void record_choices(const RunFolder& folder, const std::string& engine) {
  nlohmann::ordered_json choices;
  choices["engine"] = engine;
  choices["target"] = codegen::host_cpu_description();
  for (const LibraryVersion& library : built_with()) choices["built_with"][library.name] = library.version;
  choices["timed"] = nlohmann::ordered_json::object();  // choices made by timing; none is made on a CPU
  const std::string text = choices.dump(2) + "\n", file = folder.file("choices.json");
  std::error_code error;
  if (!fs::exists(file, error)) {
    write_file_atomically(file, text);
    return;
  }
  const std::vector<std::byte> recorded = read_file(file);
  if (!std::ranges::equal(recorded, std::as_bytes(std::span(text.data(), text.size())))) {
    write_log(LogLevel::warning,
              fmt::format("{} names another engine, CPU target or library than this one: the run goes "
                          "on, but not to the same bits",
                          file));
  }
}

}  // namespace rewire::runtime
