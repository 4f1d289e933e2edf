#include "runtime/run/run_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <system_error>
#include <utility>

#include "codegen/object_cache.h"
#include "ir/error.h"
#include "runtime/device/log.h"
#include "runtime/exec/make_engine.h"
#include "runtime/io/files.h"
#include "runtime/io/json_view.h"
#include "runtime/io/sha256.h"
#include "runtime/plugin/trust_list.h"

namespace rewire::runtime {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kHalfWritten = ".tmp";
constexpr const char* kMetrics = "metrics.jsonl";
// TensorBoard reads files with "tfevents" in their names, and those of a folder in the order of the names.
constexpr std::string_view kEventsBefore = "events.out.tfevents.", kEventsBehind = ".rewire";
/// Files that a run needs. If it cannot write its log, its events or its report, it warns and continues.
constexpr const char* kWritten[] = {"recipe.toml",      "network.rir",         kMetrics,
                                    "choices.json",     "plugins.json",        "plugins",
                                    "kernels",          "checkpoints",         "checkpoints/last",
                                    "checkpoints/best", "weights.safetensors", "weights_ema.safetensors",
                                    "pictures"};
constexpr std::size_t kLongestName = 64;  // of a checkpoint, in a file that names one

struct Entry {
  std::int64_t epoch = 0, step = 0;
  fs::path path;
};

/// Parses "0002-00001874" into its two numbers. Any other name is not that of a checkpoint.
std::optional<Entry> parse_entry(const fs::path& path) {
  const std::string name = path.filename().string();
  Entry entry{0, 0, path};
  const char* end = name.data() + name.size();
  const auto epoch = std::from_chars(name.data(), end, entry.epoch);
  if (epoch.ec != std::errc() || epoch.ptr == end || *epoch.ptr != '-') return std::nullopt;
  const auto step = std::from_chars(epoch.ptr + 1, end, entry.step);
  if (step.ec != std::errc() || step.ptr != end ||
      name != RunFolder::checkpoint_name(entry.epoch, entry.step))
    return std::nullopt;
  return entry;
}

bool is_half_written(const fs::path& path) {
  const std::string name = path.filename().string();
  return name.starts_with('.') && name.ends_with(kHalfWritten);
}

/// `part`: "" or "checkpoints/".
void remove_half_written(const RunFolder& folder, const std::string& part) {
  for (const std::string& name : names_in(folder.place(part + "."))) {
    if (is_half_written(name)) remove_tree(folder.place(part + name));
  }
}

/// Returns true if `path` names the folder of this descriptor.
bool stands_at(int descriptor, const std::string& path) {
  struct stat held{}, there{};
  return ::fstat(descriptor, &held) == 0 && ::stat(path.c_str(), &there) == 0 &&
         held.st_dev == there.st_dev && held.st_ino == there.st_ino;
}

void check_out(const std::string& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (fs::exists(status) && !fs::is_directory(status))
    user_error("{} is not a folder: choose another --out", path);
  if (fs::is_directory(status) && !fs::is_empty(path, error)) {
    user_error("{} is not empty: choose another --out{}", path,
               fs::exists(fs::path(path) / "recipe.toml") ? ", or continue with --resume " + path : "");
  }
}

std::string kernel_file(const std::string& kernel) {
  return fmt::format("kernels/{}.cu", kernel);
}

std::string sha256_of(const KernelOverride& kernel) {
  return sha256_hex(std::as_bytes(std::span(kernel.text.data(), kernel.text.size())));
}

/// A kernel's name is a function's name, so it cannot lead to another folder.
bool is_kernel_name(std::string_view name) {
  return !name.empty() && std::ranges::all_of(name, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  });
}

nlohmann::ordered_json current_choices(const std::string& engine,
                                       const std::vector<KernelOverride>& kernels) {
  nlohmann::ordered_json choices;
  choices["engine"] = engine;
  const EngineFacts facts = engine_facts(engine);
  choices["target"] = facts.target;
  choices["built_with"]["Rewire"] = REWIRE_VERSION;
  for (const LibraryVersion& library : facts.libraries) choices["built_with"][library.name] = library.version;
  if (!facts.environment.empty()) choices["environment"] = facts.environment;
  for (const KernelOverride& kernel : kernels)
    choices["kernels"][kernel.kernel] = codegen::hash_text(kernel.text);
  return choices;
}

