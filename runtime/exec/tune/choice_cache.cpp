#include "runtime/exec/tune/choice_cache.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>

#include "codegen/files/trusted.h"
#include "codegen/object_cache.h"
#include "ir/error.h"
#include "runtime/device/log.h"
#include "runtime/io/files.h"
#include "runtime/io/json_view.h"

namespace rewire::runtime {
namespace {

using Json = nlohmann::ordered_json;

void ignore(const std::string& file, std::string_view why) {
  write_log(LogLevel::debug, fmt::format("{}: {}; the choice is made again", file, why));
}

}  // namespace

ChoiceCache::ChoiceCache(std::string directory, std::string place)
    : directory_(std::move(directory)), place_(std::move(place)) {
  if (!directory_.empty()) codegen::ObjectCache folder(directory_);  // creates it, only for this user
}

std::string ChoiceCache::path(const std::string& key) const {
  return fmt::format("{}/{}.choice", directory_, codegen::hash_text(place_ + '\n' + key));
}

std::optional<MadeChoice> ChoiceCache::load(const std::string& key) const {
  if (directory_.empty()) return std::nullopt;
  const std::string file = path(key);
  std::error_code ignored;
  if (!std::filesystem::exists(file, ignored)) return std::nullopt;
  try {
    const codegen::TrustedFile trusted = codegen::open_trusted(file, O_PATH, "the choice in it");
    const Json json = parse_json(read_file(trusted.path, kMostJsonBytes), "it");
    const JsonView view(json, "it");
    view.only({"place", "choices"});
    const ChoiceRecord record = record_from_json(view.at("choices"));
    const MadeChoice* choice = record.find(key);
    if (choice != nullptr && view.at("place").text() == place_) return *choice;
    ignore(file, "it is from another choice or machine");
  } catch (const UserError& error) {
    ignore(file, error.what());
  }
  return std::nullopt;
}

bool ChoiceCache::store(const MadeChoice& choice) const {
  ChoiceRecord record;
  record.add(choice);
  const Json json = {{"place", place_}, {"choices", to_json(record)}};
  const std::string file = path(choice.key);
  try {
    // A link or a pipe at this path is not ours: it is replaced, not written to.
    std::error_code ignored;
    if (!std::filesystem::is_regular_file(std::filesystem::symlink_status(file, ignored)))
      std::filesystem::remove(file, ignored);
    write_file_atomically(file, json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
    return true;
  } catch (const UserError& error) {
    write_log(LogLevel::debug, error.what());
    return false;
  }
}

ChoiceCache::Lock::~Lock() {
  ::close(descriptor_);
}

std::unique_ptr<ChoiceCache::Lock> ChoiceCache::lock() const {
  if (directory_.empty()) return nullptr;
  // NFS locks only a file that is open for writing. If the folder is not writable,
  // the folder itself is locked.
  int descriptor = ::open((directory_ + "/choices.lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (descriptor < 0) descriptor = ::open(directory_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return nullptr;
  auto lock = std::make_unique<Lock>(descriptor);
  while (::flock(descriptor, LOCK_EX) != 0) {
    if (errno == EINTR) continue;
    write_log(LogLevel::warning, fmt::format("cannot lock {} ({}): nothing is timed, the cost model chooses",
                                             directory_, std::strerror(errno)));
    return nullptr;
  }
  return lock;
}

}  // namespace rewire::runtime
