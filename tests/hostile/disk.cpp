#include "tests/hostile/disk.h"

#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <stdexcept>

#include "tests/hostile/steps.h"

namespace rewire::test {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> fields_of(std::string_view line) {
  std::vector<std::string> fields;
  while (true) {
    const std::size_t tab = line.find('\t');
    fields.emplace_back(line.substr(0, tab));
    if (tab == std::string_view::npos) return fields;
    line.remove_prefix(tab + 1);
  }
}

std::string inode_of(const std::string& path) {
  struct stat status{};
  ::lstat(path.c_str(), &status);
  return std::to_string(status.st_ino);
}

std::pair<std::string, std::string> split(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  return {path.substr(0, slash), path.substr(slash + 1)};
}

}  // namespace

std::vector<Change> read_journal(const std::string& file) {
  using Kind = Change::Kind;
  const std::string text = read_bytes(file);
  std::vector<Change> changes;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = text.find('\n', at);
    const std::vector<std::string> fields = fields_of(std::string_view(text).substr(at, end - at));
    at = end + 1;
    const std::string& kind = fields.at(0);
    if (kind == "create" || kind == "folder" || kind == "link") {
      changes.push_back({kind == "create"   ? Kind::create
                         : kind == "folder" ? Kind::folder
                                            : Kind::link,
                         fields.at(1),
                         fields.at(2),
                         {},
                         0,
                         0,
                         {}});
    } else if (kind == "write") {
      const std::size_t size = std::stoull(fields.at(3));
      changes.push_back(
          {Kind::write, fields.at(1), {}, {}, std::stoull(fields.at(2)), size, text.substr(at, size)});
      at += size;
    } else if (kind == "resize") {
      changes.push_back({Kind::resize, fields.at(1), {}, {}, 0, std::stoull(fields.at(2)), {}});
    } else if (kind == "sync") {
      changes.push_back({Kind::sync, fields.at(1), {}, {}, 0, 0, {}});
    } else if (kind == "rename") {
      changes.push_back({Kind::rename, {}, fields.at(1), fields.at(2), 0, 0, {}});
    } else if (kind == "remove") {
      changes.push_back({Kind::remove, {}, fields.at(1), {}, 0, 0, {}});
    } else {
      throw std::runtime_error("the journal has the record " + kind);
    }
  }
  return changes;
}

std::string to_string(const Crash& crash) {
  const char* const names[] = {"undone", "half done", "done"};
  const char* const bytes[] = {"dropped", "zeros", "torn", "written"};
  return std::string("names ") + names[static_cast<int>(crash.names)] + ", bytes " +
         bytes[static_cast<int>(crash.bytes)];
}

Disk::Disk(const std::string& root) : root_(root) {
  top_->is_folder = true;
  inodes_[inode_of(root)] = top_;
  const std::function<void(Node&, const std::string&)> load_all = [&](Node& node, const std::string& path) {
    for (const fs::directory_entry& entry : fs::directory_iterator(path)) {
      const auto child = std::make_shared<Node>();
      child->is_folder = entry.is_directory();
      if (!child->is_folder) child->durable = child->now = read_bytes(entry.path().string());
      const std::string name = entry.path().filename().string();
      node.names[name] = node.durable_names[name] = child;
      inodes_[inode_of(entry.path().string())] = child;
      if (child->is_folder) load_all(*child, entry.path().string());
    }
  };
  load_all(*top_, root);
}

Disk::NodePointer Disk::find(std::string_view path) const {
  NodePointer node = top_;
  path.remove_prefix(std::min(path.size(), root_.size()));
  while (node != nullptr && !path.empty()) {
    const std::size_t begin = path.find_first_not_of('/');
    if (begin == std::string_view::npos) break;
    path.remove_prefix(begin);
    const std::string name(path.substr(0, path.find('/')));
    const auto found = node->names.find(name);
    node = found == node->names.end() ? nullptr : found->second;
    path.remove_prefix(name.size());
  }
  return node;
}