/// Checks the facts that decide the bits beside the choices: at a run's beginning, or from a step on.
void check_facts(const JsonView& facts) {
  facts.at("engine").text();
  facts.at("target").text();
  for (const auto& [library, version] : facts.at("built_with").members()) version.text();
  for (const char* key : {"environment", "kernels"}) {
    const auto texts = facts.find(key);
    if (!texts) continue;
    for (const auto& [name, text] : texts->members()) {
      text.text();
      if (key == std::string_view("kernels") && !is_kernel_name(name))
        text.refuse("is not the name of a kernel");
    }
  }
}

/// Returns nullopt if there is no file. Throws UserError if it is not as record_choices() writes it.
std::optional<nlohmann::ordered_json> read_choices(const FilePlace& file) {
  if (!status_of(file)) return std::nullopt;
  nlohmann::ordered_json json = read_json(file);
  const JsonView view(json, file.path());
  view.only({"engine", "target", "built_with", "environment", "kernels", "choices", "later"});
  check_facts(view);
  if (const auto choices = view.find("choices")) record_from_json(*choices);
  if (const auto later = view.find("later")) {
    if (later->items().empty()) later->refuse("is empty");
    for (const JsonView& facts : later->items()) {
      facts.only({"engine", "target", "built_with", "environment", "kernels", "from_step"});
      check_facts(facts);
      facts.at("from_step").count();
    }
  }
  return json;
}

}  // namespace

std::string RunFolder::checkpoint_name(std::int64_t epoch, std::int64_t step) {
  return fmt::format("{:04}-{:08}", epoch, step);
}

bool RunFolder::is_checkpoint_name(const std::string& name) {
  return parse_entry(name).has_value();
}

std::string RunFolder::event_file_name(std::int64_t step) {
  return fmt::format("{}{:08}{}", kEventsBefore, step, kEventsBehind);
}

std::int64_t RunFolder::event_file_step(const std::string& name) {
  std::int64_t step = -1;
  if (!name.starts_with(kEventsBefore)) return -1;
  std::from_chars(name.data() + kEventsBefore.size(), name.data() + name.size(), step);
  return step >= 0 && name == event_file_name(step) ? step : -1;
}

FilePlace RunFolder::place_in(const std::string& checkpoint, std::string_view file) {
  const fs::path path = checkpoint, checkpoints = path.parent_path();
  fs::path name = checkpoints.filename() / path.filename();
  if (!file.empty()) name /= file;
  return FilePlace::below(checkpoints.parent_path().string(), name.string());
}

RunFolder RunFolder::create(const std::string& path) {
  check_out(path);
  bool made = false;
  try {
    made = make_folder(path);
  } catch (const UserError& refusal) {
    user_error("{}: choose another --out", refusal.what());
  }
  return begin(path, made);
}

RunFolder RunFolder::create_numbered(const std::string& wanted) {
  const std::string above = fs::path(wanted).parent_path().string();
  try {
    make_folder(above);
  } catch (const UserError&) {
    return create(wanted);  // reports why it cannot
  }
  for (int number = 1;; ++number) {
    const std::string path = number == 1 ? wanted : fmt::format("{}-{}", wanted, number);
    std::error_code error;
    if (fs::create_directory(path, error)) {
      sync_folder(above);
      return begin(path, true);
    }
    if (error && !fs::exists(fs::symlink_status(path, error))) return create(path);  // reports why it cannot
  }
}

RunFolder RunFolder::begin(const std::string& path, bool made) {
  RunFolder folder(path);
  folder.is_ours_ = made;
  try {
    require_writable(folder.place(kMetrics));
  } catch (const UserError& refusal) {
    std::error_code ignored;
    if (made) fs::remove(path, ignored);
    user_error("{}: choose another --out", refusal.what());
  }
  folder.lock();
  check_out(path);  // another process may have trained here since
  try {
    folder.prepare();
  } catch (...) {
    folder.discard_unused();
    throw;
  }
  return folder;
}

std::string RunFolder::name_of(const std::string& path) {
  fs::path normal = fs::path(path).lexically_normal();
  if (!normal.has_filename()) normal = normal.parent_path();
  return normal.filename().string();
}

