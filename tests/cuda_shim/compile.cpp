// One process of the compiler a file, a few at a time.
#include "tests/cuda_shim/compile.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <spawn.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <fstream>
#include <sstream>
#include <system_error>
#include <utility>

#include "ir/error.h"
#include "runtime/device/thread_pool.h"

extern char** environ;

namespace rewire::cuda_shim {
namespace {

namespace fs = std::filesystem;

// A file of this much text takes the compiler many times as long as it takes to start and to read what all begin with.
constexpr std::size_t kFileBytes = std::size_t{96} << 10;
constexpr std::size_t kMessageLines = 12;
constexpr std::uintmax_t kFolderBytes = std::uintmax_t{512} << 20;
constexpr const char* kLockName = "lock";

fs::path made(const fs::path& folder) {
  fs::create_directories(folder);
  return folder;
}

void drop_oldest(const fs::path& folder, std::uintmax_t most_bytes) {
  struct Kept {
    fs::file_time_type used;
    std::uintmax_t bytes = 0;
    fs::path path;
  };
  std::vector<Kept> files;
  std::uintmax_t bytes = 0;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    if (!entry.is_regular_file() || entry.path().filename() == kLockName) continue;
    files.push_back({entry.last_write_time(), entry.file_size(), entry.path()});
    bytes += files.back().bytes;
  }
  std::ranges::sort(files, {}, &Kept::used);
  for (auto file = files.begin(); file != files.end() && bytes > most_bytes; ++file) {
    fs::remove(file->path);
    bytes -= file->bytes;
  }
}

/// False: another has a lock that this one cannot be held beside.
bool lock_file(int file, int operation) {
  while (::flock(file, operation) != 0) {
    if (errno != EINTR) return false;
  }
  return true;
}

std::string read_text(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  if (!file) throw RuntimeFailure("cannot read " + path.string());
  return text.str();
}

std::vector<std::string> words(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> list;
  for (std::string word; stream >> word;) list.push_back(word);
  return list;
}

/// Exit status; what it writes goes to `log`.
int run_process(std::vector<std::string> arguments, const fs::path& log) {
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, log.c_str(), O_WRONLY | O_CREAT | O_TRUNC,
                                     0600);
  ::posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO);
  pid_t child = -1;
  const int fault = ::posix_spawnp(&child, argv[0], &actions, nullptr, argv.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  if (fault != 0) throw RuntimeFailure(fmt::format("cannot start the compiler {}", arguments[0]));
  int status = 0;
  while (::waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) throw RuntimeFailure("lost the compiler's process");
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 255;
}

std::string first_lines(const std::string& text) {
  std::istringstream stream(text);
  std::string result;
  std::size_t lines = 0;
  for (std::string line; lines < kMessageLines && std::getline(stream, line); ++lines) result += "\n" + line;
  return result;
}

/// That it was used now.
void note_use(const fs::path& path) {
  std::error_code ignored;
  fs::last_write_time(path, fs::file_time_type::clock::now(), ignored);
}

template <class Function>
Function symbol(void* object, const std::string& name) {
  void* const found = ::dlsym(object, name.c_str());
  if (found == nullptr) internal_error("a shared object of kernels has no symbol {}", name);
  return reinterpret_cast<Function>(found);
}

}  // namespace

