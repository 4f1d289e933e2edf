#include "codegen/files/trusted.h"

#include <fcntl.h>

#include <cerrno>
#include <climits>
#include <filesystem>
#include <system_error>
#include <vector>

#include "ir/error.h"

namespace rewire::codegen {
namespace {

constexpr int kMostLinks = 40;  // the same as in Linux

/// Who else may write (`who`: "its group" …), and the classes from which chmod takes that right (`letters`).
/// Both texts are "" if only the owner may write.
struct Writers {
  std::string_view who, letters;
};
Writers writers(const struct stat& status) {
  const bool group = (status.st_mode & S_IWGRP) != 0, others = (status.st_mode & S_IWOTH) != 0;
  if (others) return {"everybody", group ? "go" : "o"};
  return group ? Writers{"its group", "g"} : Writers{};
}

bool is_foreign(const struct stat& status) {
  return status.st_uid != 0 && status.st_uid != ::geteuid();
}

/// Walks the path to one file from the root: the folder reached so far, and the names still to come.
class Walk {
 public:
  Walk(const std::string& path, std::string_view what) : asked_(path), what_(what) {
    std::error_code error;
    push(path);
    if (!path.starts_with('/')) push(std::filesystem::current_path(error).string());
    if (error) fail(error.value());
    begin_at_root();
  }

  TrustedFile open(int flags) {
    while (!names_.empty()) {
      const std::string name = std::move(names_.back());
      names_.pop_back();
      Descriptor entry(::openat(folder_.get(), name.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
      struct stat status{};
      if (!entry || ::fstat(entry.get(), &status) != 0) fail(errno);
      if (S_ISLNK(status.st_mode)) {
        follow(entry, name, status);
      } else if (!names_.empty() || S_ISDIR(status.st_mode)) {
        enter(std::move(entry), name, status);
      } else {
        return open_file(name, status, flags);
      }
    }
    if (is_shared_) refuse_shared();
    Descriptor opened(::openat(folder_.get(), ".", flags | O_CLOEXEC));
    if (!opened) fail(errno);
    return {std::move(opened), place()};
  }

 private:
  [[noreturn]] void fail(int error) const {
    user_error("cannot open '{}': {}", asked_, std::generic_category().message(error));
  }
  [[noreturn]] void refuse(const std::string& place, const struct stat& status) const {
    const Writers those = writers(status);
    if (is_foreign(status) || those.who.empty()) {
      user_error(
          "'{}' belongs to user {}, not to you or root, so {} cannot be trusted: copy it to a folder of "
          "yours",
          place, status.st_uid, what_);
    }
    user_error("'{}' is writable by {}, so {} cannot be trusted: chmod {}-w '{}'", place, those.who, what_,
               those.letters, place);
  }

  [[noreturn]] void refuse_shared() const {
    user_error("everybody can put files into '{}', so {} cannot be trusted: use a folder of yours", place(),
               what_);
  }

  std::string place() const { return place_.empty() ? "/" : place_; }

  /// Puts the names of `path` next in the walk.
  void push(const std::string& path) {
    std::vector<std::string> names;
    for (const std::filesystem::path& name : std::filesystem::path(path)) {
      if (!name.empty() && name != "/" && name != ".") names.push_back(name.string());
    }
    names_.insert(names_.end(), names.rbegin(), names.rend());
  }

  void begin_at_root() {
    Descriptor root(::open("/", O_PATH | O_DIRECTORY | O_CLOEXEC));
    struct stat status{};
    if (!root || ::fstat(root.get(), &status) != 0) fail(errno);
    place_.clear();
    enter(std::move(root), "", status);
  }

  void enter(Descriptor entry, const std::string& name, const struct stat& status) {
    if (!S_ISDIR(status.st_mode)) fail(ENOTDIR);
    if (name == "..") {
      place_ = place_.substr(0, place_.find_last_of('/'));
    } else if (!name.empty()) {
      place_ += '/' + name;
    }
    const bool writable = !writers(status).who.empty();
    if (is_foreign(status) || (writable && (status.st_mode & S_ISVTX) == 0)) refuse(place(), status);
    is_shared_ = writable;
    folder_ = std::move(entry);
  }

  void follow(const Descriptor& link, const std::string& name, const struct stat& status) {
    if (is_foreign(status)) refuse(place_ + '/' + name, status);
    if (++links_ > kMostLinks) fail(ELOOP);
    std::string target(PATH_MAX, '\0');
    const ssize_t size = ::readlinkat(link.get(), "", target.data(), target.size());
    if (size < 0) fail(errno);
    target.resize(static_cast<std::size_t>(size));
    if (target.starts_with('/')) begin_at_root();
    push(target);
  }

  TrustedFile open_file(const std::string& name, const struct stat& status, int flags) {
    if (is_shared_) refuse_shared();
    const std::string path = place_ + '/' + name;
    if (is_foreign(status) || !writers(status).who.empty()) refuse(path, status);
    Descriptor opened(::openat(folder_.get(), name.c_str(), flags | O_NOFOLLOW | O_CLOEXEC));
    if (!opened) fail(errno);
    struct stat seen{};
    if (::fstat(opened.get(), &seen) != 0) fail(errno);
    if (seen.st_dev != status.st_dev || seen.st_ino != status.st_ino) fail(ESTALE);
    return {std::move(opened), path};
  }

  const std::string& asked_;
  std::string_view what_;
  Descriptor folder_;
  bool is_shared_ = false;          // others may add files to the folder, but not remove ours
  std::string place_;               // of the folder; "" for the root
  std::vector<std::string> names_;  // still to come, the last first
  int links_ = 0;
};

}  // namespace

TrustedFile open_trusted(const std::string& path, int flags, std::string_view what) {
  if (path.empty() || path.find('\0') != std::string::npos)
    user_error("'{}' is not a path of a file", path.substr(0, path.find('\0')));
  return Walk(path, what).open(flags);
}

std::string distrust(const struct stat& status) {
  if (!S_ISREG(status.st_mode)) return "it is not a regular file";
  if (is_foreign(status)) return fmt::format("it belongs to user {}", status.st_uid);
  const Writers those = writers(status);
  return those.who.empty() ? std::string() : fmt::format("it is writable by {}", those.who);
}

}  // namespace rewire::codegen