void Disk::set_names(const std::vector<std::pair<std::string, NodePointer>>& namings) {
  std::vector<Naming> together;
  for (const auto& [path, node] : namings) {
    const auto [above, name] = split(path);
    const NodePointer folder = find(above);
    if (folder == nullptr) throw std::runtime_error("the journal names a file in no folder: " + path);
    together.push_back({folder, name, node});
  }
  for (const Naming& naming : together) {
    if (naming.node == nullptr)
      naming.folder->names.erase(naming.name);
    else
      naming.folder->names[naming.name] = naming.node;
  }
  pending_.push_back(std::move(together));
}

void Disk::sync(Node* node) {
  node->durable = node->now;
  if (!node->is_folder) return;
  std::erase_if(pending_, [&](const std::vector<Naming>& together) {
    if (std::ranges::none_of(together, [&](const Naming& naming) { return naming.folder.get() == node; }))
      return false;
    for (const Naming& naming : together) {
      if (naming.node == nullptr)
        naming.folder->durable_names.erase(naming.name);
      else
        naming.folder->durable_names[naming.name] = naming.node;
    }
    return true;
  });
}

void Disk::apply(const Change& change) {
  using Kind = Change::Kind;
  const auto node = [&] {
    const auto found = inodes_.find(change.inode);
    if (found == inodes_.end()) throw std::runtime_error("the journal writes to a file that it never made");
    return found->second;
  };
  switch (change.kind) {
    case Kind::create:
    case Kind::folder: {
      const auto made = inodes_[change.inode] = std::make_shared<Node>();
      made->is_folder = change.kind == Kind::folder;
      if (!change.path.empty()) set_names({{change.path, made}});
      return;
    }
    case Kind::write: {
      std::string& bytes = node()->now;
      bytes.resize(std::max(bytes.size(), change.offset + change.size));
      bytes.replace(change.offset, change.size, change.bytes);
      return;
    }
    case Kind::resize:
      node()->now.resize(change.size);
      return;
    case Kind::sync:
      return sync(node().get());
    case Kind::rename:
      return set_names({{change.other, find(change.path)}, {change.path, nullptr}});
    case Kind::link:
      return set_names({{change.path, node()}});
    case Kind::remove:
      return set_names({{change.path, nullptr}});
  }
}

std::string Disk::content(const Node& node, Crash::Bytes bytes) {
  const std::string &durable = node.durable, &now = node.now;
  if (bytes == Crash::Bytes::dropped) return durable;
  if (bytes == Crash::Bytes::written || durable == now) return now;
  // From the first byte that was not synced, nothing or the first half has come to the disk; the size has.
  const auto same = static_cast<std::size_t>(std::ranges::mismatch(durable, now).in2 - now.begin());
  const std::size_t kept = bytes == Crash::Bytes::zeros ? same : same + (now.size() - same) / 2;
  return now.substr(0, kept) + std::string(now.size() - kept, '\0');
}

void Disk::collect(const Node& node, const std::string& prefix,
                   const std::map<const Node*, std::map<std::string, NodePointer>>& names, Crash::Bytes bytes,
                   std::map<std::string, std::string>& files) {
  const auto changed = names.find(&node);
  for (const auto& [name, child] : changed == names.end() ? node.durable_names : changed->second) {
    const std::string path = prefix + name;
    if (child->is_folder) {
      files[path + "/"] = "";
      collect(*child, path + "/", names, bytes, files);
    } else {
      files[path] = content(*child, bytes);
    }
  }
}

std::map<std::string, std::string> Disk::after(const Crash& crash) const {
  std::map<const Node*, std::map<std::string, NodePointer>> names;
  const std::size_t done = crash.names == Crash::Names::undone ? 0
                           : crash.names == Crash::Names::half ? pending_.size() / 2
                                                               : pending_.size();
  for (std::size_t i = 0; i < done; ++i) {
    for (const Naming& naming : pending_[i]) {
      auto& of_folder = names.try_emplace(naming.folder.get(), naming.folder->durable_names).first->second;
      if (naming.node == nullptr)
        of_folder.erase(naming.name);
      else
        of_folder[naming.name] = naming.node;
    }
  }
  std::map<std::string, std::string> files;
  collect(*top_, "", names, crash.bytes, files);
  return files;
}

}  // namespace rewire::test
