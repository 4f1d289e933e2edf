#include "runtime/data/text/documents.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <span>

#include "ir/error.h"
#include "ir/printable.h"
#include "runtime/data/text/split.h"
#include "runtime/device/log.h"
#include "runtime/io/json_view.h"
#include "runtime/io/mapped_file.h"
#include "runtime/io/sha256.h"

namespace rewire::runtime {
namespace {

namespace fs = std::filesystem;

std::string_view text_of(const MappedFile& file) {
  return {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
}

/// Takes the member "text" of each line.
void read_lines(const std::string& path, std::string_view text,
                const std::function<void(const Document&)>& take) {
  for (std::int64_t number = 1; !text.empty(); ++number) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    const std::string name = fmt::format("{}:{}", visible(path), number);
    const nlohmann::ordered_json json = parse_json(line, name);
    const JsonView view(json, name);
    take({name, view.at("text").text()});
  }
}

/// Calls `take` with each document of the files, also those without text.
void read_all(const std::vector<std::string>& files, const std::function<void(const Document&)>& take) {
  for (const std::string& path : files) {
    const MappedFile file(path);
    if (path.ends_with(".jsonl")) {
      read_lines(path, text_of(file), take);
    } else {
      take({visible(path), text_of(file)});
    }
  }
}

}  // namespace

Documents::Documents(const std::string& path)
    : name_(visible(path.empty() ? default_text() : path)),
      files_(path.empty() ? files_of_path(default_text(), {".pod"}, false) : files_of_path(path, {}, true)) {
  Sha256 digest;
  std::int64_t empty = 0;
  std::string first_empty;
  read_all(files_, [&](const Document& document) {
    if (document.text.empty()) {
      if (empty++ == 0) first_empty = document.name;
      return;
    }
    digest.update(std::as_bytes(std::span(document.text)));
    sizes_.push_back(std::ssize(document.text));
    bytes_ += sizes_.back();
  });
  if (bytes_ == 0) user_error("{}: there is no text in it", name_);
  sha256_ = digest.hex();
  if (empty > 0) {
    write_log_once(LogLevel::warning, "empty documents of " + name_,
                   fmt::format("{}: {} of {} documents without text left out, the first is {}", name_, empty,
                               empty + count(), first_empty));
  }
}

void Documents::for_each(const std::function<void(const Document&)>& take) const {
  read_all(files_, [&](const Document& document) {
    if (!document.text.empty()) take(document);
  });
}

std::string default_text() {
  // perl-modules has a few .pod files in this folder too; perlintro.pod is in perl-doc alone.
  std::vector<std::string> found;
  std::error_code error;
  for (fs::directory_iterator it("/usr/share/perl", error), end; !error && it != end; it.increment(error)) {
    const fs::path folder = it->path() / "pod";
    if (!it->is_symlink(error) && fs::exists(folder / "perlintro.pod", error))
      found.push_back(folder.string());
  }
  if (found.empty())
    user_error(
        "the default text, Perl's manual, is not installed: run scripts/setup.sh or `apt install "
        "perl-doc`, or set data.path to a text");
  return std::ranges::max(found);
}

}  // namespace rewire::runtime
