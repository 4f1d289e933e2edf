// libfaults.so: the calls of a program on its files and memory, of which one fails. What the C library calls
// inside itself (fopen, stdio) goes past it. See faults.h.
#include "tests/hostile/faults.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>

// Of the C library; what stands under the public names here takes their place.
extern "C" {
void* __libc_malloc(std::size_t);
void* __libc_calloc(std::size_t, std::size_t);
void* __libc_realloc(void*, std::size_t);
void* __libc_memalign(std::size_t, std::size_t);
}

namespace rewire::faults {
namespace {

/// What the environment asks for, read once; no memory is taken.
struct Wish {
  const char* under = std::getenv("FAULT_UNDER");
  const char* call = std::getenv("FAULT_CALL");
  const char* report = std::getenv("FAULT_REPORT");
  long at = number("FAULT_AT", 0), times = number("FAULT_TIMES", 1);
  int error = 0;
  bool is_short = false, kills = false;

  Wish() {
    const char* text = std::getenv("FAULT_ERROR");
    if (text == nullptr) return;
    is_short = std::strcmp(text, "short") == 0;
    kills = std::strcmp(text, "kill") == 0;
    error = std::atoi(text);
  }
  static long number(const char* name, long otherwise) {
    const char* text = std::getenv(name);
    return text == nullptr ? otherwise : std::atol(text);
  }
};
const Wish& wish() {
  static const Wish instance;
  return instance;
}

/// Where memory fails, none is taken here.
bool wants_paths() {
  return wish().call == nullptr || std::strcmp(wish().call, "malloc") != 0;
}

std::atomic<long> calls{0};
std::atomic<bool> in_main{false};

void report(long size) {
  if (wish().report == nullptr) return;
  const long file = ::syscall(SYS_openat, AT_FDCWD, wish().report, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  struct stat status{};
  if (::fstat(static_cast<int>(file), &status) == 0 && status.st_size < size)
    ::syscall(SYS_ftruncate, file, size);
  ::syscall(SYS_close, file);
}

/// True if this call of the kind is one that fails. Counts it.
bool is_due(const char* kind) {
  if (!in_main || wish().call == nullptr || std::strcmp(wish().call, kind) != 0) return false;
  const long number = ++calls;
  const bool due =
      wish().at > 0 && number >= wish().at && (wish().times == 0 || number < wish().at + wish().times);
  if (!due) return false;
  report(number);
  if (wish().kills) ::raise(SIGKILL);
  return true;
}

bool fails(const char* kind, const std::string& path) {
  if (wish().call == nullptr || std::strcmp(wish().call, kind) != 0 || !is_watched(path) || !is_due(kind))
    return false;
  errno = wish().error;
  return true;
}
bool fails(const char* kind, int descriptor) {
  return wish().call != nullptr && std::strcmp(wish().call, kind) == 0 && fails(kind, path_of(descriptor));
}

/// How many of `count` bytes the call moves: -1, errno set, where it fails.
ssize_t granted(const char* kind, int descriptor, std::size_t count) {
  if (!fails(kind, descriptor)) return static_cast<ssize_t>(count);
  return wish().is_short ? static_cast<ssize_t>((count + 1) / 2) : -1;
}

int open_file(int folder, const char* path, int flags, mode_t mode) {
  const std::string file = path_at(folder, path);
  if (fails("open", file)) return -1;
  struct stat status{};
  const bool existed = ::lstat(file.c_str(), &status) == 0;
  const int descriptor = static_cast<int>(::syscall(SYS_openat, folder, path, flags, mode));
  if (descriptor >= 0) note_opened(descriptor, file, flags, existed);
  return descriptor;
}

int made(const std::string& path, long result) {
  if (result == 0) note_folder(path);
  return static_cast<int>(result);
}

int renamed(const std::string& from, const std::string& to, int from_folder, const char* from_path,
            int to_folder, const char* to_path, unsigned flags) {
  if (fails("rename", to)) return -1;
  const long result = ::syscall(SYS_renameat2, from_folder, from_path, to_folder, to_path, flags);
  if (result == 0) note_renamed(from, to);
  return static_cast<int>(result);
}

int removed(int folder, const char* path, int flags) {
  const std::string file = path_at(folder, path);
  if (fails("unlink", file)) return -1;
  const long result = ::syscall(SYS_unlinkat, folder, path, flags);
  if (result == 0) note_removed(file);
  return static_cast<int>(result);
}

ssize_t written(int descriptor, const void* bytes, std::size_t count, off_t at) {
  const ssize_t most = granted("write", descriptor, count);
  if (most < 0) return -1;
  const auto room = static_cast<std::size_t>(most);
  const ssize_t done = at < 0 ? ::syscall(SYS_write, descriptor, bytes, room)
                              : ::syscall(SYS_pwrite64, descriptor, bytes, room, at);
  if (done > 0)
    note_written(descriptor, bytes, static_cast<std::size_t>(done),
                 at >= 0 ? at : ::lseek(descriptor, 0, SEEK_CUR) - done);
  return done;
}

int (*program_main)(int, char**, char**) = nullptr;

int counted_main(int argc, char** argv, char** variables) {
  in_main = true;
  const int code = program_main(argc, argv, variables);
  in_main = false;
  if (wish().at == 0) report(calls);
  return code;
}

}  // namespace

std::string path_of(int descriptor) {
  if (!wants_paths()) return {};
  std::array<char, PATH_MAX> path;
  const std::string link = "/proc/self/fd/" + std::to_string(descriptor);
  const ssize_t size = ::readlink(link.c_str(), path.data(), path.size());
  return size < 0 ? std::string() : std::string(path.data(), static_cast<std::size_t>(size));
}

std::string path_at(int folder, const char* path) {
  if (!wants_paths()) return {};
  if (path[0] == '/') return path;
  std::array<char, PATH_MAX> current;
  const std::string above = folder != AT_FDCWD ? path_of(folder)
                            : ::getcwd(current.data(), current.size()) == nullptr
                                ? std::string()
                                : std::string(current.data());
  return path[0] == '\0' ? above : above + "/" + path;
}

bool is_watched(const std::string& path) {
  const char* under = wish().under;
  return under != nullptr && path.starts_with(under);
}

}  // namespace rewire::faults

using namespace rewire::faults;

#define PUBLIC extern "C" __attribute__((visibility("default")))

PUBLIC int __libc_start_main(int (*main)(int, char**, char**), int argc, char** argv, void (*init)(),
                             void (*fini)(), void (*rtld_fini)(), void* stack_end) {
  program_main = main;
  const auto next = reinterpret_cast<decltype(&__libc_start_main)>(::dlsym(RTLD_NEXT, "__libc_start_main"));
  return next(counted_main, argc, argv, init, fini, rtld_fini, stack_end);
}

/// A signal to every process that may be signalled, as kill(-1) after a fork that failed, ends this one instead.
PUBLIC int kill(pid_t process, int signal) {
  if (process == -1) std::abort();
  return static_cast<int>(::syscall(SYS_kill, process, signal));
}

PUBLIC int openat(int folder, const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = va_arg(arguments, mode_t);
  va_end(arguments);
  return open_file(folder, path, flags, mode);
}
PUBLIC int open(const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = va_arg(arguments, mode_t);
  va_end(arguments);
  return open_file(AT_FDCWD, path, flags, mode);
}
PUBLIC int open64(const char* path, int flags, ...) __attribute__((alias("open")));
PUBLIC int openat64(int folder, const char* path, int flags, ...) __attribute__((alias("openat")));
PUBLIC int __open_2(const char* path, int flags) {
  return open_file(AT_FDCWD, path, flags, 0);
}
PUBLIC int __open64_2(const char* path, int flags) {
  return open_file(AT_FDCWD, path, flags, 0);
}
PUBLIC int __openat_2(int folder, const char* path, int flags) {
  return open_file(folder, path, flags, 0);
}
PUBLIC int __openat64_2(int folder, const char* path, int flags) {
  return open_file(folder, path, flags, 0);
}

PUBLIC int close(int descriptor) {
  const bool failing = fails("close", descriptor);
  const int error = errno;
  const long result = ::syscall(SYS_close, descriptor);
  if (failing) errno = error;
  return failing ? -1 : static_cast<int>(result);
}

PUBLIC ssize_t read(int descriptor, void* bytes, std::size_t count) {
  const ssize_t most = granted("read", descriptor, count);
  return most < 0 ? -1 : ::syscall(SYS_read, descriptor, bytes, most);
}
PUBLIC ssize_t pread(int descriptor, void* bytes, std::size_t count, off_t at) {
  const ssize_t most = granted("read", descriptor, count);
  return most < 0 ? -1 : ::syscall(SYS_pread64, descriptor, bytes, most, at);
}
PUBLIC ssize_t pread64(int descriptor, void* bytes, std::size_t count, off_t at)
    __attribute__((alias("pread")));
PUBLIC ssize_t __read_chk(int descriptor, void* bytes, std::size_t count, std::size_t) {
  return read(descriptor, bytes, count);
}

PUBLIC ssize_t write(int descriptor, const void* bytes, std::size_t count) {
  return written(descriptor, bytes, count, -1);
}
PUBLIC ssize_t pwrite(int descriptor, const void* bytes, std::size_t count, off_t at) {
  return written(descriptor, bytes, count, at);
}
PUBLIC ssize_t pwrite64(int descriptor, const void* bytes, std::size_t count, off_t at)
    __attribute__((alias("pwrite")));
PUBLIC ssize_t writev(int descriptor, const struct iovec* parts, int count) {
  ssize_t total = 0;
  for (int i = 0; i < count; ++i) {
    const ssize_t done = written(descriptor, parts[i].iov_base, parts[i].iov_len, -1);
    if (done < 0) return total > 0 ? total : -1;
    total += done;
    if (static_cast<std::size_t>(done) < parts[i].iov_len) break;
  }
  return total;
}

PUBLIC int fsync(int descriptor) {
  if (fails("fsync", descriptor)) return -1;
  const long result = ::syscall(SYS_fsync, descriptor);
  if (result == 0) note_synced(descriptor);
  return static_cast<int>(result);
}
PUBLIC int fdatasync(int descriptor) {
  return fsync(descriptor);
}

PUBLIC int ftruncate(int descriptor, off_t size) {
  if (fails("ftruncate", descriptor)) return -1;
  const long result = ::syscall(SYS_ftruncate, descriptor, size);
  if (result == 0) note_resized(descriptor, size);
  return static_cast<int>(result);
}
PUBLIC int ftruncate64(int descriptor, off_t size) __attribute__((alias("ftruncate")));

PUBLIC int mkdir(const char* path, mode_t mode) {
  const std::string folder = path_at(AT_FDCWD, path);
  return fails("mkdir", folder) ? -1 : made(folder, ::syscall(SYS_mkdirat, AT_FDCWD, path, mode));
}
PUBLIC int mkdirat(int above, const char* path, mode_t mode) {
  const std::string folder = path_at(above, path);
  return fails("mkdir", folder) ? -1 : made(folder, ::syscall(SYS_mkdirat, above, path, mode));
}

PUBLIC int renameat2(int from_folder, const char* from, int to_folder, const char* to, unsigned flags) {
  return renamed(path_at(from_folder, from), path_at(to_folder, to), from_folder, from, to_folder, to, flags);
}
PUBLIC int renameat(int from_folder, const char* from, int to_folder, const char* to) {
  return renameat2(from_folder, from, to_folder, to, 0);
}
PUBLIC int rename(const char* from, const char* to) {
  return renameat2(AT_FDCWD, from, AT_FDCWD, to, 0);
}

PUBLIC int linkat(int from_folder, const char* from, int to_folder, const char* to, int flags) {
  const std::string target = path_at(to_folder, to);
  if (fails("rename", target)) return -1;
  const long result = ::syscall(SYS_linkat, from_folder, from, to_folder, to, flags);
  if (result == 0) note_linked(target);
  return static_cast<int>(result);
}
PUBLIC int link(const char* from, const char* to) {
  return linkat(AT_FDCWD, from, AT_FDCWD, to, 0);
}

PUBLIC int unlink(const char* path) {
  return removed(AT_FDCWD, path, 0);
}
PUBLIC int rmdir(const char* path) {
  return removed(AT_FDCWD, path, AT_REMOVEDIR);
}
PUBLIC int unlinkat(int folder, const char* path, int flags) {
  return removed(folder, path, flags);
}
PUBLIC int remove(const char* path) {
  if (removed(AT_FDCWD, path, 0) == 0) return 0;
  return errno == EISDIR ? removed(AT_FDCWD, path, AT_REMOVEDIR) : -1;
}

namespace {

/// oneDNN reads a null pointer where an allocation of its own fails (2.6.3, dnnl_memory_create): nobody who
/// calls it can mend that, so its own never fail here.
bool is_of_onednn(const void* caller) {
  Dl_info library{};
  return ::dladdr(caller, &library) != 0 && library.dli_fname != nullptr &&
         std::strstr(library.dli_fname, "libdnnl") != nullptr;
}

/// Of a call from the code at `caller`; errno is set where it fails.
bool memory_fails(const void* caller) {
  const bool is_near = wish().at > 0 && calls + 1 >= wish().at;
  if (wants_paths() || !in_main || (is_near && is_of_onednn(caller)) || !is_due("malloc")) return false;
  errno = ENOMEM;
  return true;
}

}  // namespace

PUBLIC void* malloc(std::size_t size) {
  return memory_fails(__builtin_return_address(0)) ? nullptr : __libc_malloc(size);
}
PUBLIC void* calloc(std::size_t count, std::size_t size) {
  return memory_fails(__builtin_return_address(0)) ? nullptr : __libc_calloc(count, size);
}
PUBLIC void* realloc(void* block, std::size_t size) {
  return memory_fails(__builtin_return_address(0)) ? nullptr : __libc_realloc(block, size);
}
PUBLIC void* memalign(std::size_t alignment, std::size_t size) {
  return memory_fails(__builtin_return_address(0)) ? nullptr : __libc_memalign(alignment, size);
}
PUBLIC void* aligned_alloc(std::size_t alignment, std::size_t size) {
  return memory_fails(__builtin_return_address(0)) ? nullptr : __libc_memalign(alignment, size);
}
PUBLIC int posix_memalign(void** block, std::size_t alignment, std::size_t size) {
  if (memory_fails(__builtin_return_address(0))) return ENOMEM;
  *block = __libc_memalign(alignment, size);
  return *block == nullptr ? ENOMEM : 0;
}