std::uint64_t hash_text(std::string_view text, std::uint64_t state) {
  for (char c : text) state = (state ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
  return state;
}

FolderUse::FolderUse(const fs::path& folder, std::uintmax_t most_bytes)
    : lock_(::open((folder / kLockName).c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600)) {
  if (lock_ < 0) throw RuntimeFailure(fmt::format("cannot write in {}", folder.string()));
  if (lock_file(lock_, LOCK_EX | LOCK_NB)) drop_oldest(folder, most_bytes);
  lock_file(lock_, LOCK_SH);
}

FolderUse::~FolderUse() {
  ::close(lock_);
}

HostCompiler::HostCompiler(fs::path folder, std::string_view prelude, const CompileOptions& options)
    : folder_(made(folder)), use_(folder_, kFolderBytes), prelude_(prelude), options_(options) {
  key_ = hash_text("");
  for (const char* header : {"device.h", "interface.h"})
    key_ = hash_text(read_text(fs::path(REWIRE_SHIM_ROOT) / "tests/cuda_shim" / header), key_);
  for (const std::string& word : command()) key_ = hash_text(word, hash_text(" ", key_));
}

HostCompiler::~HostCompiler() {
  for (void* object : objects_) ::dlclose(object);
}

void HostCompiler::add(std::span<const KernelText> kernels) {
  const auto start = std::chrono::steady_clock::now();
  std::map<std::string, const KernelText*> fresh;
  for (const KernelText& kernel : kernels) {
    if (!kernels_.contains(kernel.symbol)) fresh.emplace(kernel.symbol, &kernel);
  }
  std::vector<const KernelText*> list;
  for (const auto& [name, kernel] : fresh) list.push_back(kernel);
  const std::vector<File> files = arrange(list);
  const auto is_there = [&](const File& file) { return fs::exists(object_of(file)); };
  if (precompiled_.empty() && !std::ranges::all_of(files, is_there)) precompile();
  std::atomic<int> compiled = 0;
  runtime::ThreadPool pool(options_.jobs);
  pool.run(static_cast<std::int64_t>(files.size()), 1, [&](std::int64_t begin, std::int64_t end, int) {
    for (std::int64_t i = begin; i < end; ++i) {
      const File& file = files[static_cast<std::size_t>(i)];
      const fs::path object = object_of(file);
      if (fs::exists(object)) {
        note_use(object);
        note_use(fs::path(object).replace_extension(".cpp"));
        continue;
      }
      compile(file, object);
      ++compiled;
    }
  });
  for (const File& file : files) load(file, object_of(file));
  report_.kernels += static_cast<int>(list.size());
  report_.files += static_cast<int>(files.size());
  report_.compiled_files += compiled;
  report_.seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

const KernelFunction& HostCompiler::kernel(std::string_view symbol_name) const {
  const auto found = kernels_.find(symbol_name);
  if (found == kernels_.end()) internal_error("kernel '{}' was never compiled", symbol_name);
  return found->second;
}

/// As many files as there are jobs, or more where they would grow long.
std::vector<HostCompiler::File> HostCompiler::arrange(const std::vector<const KernelText*>& kernels) const {
  std::size_t bytes = 0;
  for (const KernelText* kernel : kernels) bytes += kernel->text.size();
  const std::size_t goal =
      std::clamp<std::size_t>(bytes / static_cast<std::size_t>(options_.jobs), 1, kFileBytes);
  std::vector<File> files;
  std::size_t filled = goal;
  for (const KernelText* kernel : kernels) {
    if (filled >= goal) {
      files.emplace_back();
      filled = 0;
    }
    files.back().symbols.push_back(kernel->symbol);
    files.back().text += fmt::format("#line 1 \"{}.cu\"\n{}\n", kernel->symbol, kernel->text);
    filled += kernel->text.size();
  }
  for (File& file : files) {
    file.text += "#line 1 \"kernels.cpp\"\nREWIRE_SHIM_FILE()\n";
    for (const std::string& name : file.symbols) file.text += fmt::format("REWIRE_SHIM_KERNEL({})\n", name);
  }
  return files;
}

/// REWIRE_SHIM_FLAGS are those of the build that change what code means: the sanitizers.
std::vector<std::string> HostCompiler::command() const {
  std::vector<std::string> arguments = {
      REWIRE_SHIM_COMPILER,  "-std=c++20",         options_.optimise ? "-O1" : "-O0", "-w", "-fPIC",
      "-fvisibility=hidden", "-I" REWIRE_SHIM_ROOT};
#if defined(__x86_64__)
  // With what nvcc does as well: a product and a sum in one rounding.
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
    arguments.insert(arguments.end(), {"-mavx2", "-mfma", "-mf16c", "-ffp-contract=fast"});
#endif
  const std::vector<std::string> flags = words(REWIRE_SHIM_FLAGS);
  if (flags.empty()) {  // else the sanitizer looks
    arguments.insert(arguments.end(),
                     {"-DREWIRE_SHIM_CHECKS", "-fsanitize=alignment,bounds", "-fno-sanitize-recover=all"});
  }
  arguments.insert(arguments.end(), flags.begin(), flags.end());
  for (const std::string& word : words(REWIRE_SHIM_LINKER)) arguments.push_back(word);
  return arguments;
}

fs::path HostCompiler::object_of(const File& file) const {
  return folder_ /
         fmt::format("{:016x}{:08x}.so", hash_text(file.text, hash_text(prelude_, key_)), file.text.size());
}

void HostCompiler::compile(const File& file, const fs::path& object) const {
  const std::string stem = fmt::format("{}.{}", object.stem().string(), ::getpid());
  const fs::path source = folder_ / (stem + ".cpp"), fresh = folder_ / (stem + ".so");
  std::ofstream(source) << file.text;
  run_compiler({"-shared", "-include", precompiled_.string(), source.string()}, fresh,
               fmt::format("kernels {} …", file.symbols.front()));
  fs::rename(fresh, object);
  fs::rename(source, fs::path(object).replace_extension(".cpp"));
}

/// device.h and the prelude, which every file begins with. GCC alone takes a precompiled header whose text was touched
/// since.
void HostCompiler::precompile() {
  const std::string text =
      "#include \"tests/cuda_shim/device.h\"\n#line 1 \"prelude.cuh\"\n" + prelude_ + "\n";
  const fs::path header = folder_ / fmt::format("{:016x}.h", hash_text(text, key_)),
                 object = header.string() + ".gch";
  const fs::path own = folder_ / fmt::format("{}.{}", header.filename().string(), ::getpid());
  if (!fs::exists(header)) {
    std::ofstream(own) << text;
    fs::rename(own, header);  // whoever makes it beside this process makes the same
  }
  if (REWIRE_SHIM_PRECOMPILES && !fs::exists(object)) {
    run_compiler({"-x", "c++-header", header.string()}, own, "the prelude");
    fs::rename(own, object);
  }
  note_use(header);
  if (REWIRE_SHIM_PRECOMPILES) note_use(object);
  precompiled_ = header;
}

void HostCompiler::run_compiler(const std::vector<std::string>& what, const fs::path& result,
                                const std::string& name) const {
  const fs::path log = result.string() + ".log";
  std::vector<std::string> arguments = command();
  arguments.insert(arguments.end(), what.begin(), what.end());
  arguments.insert(arguments.end(), {"-o", result.string()});
  if (run_process(arguments, log) != 0) {
    throw RuntimeFailure(
        fmt::format("the compiler refuses {} ({}):{}", what.back(), name, first_lines(read_text(log))));
  }
  fs::remove(log);
}

void HostCompiler::load(const File& file, const fs::path& object) {
  void* const handle = ::dlopen(object.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr)
    throw RuntimeFailure(fmt::format("cannot load {}: {}", object.string(), ::dlerror()));
  objects_.push_back(handle);
  const auto current = symbol<rewire_shim::Thread** (*)()>(handle, "rewire_shim_current");
  for (const std::string& name : file.symbols) {
    const auto run = symbol<void (*)(void* const*)>(handle, name + "_on_host");
    kernels_.emplace(name, KernelFunction{name, run, current});
  }
}

}  // namespace rewire::cuda_shim
