// A disk that loses its power: what it holds of the files below a folder after any prefix of the changes that
// a journal (journal.cpp) tells of. POSIX promises no more than: the bytes of a file that was synced, and the
// names in a folder that was. Between two syncs anything may have come to the disk; a crash is one choice of
// that.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace rewire::test {

struct Change {
  enum class Kind { create, folder, write, resize, sync, rename, link, remove } kind;
  std::string inode, path, other;  // `other`: where a rename leads
  std::size_t offset = 0, size = 0;
  std::string bytes;
};

std::vector<Change> read_journal(const std::string& file);

/// What a crash leaves of what was not synced.
struct Crash {
  enum class Names { undone, half, done } names;  // of creations, renames and removals
  enum class Bytes { dropped, zeros, torn, written } bytes;
};
std::string to_string(const Crash& crash);

class Disk {
 public:
  /// As `root` is now, all of it durable.
  explicit Disk(const std::string& root);

  void apply(const Change& change);
  /// Path below the root -> content; folders end in '/'.
  std::map<std::string, std::string> after(const Crash& crash) const;

 private:
  struct Node {
    bool is_folder = false;
    std::string durable, now;
    std::map<std::string, std::shared_ptr<Node>> durable_names, names;
  };
  using NodePointer = std::shared_ptr<Node>;
  /// A name of a folder that leads to a node now, or to none: with others that go with it (a rename), or not
  /// at all.
  struct Naming {
    NodePointer folder;
    std::string name;
    NodePointer node;
  };
  using Pending = std::vector<std::vector<Naming>>;

  NodePointer find(std::string_view path) const;
  void set_names(const std::vector<std::pair<std::string, NodePointer>>& namings);
  void sync(Node* node);
  static std::string content(const Node& node, Crash::Bytes bytes);
  static void collect(const Node& node, const std::string& prefix,
                      const std::map<const Node*, std::map<std::string, NodePointer>>& names,
                      Crash::Bytes bytes, std::map<std::string, std::string>& files);

  const std::string root_;
  NodePointer top_ = std::make_shared<Node>();
  std::map<std::string, NodePointer> inodes_;
  Pending pending_;  // in the order in which they were done
};

}  // namespace rewire::test