RunFolder RunFolder::open(const std::string& path) {
  std::error_code error;
  if (!fs::is_directory(path, error))
    user_error("{} is not a folder; give the folder of a run of `rewire train`", path);
  RunFolder folder(path);
  if (!is_file(folder.place("recipe.toml")))
    user_error("{} has no recipe.toml: it is not a run of `rewire train`", path);
  return folder;
}

RunFolder::RunFolder(RunFolder&& other) noexcept
    : path_(std::move(other.path_)), lock_(std::exchange(other.lock_, -1)), is_ours_(other.is_ours_) {}

RunFolder::~RunFolder() {
  if (lock_ >= 0) ::close(lock_);
}

void RunFolder::claim() {
  for (const char* part : kWritten) status_of(place(part));  // a link is refused before anything is changed
  try {
    require_writable(place(kMetrics));
  } catch (const UserError& refusal) {
    user_error("{}: make {} writable, or continue in a copy of it", refusal.what(), path_);
  }
  lock();
  prepare();
}

void RunFolder::lock() {
  const int folder = ::open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0) user_error("cannot open {}: {}", path_, std::generic_category().message(errno));
  const bool locked = ::flock(folder, LOCK_EX | LOCK_NB) == 0;
  if (!locked || !stands_at(folder, path_)) {  // the previous owner may have removed it
    ::close(folder);
    user_error("another process is training in {}", path_);
  }
  lock_ = folder;
}

void RunFolder::require_held() const {
  if (!stands_at(lock_, path_))
    user_error("{} was removed or replaced while the run wrote to it: the run ends here", path_);
}

void RunFolder::prepare() const {
  make_folder(place("checkpoints"));
  remove_half_written(*this, "");
  remove_half_written(*this, "checkpoints/");
}

void RunFolder::discard_unused() noexcept {
  try {
    std::error_code error;
    const auto is_missing = [&] { return error == std::errc::no_such_file_or_directory; };
    if (lock_ >= 0 && !stands_at(lock_, path_)) return;  // the folder there is another's
    const auto bytes = fs::file_size(file(kMetrics), error);
    if (error ? !is_missing() : bytes > 0) return;
    const fs::directory_iterator entry(file("checkpoints"), error);
    if (error ? !is_missing() : entry != fs::directory_iterator()) return;
    for (const char* name :
         {"recipe.toml", "network.rir", "plugins.json", "choices.json", "log.txt", kMetrics, "checkpoints"})
      fs::remove(file(name), error);
    for (const std::string& name : names_in(place("."))) {
      if (event_file_step(name) >= 0) remove_file(place(name));
    }
    for (const std::string part : {"kernels", "plugins"}) {
      for (const std::string& name : names_in(place(part))) {
        if (name.ends_with(part == "kernels" ? ".cu" : ".so")) remove_file(place(part + "/" + name));
      }
      fs::remove(file(part), error);
    }
    if (is_ours_) fs::remove(path_, error);  // unless somebody put something there
  } catch (const std::exception&) {
    // Leftover files do no harm; why the run failed matters more.
  }
}

std::vector<std::string> RunFolder::checkpoints() const {
  std::vector<Entry> entries;
  // A folder that cannot be read is not empty: a run that took it as empty would start anew.
  for (const std::string& name : names_in(place("checkpoints"))) {
    if (std::optional<Entry> entry = parse_entry(file("checkpoints/" + name)))
      entries.push_back(std::move(*entry));
  }
  std::ranges::sort(entries, {}, [](const Entry& entry) { return std::pair(entry.epoch, entry.step); });
  std::vector<std::string> paths;
  for (const Entry& entry : entries) paths.push_back(entry.path.string());
  return paths;
}

