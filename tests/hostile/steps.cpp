#include "tests/hostile/steps.h"

#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <utility>

namespace rewire::test {
namespace {

namespace fs = std::filesystem;

/// A step on the path of `name`.
template <class Change>
Step on(std::string name, Change change) {
  return [name = std::move(name), change = std::move(change)](const std::string& folder) {
    change(folder + "/" + name);
  };
}

/// A step on the bytes of `name`.
template <class Change>
Step on_bytes(std::string name, Change change) {
  return on(std::move(name), [change = std::move(change)](const std::string& path) {
    std::string bytes = read_bytes(path);
    change(bytes);
    write_bytes(path, bytes);
  });
}

/// A step that makes something anew at the path of `name`.
template <class Make>
Step in_place_of(std::string name, Make make) {
  return on(std::move(name), [make = std::move(make)](const std::string& path) {
    fs::remove_all(path);
    fs::create_directories(fs::path(path).parent_path());
    make(path);
  });
}

}  // namespace

std::string read_bytes(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream bytes;
  bytes << file.rdbuf();
  return std::move(bytes).str();
}

void write_bytes(const std::string& path, std::string_view bytes) {
  std::ofstream file(path, std::ios::binary);
  file << bytes;
  if (!file.flush()) throw std::runtime_error("cannot write " + path);
}

Step put(std::string name, std::string bytes) {
  return in_place_of(std::move(name),
                     [bytes = std::move(bytes)](const std::string& path) { write_bytes(path, bytes); });
}

Step copy(std::string from, std::string name) {
  return in_place_of(std::move(name), [from = std::move(from)](const std::string& path) {
    fs::copy(from, path, fs::copy_options::recursive | fs::copy_options::copy_symlinks);
  });
}

Step remove(std::string name) {
  return on(std::move(name), [](const std::string& path) { fs::remove_all(path); });
}

Step cut(std::string name, std::size_t bytes) {
  return on(std::move(name), [bytes](const std::string& path) { fs::resize_file(path, bytes); });
}

Step extend(std::string name, std::string more) {
  return on_bytes(std::move(name), [more = std::move(more)](std::string& bytes) { bytes += more; });
}

Step flip(std::string name, std::size_t byte, int bit) {
  return on_bytes(std::move(name), [byte, bit](std::string& bytes) {
    bytes.at(byte) = static_cast<char>(bytes.at(byte) ^ (1 << bit));
  });
}

Step zero(std::string name, std::size_t from, std::size_t count) {
  return on_bytes(std::move(name), [from, count](std::string& bytes) {
    std::fill_n(bytes.begin() + static_cast<std::ptrdiff_t>(from), std::min(count, bytes.size() - from),
                '\0');
  });
}

Step replace(std::string name, std::string from, std::string to) {
  return on_bytes(std::move(name), [from = std::move(from), to = std::move(to)](std::string& bytes) {
    const std::size_t at = bytes.find(from);
    if (at == std::string::npos) throw std::runtime_error("there is no '" + from + "' to replace");
    bytes.replace(at, from.size(), to);
  });
}

Step become_folder(std::string name) {
  return in_place_of(std::move(name), [](const std::string& path) { fs::create_directory(path); });
}

Step become_fifo(std::string name) {
  return in_place_of(std::move(name), [](const std::string& path) {
    if (::mkfifo(path.c_str(), 0600) != 0) throw std::runtime_error("mkfifo failed for " + path);
  });
}

Step become_link(std::string name, std::string target) {
  return in_place_of(std::move(name), [target = std::move(target)](const std::string& path) {
    fs::create_symlink(target, path);
  });
}

Step lead_away(std::string name, std::string to) {
  return [name = std::move(name), to = std::move(to)](const std::string& folder) {
    const std::string from = folder + "/" + name, target = folder + "/" + to;
    if (fs::exists(from)) {
      fs::rename(from, target);
    } else {
      fs::create_directory(target);
    }
    fs::create_symlink(target, from);
  };
}

Step become_huge(std::string name) {
  return in_place_of(std::move(name), [](const std::string& path) {
    write_bytes(path, "");
    fs::resize_file(path, std::uintmax_t{1} << 40);
  });
}

Step forbid(std::string name, unsigned mode) {
  return on(std::move(name),
            [mode](const std::string& path) { fs::permissions(path, static_cast<fs::perms>(mode)); });
}

std::string little_endian(std::uint64_t value, int bytes) {
  std::string text;
  for (int i = 0; i < bytes; ++i) text += static_cast<char>(value >> (8 * i));
  return text;
}

std::string big_endian(std::uint64_t value, int bytes) {
  std::string text = little_endian(value, bytes);
  std::ranges::reverse(text);
  return text;
}

}  // namespace rewire::test
