#include "cli/complete_paths.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <functional>
#include <optional>

namespace rewire::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostOffered = 2000;                      // candidates offered from one folder
constexpr auto kPathPatience = std::chrono::milliseconds(500);  // for reading one folder: Tab must be quick

bool ends_as(const std::string& name, const std::vector<std::string>& endings) {
  return endings.empty() ||
         std::ranges::any_of(endings, [&](const std::string& ending) { return name.ends_with(ending); });
}

/// Returns the sorted entries of the folder that `word` names. Entries that cannot be read are left out.
std::vector<Candidate> entries(
    const std::string& word,
    const std::function<std::optional<Candidate>(const fs::path&, std::string)>& take) {
  const std::string folder = word.substr(0, word.rfind('/') + 1), begin = word.substr(folder.size());
  std::vector<Candidate> candidates;
  std::error_code error;
  std::size_t count = 0;
  const auto end_of_time = std::chrono::steady_clock::now() + kPathPatience;
  for (fs::directory_iterator entry(folder.empty() ? "." : folder, error), end;
       !error && entry != end && count < kMostOffered && std::chrono::steady_clock::now() < end_of_time;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (!name.starts_with(begin) || (name.starts_with('.') && !begin.starts_with('.'))) continue;
    ++count;
    if (std::optional<Candidate> candidate = take(entry->path(), folder + name))
      candidates.push_back(std::move(*candidate));
  }
  std::ranges::sort(candidates, {}, &Candidate::word);
  return candidates;
}

bool is_folder(const fs::path& path) {
  std::error_code error;
  return fs::is_directory(path, error);
}

std::string state_of(const std::string& run) {
  std::error_code error;
  return fs::exists(run + "/weights.safetensors", error) ? "a complete run" : "a run that can be resumed";
}

}  // namespace

bool is_run_folder(const std::string& path) {
  std::error_code error;
  return fs::is_regular_file(path + "/recipe.toml", error) &&
         fs::is_regular_file(path + "/metrics.jsonl", error);
}

std::vector<Candidate> files_at(const std::string& word, const std::vector<std::string>& endings) {
  return entries(word, [&](const fs::path& path, std::string name) -> std::optional<Candidate> {
    if (is_folder(path)) return Candidate{name + "/", "", true};
    if (!ends_as(name, endings)) return std::nullopt;
    return Candidate{std::move(name), "", true};
  });
}

std::vector<Candidate> folders_at(const std::string& word) {
  return entries(word, [](const fs::path& path, std::string name) -> std::optional<Candidate> {
    if (!is_folder(path)) return std::nullopt;
    return Candidate{name + "/", "", true};
  });
}

std::vector<Candidate> runs_at(const std::string& word) {
  std::vector<Candidate> candidates =
      entries(word, [](const fs::path& path, std::string name) -> std::optional<Candidate> {
        if (!is_folder(path)) return std::nullopt;
        if (is_run_folder(path.string())) return Candidate{name, state_of(path.string())};
        return Candidate{name + "/", "", true};
      });
  const std::string usual = "runs/";
  if (word.size() >= usual.size() || !usual.starts_with(word)) return candidates;
  std::vector<Candidate> runs = runs_at(usual);
  if (!runs.empty()) std::erase_if(candidates, [&](const Candidate& one) { return one.word == usual; });
  candidates.insert(candidates.begin(), runs.begin(), runs.end());
  return candidates;
}

}  // namespace rewire::cli
