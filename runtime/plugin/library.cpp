// Opens plugin libraries. The order of the checks: who can have written the file, its bytes, the user's
// consent. Then, first in a child process and then here: dlopen, the handshake, the schema.
#include "runtime/plugin/library.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#define BOOST_DLL_USE_STD_FS
#include <boost/dll/shared_library.hpp>
#include <cerrno>
#include <filesystem>
#include <map>
#include <mutex>
#include <system_error>

#include "codegen/files/trusted.h"
#include "ir/error.h"
#include "ir/printable.h"
#include "runtime/device/log.h"
#include "runtime/io/sha256.h"
#include "runtime/plugin/at_work.h"
#include "runtime/plugin/elf_file.h"
#include "runtime/plugin/filters.h"
#include "runtime/plugin/handshake.h"
#include "runtime/plugin/isolated.h"
#include "runtime/plugin/trust_list.h"

namespace rewire::runtime {
namespace {

namespace fs = std::filesystem;

constexpr char kQuery[] = "rewire_plugin_query";
constexpr off_t kMaxBytes = off_t{kMostLibraryBytes};

/// Opened libraries stay open until the process ends: a plugin's code may be on a stack, its descriptor's
/// text in messages. So the registry is made once and never destroyed.
struct Registry {
  std::mutex mutex;
  std::map<std::string, std::shared_ptr<const Library>> libraries;  // by canonical path
  std::vector<boost::dll::shared_library> handles;
};
Registry& registry() {
  static Registry& instance = *new Registry;
  return instance;
}

/// The file as it was checked. What the dynamic linker opens by its path must be the same file.
struct Judged {
  codegen::TrustedFile opened;
  struct stat status{};
  std::string sha256;
};

bool is_same(const struct stat& a, const struct stat& b) {
  const auto same_time = [](const timespec& x, const timespec& y) {
    return x.tv_sec == y.tv_sec && x.tv_nsec == y.tv_nsec;
  };
  return a.st_dev == b.st_dev && a.st_ino == b.st_ino && a.st_size == b.st_size &&
         same_time(a.st_mtim, b.st_mtim) && same_time(a.st_ctim, b.st_ctim);
}

/// Throws UserError if the file has changed, by its descriptor or by its path.
void check_unchanged(const Judged& judged) {
  struct stat opened{}, named{};
  if (::fstat(judged.opened.file.get(), &opened) != 0 || ::stat(judged.opened.path.c_str(), &named) != 0 ||
      !is_same(judged.status, opened) || !is_same(judged.status, named)) {
    user_error("it changed while it was loaded: try again");
  }
}

std::vector<std::byte> read_all(const Judged& judged) {
  std::vector<std::byte> bytes(static_cast<std::size_t>(judged.status.st_size));
  for (std::size_t at = 0; at < bytes.size();) {
    const ssize_t size = ::read(judged.opened.file.get(), bytes.data() + at, bytes.size() - at);
    if (size < 0 && errno == EINTR) continue;
    if (size < 0) user_error("cannot read it: {}", std::generic_category().message(errno));
    if (size == 0) user_error("it changed while it was loaded: try again");
    at += static_cast<std::size_t>(size);
  }
  return bytes;
}

void judge_consent(const Judged& judged, Consent consent) {
  if (consent == Consent::given) remember_trusted(judged.sha256, judged.opened.path);
  if (consent != Consent::remembered || is_trusted(judged.sha256)) return;
  user_error(
      "a recipe, sweep or run names this file, and you have not agreed to run it (SHA-256 {}): add --trust "
      "if you know whose code it is",
      judged.sha256);
}

/// Makes all checks that are possible without running any of the file's code.
Judged judge_file(const std::string& path, Consent consent) {
  Judged judged;
  judged.opened = codegen::open_trusted(path, O_RDONLY | O_NONBLOCK | O_NOCTTY, "the plugin");
  if (::fstat(judged.opened.file.get(), &judged.status) != 0)
    user_error("cannot read it: {}", std::generic_category().message(errno));
  if (!S_ISREG(judged.status.st_mode) || judged.status.st_size > kMaxBytes)
    user_error("it is not a shared library");
  const std::vector<std::byte> bytes = read_all(judged);
  const ElfFacts facts = read_elf(bytes, kQuery);
  if (!facts.exports_symbol) user_error("it is not a rewire plugin: it exports no {}", kQuery);
  judge_sanitizer(facts.sanitizer);
  judged.sha256 = sha256_hex(bytes);
  judge_consent(judged, consent);
  return judged;
}

const rewire_plugin* query(const boost::dll::shared_library& library) {
  if (!library.has(kQuery))  // by its hash table; its symbol list has it
    user_error("the dynamic linker finds no {} in it: the library is damaged: copy or build it again",
               kQuery);
  auto& function = library.get<const rewire_plugin*(std::uint32_t)>(kQuery);
  try {
    return function(REWIRE_ABI_VERSION);
  } catch (...) {
    user_error("its {}() threw an exception", kQuery);
  }
}

/// Runs the library's code: its constructors and the query.
std::shared_ptr<Library> read_library(const Judged& judged, boost::dll::shared_library& handle) {
  const PluginAtWork at_work(visible(judged.opened.path));
  std::error_code error;
  handle.load(judged.opened.path, error, boost::dll::load_mode::rtld_now | boost::dll::load_mode::rtld_local);
  if (error) {
    const char* reason = dlerror();
    user_error("the dynamic linker refuses it: {}",
               reason == nullptr ? error.message() : std::string(reason));
  }
  check_unchanged(judged);
  auto library = std::make_shared<Library>();
  library->descriptor = query(handle);
  judge_descriptor(library->descriptor);
  library->schema = read_schema(*library->descriptor);

  PluginInfo& info = library->info;
  info = {library->descriptor->name,
          library->descriptor->version,
          library->descriptor->doc,
          judged.opened.path,
          judged.sha256,
          {}};
  for (const ir::ParameterSpec& parameter : library->schema) info.parameters.push_back(parameter.info());
  for (ir::ParameterInfo& filter : Filters::infos()) info.parameters.push_back(std::move(filter));
  return library;
}

/// Returns the texts of an info in one list.
Fields to_fields(const PluginInfo& info) {
  Fields fields = {info.name, info.version, info.doc, info.path, info.sha256};
  for (const ir::ParameterInfo& p : info.parameters)
    fields.insert(fields.end(), {p.name, p.type, p.default_value, p.range, p.doc});
  return fields;
}

PluginInfo to_info(const Fields& fields) {
  constexpr std::size_t kTexts = 5;  // of the plugin, and of each parameter
  if (fields.size() < kTexts || fields.size() % kTexts != 0) user_error("its description is incomplete");
  PluginInfo info{fields[0], fields[1], fields[2], fields[3], fields[4], {}};
  for (std::size_t i = kTexts; i < fields.size(); i += kTexts)
    info.parameters.push_back({fields[i], fields[i + 1], fields[i + 2], fields[i + 3], fields[i + 4]});
  return info;
}

/// Reads the library in a child process. If that does not end well, throws UserError with how it ended.
PluginInfo try_library(const Judged& judged, const IsolationLimits& limits = loading_limits()) {
  PluginInfo info;
  const std::optional<std::string> fault = run_isolated(
      limits,
      [&](const Send& send) {
        auto& handle = *new boost::dll::shared_library;  // never closed, as elsewhere
        send(to_fields(read_library(judged, handle)->info));
      },
      [&](const Fields& fields) { info = to_info(fields); });
  if (fault) user_error("{} when it was tried", *fault);
  return info;
}

std::shared_ptr<const Library> load_library(const Judged& judged) {
  try_library(judged);
  boost::dll::shared_library handle;
  // A library whose constructors have run is not closed either, even if its handshake fails.
  const auto keep = [&] {
    if (handle.is_loaded()) registry().handles.push_back(std::move(handle));
  };
  try {
    std::shared_ptr<const Library> library = read_library(judged, handle);
    keep();
    write_log(LogLevel::debug, fmt::format("plugin {} {} from {}, sha256 {}, built by {}", library->info.name,
                                           one_line(library->info.version), library->info.path,
                                           library->info.sha256, one_line(library->descriptor->build_id)));
    return library;
  } catch (...) {
    keep();
    throw;
  }
}

template <class Body>
auto in_the_name_of(const std::string& path, Body body) {
  try {
    return body();
  } catch (const UserError& e) {
    user_error("cannot load plugin '{}': {}", path, one_line(e.what()));
  }
}

}  // namespace

std::string find_library(const std::string& name, const std::vector<std::string>& folders) {
  if (name.find('/') != std::string::npos) return name;
  for (const std::string& folder : folders) {
    const fs::path path = fs::path(folder) / (name + ".so");
    if (std::error_code error; fs::exists(path, error)) return path.string();
  }
  if (name.ends_with(".so")) user_error("plugin '{}': write a file with a slash, ./{}", name, name);
  std::vector<std::string> known;
  std::string looked_in;
  for (const auto& library : libraries_in(folders)) known.push_back(library.first);
  for (const std::string& folder : folders) looked_in += (looked_in.empty() ? "" : ", ") + folder;
  user_error("there is no plugin '{}'{}; looked for {}.so in {}", name, did_you_mean(name, known), name,
             looked_in);
}

std::vector<std::pair<std::string, std::string>> libraries_in(const std::vector<std::string>& folders) {
  std::map<std::string, std::string> found;
  for (const std::string& folder : folders) {
    std::error_code error;
    for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
      if (entry.path().extension() == ".so")
        found.emplace(entry.path().stem().string(), entry.path().string());
    }
  }
  return {found.begin(), found.end()};
}

std::shared_ptr<const Library> open_library(const std::string& path, Consent consent) {
  return in_the_name_of(path, [&] {
    std::error_code error;
    const fs::path canonical = fs::canonical(path, error);
    if (error) user_error("cannot read it: {}", error.message());
    const std::lock_guard lock(registry().mutex);
    std::shared_ptr<const Library>& known = registry().libraries[canonical.string()];
    if (known == nullptr) known = load_library(judge_file(path, consent));
    return known;
  });
}

PluginInfo inspect_library(const std::string& path) {
  return in_the_name_of(path, [&] { return try_library(judge_file(path, Consent::not_needed)); });
}

PluginInfo inspect_agreed_library(const std::string& path, Consent consent,
                                  std::chrono::milliseconds longest) {
  IsolationLimits limits = loading_limits();
  limits.silence = longest;
  return in_the_name_of(path, [&] { return try_library(judge_file(path, consent), limits); });
}

}  // namespace rewire::runtime