std::string RunFolder::named_checkpoint(const std::string& name) const {
  const FilePlace names_it = place("checkpoints/" + name);
  const std::optional<struct stat> status = status_of(names_it);
  if (!status || !S_ISREG(status->st_mode) || status->st_size > off_t{kLongestName}) return "";
  const std::vector<std::byte> bytes = read_file(names_it, kLongestName);
  std::string checkpoint(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (checkpoint.ends_with('\n')) checkpoint.pop_back();
  const bool is_there = is_checkpoint_name(checkpoint) && is_folder(place("checkpoints/" + checkpoint));
  return is_there ? checkpoint : "";
}

void RunFolder::name_checkpoint(const std::string& name, const std::string& checkpoint) const {
  const FilePlace names_it = place("checkpoints/" + name);
  const std::optional<struct stat> status = status_of(names_it);
  if (status && !S_ISREG(status->st_mode)) return;
  if (checkpoint.empty()) {
    remove_file(names_it);
  } else if (named_checkpoint(name) != checkpoint) {
    write_file_atomically(names_it, checkpoint + "\n");
  }
}

void RunFolder::prune_checkpoints(std::int64_t keep, std::string_view spared) const {
  const std::vector<std::string> all = checkpoints();
  for (std::size_t i = 0; i + static_cast<std::size_t>(keep) < all.size(); ++i) {
    const std::string name = fs::path(all[i]).filename().string();
    if (name != spared) remove_tree(place("checkpoints/" + name));
  }
}

std::string recorded_engine(const RunFolder& folder) {
  const auto recorded = read_choices(folder.place("choices.json"));
  return recorded ? recorded->at("engine").get<std::string>() : std::string();
}

ChoiceRecord recorded_choices(const RunFolder& folder) {
  const FilePlace file = folder.place("choices.json");
  const auto recorded = read_choices(file);
  return recorded && recorded->contains("choices")
             ? record_from_json(JsonView(recorded->at("choices"), file.path()))
             : ChoiceRecord();
}

void keep_kernels(const RunFolder& folder, const std::vector<KernelOverride>& kernels) {
  if (!kernels.empty()) make_folder(folder.place("kernels"));
  for (const KernelOverride& kernel : kernels) {
    const FilePlace file = folder.place(kernel_file(kernel.kernel));
    write_file_atomically(file, kernel.text);
    remember_trusted(sha256_of(kernel), file.path());
  }
}

void require_agreed(const RunFolder& folder, const std::vector<KernelOverride>& kernels, bool trust) {
  for (const KernelOverride& kernel : kernels) {
    const std::string file = folder.file(kernel_file(kernel.kernel)), sha256 = sha256_of(kernel);
    if (trust) remember_trusted(sha256, file);
    if (trust || is_trusted(sha256)) continue;
    user_error(
        "{} replaces a kernel, and you have not agreed to run it (SHA-256 {}): add --trust if you know whose "
        "code it is",
        file, sha256);
  }
}

std::vector<KernelOverride> recorded_kernels(const RunFolder& folder) {
  std::vector<KernelOverride> kernels;
  const FilePlace record = folder.place("choices.json");
  const auto recorded = read_choices(record);
  if (!recorded || !recorded->contains("kernels")) return kernels;
  for (const auto& [name, hash] : recorded->at("kernels").items()) {
    const FilePlace file = folder.place(kernel_file(name));
    kernels.push_back(read_kernel_override(name, file));
    if (hash != codegen::hash_text(kernels.back().text))
      user_error("{} is not the kernel that the run began with: {} has another hash for it", file.path(),
                 record.path());
  }
  return kernels;
}

void record_choices(const RunFolder& folder, const std::string& engine, const ChoiceRecord& choices,
                    const std::vector<KernelOverride>& kernels, std::int64_t step) {
  const nlohmann::ordered_json current = current_choices(engine, kernels);
  const FilePlace file = folder.place("choices.json");
  std::optional<nlohmann::ordered_json> recorded = read_choices(file);
  ChoiceRecord all = recorded_choices(folder);
  all.add(choices);
  const auto write = [&](nlohmann::ordered_json json) {
    json["choices"] = to_json(all);
    write_file_atomically(file,
                          json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n");
  };
  if (!recorded) return write(current);
  nlohmann::ordered_json last = *recorded;
  if (recorded->contains("later")) last = recorded->at("later").back();
  last.erase("from_step");
  last.erase("choices");
  if (last == current) return write(*recorded);
  write_log(LogLevel::warning, fmt::format("{} records a different engine, target, library or environment: "
                                           "the run continues, but not to the same bits",
                                           file.path()));
  nlohmann::ordered_json later = current;
  later["from_step"] = step;
  (*recorded)["later"].push_back(std::move(later));
  write(*recorded);
}

}  // namespace rewire::runtime
