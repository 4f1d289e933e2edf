// Opens plugin libraries. Order of judgement: permissions, the file's bytes, dlopen, the handshake, the
// schema.
#include "runtime/plugin/library.h"

#include <dlfcn.h>

#define BOOST_DLL_USE_STD_FS
#include <boost/dll/shared_library.hpp>
#include <filesystem>
#include <map>
#include <mutex>

#include "ir/error.h"
#include "runtime/io/files.h"
#include "runtime/log.h"
#include "runtime/plugin/elf_file.h"
#include "runtime/plugin/filters.h"
#include "runtime/plugin/handshake.h"
#include "runtime/plugin/sha256.h"

namespace rewire::runtime {
namespace {

namespace fs = std::filesystem;

constexpr char kQuery[] = "rewire_plugin_query";
constexpr std::uintmax_t kMaxBytes = std::uintmax_t{256} << 20;

/// What is opened stays open: code of a plugin may be on a stack, its descriptor's text in messages, until
/// the process ends. So the registry is made once and never destroyed.
struct Registry {
  std::mutex mutex;
  std::map<std::string, std::shared_ptr<const Library>> libraries;  // by canonical path
  std::vector<boost::dll::shared_library> handles;
};
Registry& registry() {
  static Registry& instance = *new Registry;
  return instance;
}

/// Whoever may write the file, or swap it in its folder, decides what this process runs.
void judge_permissions(const fs::path& path) {
  for (const fs::path& place : {path, path.parent_path()}) {
    std::error_code error;
    const fs::perms perms = fs::status(place, error).permissions();
    if (error) user_error("cannot read '{}': {}", place.string(), error.message());
    if ((perms & fs::perms::others_write) != fs::perms::none) {
      user_error("'{}' is writable by everybody, so the plugin cannot be trusted: chmod o-w '{}'",
                 place.string(), place.string());
    }
  }
}

const rewire_plugin* query(const boost::dll::shared_library& library) {
  auto& function = library.get<const rewire_plugin*(std::uint32_t)>(kQuery);
  try {
    return function(REWIRE_ABI_VERSION);
  } catch (...) {
    user_error("its {}() threw an exception", kQuery);
  }
}

std::shared_ptr<Library> read_library(const fs::path& path, boost::dll::shared_library& handle) {
  if (!fs::is_regular_file(path) || fs::file_size(path) > kMaxBytes) user_error("it is no shared library");
  judge_permissions(path);
  const std::vector<std::byte> bytes = read_file(path.string());
  const ElfFacts facts = read_elf(bytes, kQuery);
  if (!facts.exports_symbol) user_error("it is no rewire plugin: it exports no {}", kQuery);
  judge_sanitizer(facts.sanitizer);

  std::error_code error;
  handle.load(path, error, boost::dll::load_mode::rtld_now | boost::dll::load_mode::rtld_local);
  if (error) {
    const char* reason = dlerror();
    user_error("the dynamic linker refuses it: {}",
               reason == nullptr ? error.message() : std::string(reason));
  }
  auto library = std::make_shared<Library>();
  library->descriptor = query(handle);
  judge_descriptor(library->descriptor);
  library->schema = read_schema(*library->descriptor);

  PluginInfo& info = library->info;
  info = {library->descriptor->name, library->descriptor->version,
          library->descriptor->doc,  path.string(),
          sha256_hex(bytes),         {}};
  for (const ParameterSpec& parameter : library->schema) info.parameters.push_back(parameter.info());
  for (PluginParameterInfo& filter : Filters::infos()) info.parameters.push_back(std::move(filter));
  write_log(LogLevel::info,
            fmt::format("plugin {} {} from {}, sha256 {}, built by {}", info.name, one_line(info.version),
                        info.path, info.sha256, one_line(library->descriptor->build_id)));
  return library;
}

}  // namespace

std::string find_library(const std::string& name, const std::vector<std::string>& folders) {
  if (name.find('/') != std::string::npos) return name;
  for (const std::string& folder : folders) {
    const fs::path path = fs::path(folder) / (name + ".so");
    if (std::error_code error; fs::exists(path, error)) return path.string();
  }
  if (name.ends_with(".so")) user_error("plugin '{}': a file is given with a slash, ./{}", name, name);
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

std::shared_ptr<const Library> open_library(const std::string& path) {
  try {
    std::error_code error;
    const fs::path canonical = fs::canonical(path, error);
    if (error) user_error("cannot read it: {}", error.message());
    const std::lock_guard lock(registry().mutex);
    std::shared_ptr<const Library>& known = registry().libraries[canonical.string()];
    if (known == nullptr) {
      boost::dll::shared_library handle;
      // A library whose constructors have run is not closed either, even if its handshake fails.
      const auto keep = [&] {
        if (handle.is_loaded()) registry().handles.push_back(std::move(handle));
      };
      try {
        known = read_library(canonical, handle);
      } catch (...) {
        keep();
        throw;
      }
      keep();
    }
    return known;
  } catch (const UserError& e) {
    user_error("cannot load plugin '{}': {}", path, one_line(e.what()));
  }
}

}  // namespace rewire::runtime
