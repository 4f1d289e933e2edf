// Parses the filters and applies them to the joins of a function.
#include "runtime/plugin/filters.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "ir/error.h"
#include "ir/residual.h"
#include "runtime/plugin/schema.h"

namespace rewire::runtime {
namespace {

const std::vector<std::string> kSites = {"attn", "mlp", "conv"};

std::vector<std::string> split_list(std::string_view text) {
  std::vector<std::string> items;
  while (true) {
    const std::size_t plus = text.find('+');
    items.emplace_back(text.substr(0, plus));
    if (plus == std::string_view::npos) return items;
    text.remove_prefix(plus + 1);
  }
}

std::string joined(const std::set<std::string>& items) {
  return fmt::format("{}", fmt::join(items, ", "));
}

}  // namespace

bool Filters::is_filter(std::string_view name) {
  return std::ranges::any_of(infos(), [&](const auto& info) { return info.name == name; });
}

std::vector<ir::ParameterInfo> Filters::infos() {
  return {
      {"sites", "list", "all", "attn+mlp+conv", "only joins of these sites"},
      {"layers", "list", "all", "0+1+4-5", "only joins of these blocks, counted from 0"},
      {"stages", "list", "all", "0+2-3", "only joins of these stages of the model, counted from 0"},
      {"scope", "str", "encoder", "", "only joins of this part of the model; all: of every part"},
      {"from_epoch", "int", "0", ">= 0", "the first epoch in which the plugin is on"},
      {"to_epoch", "int", "end", "> from_epoch", "the first epoch in which it is off again"},
  };
}

void Filters::set(std::string_view name, std::string_view text) {
  if (name == "sites") {
    sites_ = text == "all" ? std::vector<std::string>{} : split_list(text);
    for (const std::string& site : sites_) {
      if (std::ranges::find(kSites, site) == kSites.end()) {
        user_error("sites={}: '{}' is not a site{}: it takes all, or some of attn+mlp+conv", text, site,
                   did_you_mean(site, kSites));
      }
    }
  } else if (name == "layers") {
    layers_ = read_numbers(name, "block", text);
  } else if (name == "stages") {
    stages_ = read_numbers(name, "stage", text);
  } else if (name == "scope") {
    if (!ir::is_identifier(text))
      user_error("scope={} is not the name of a part of a model, such as encoder", text);
    scope_ = text;
  } else if (name == "from_epoch") {
    from_epoch_ = ir::parse_int(text).value_or(-1);
    if (from_epoch_ < 0) user_error("from_epoch={} is refused: it takes an int >= 0", text);
  } else if (name == "to_epoch") {
    to_epoch_ = text == "end" ? kEnd : ir::parse_int(text).value_or(-1);
    if (to_epoch_ < 0) user_error("to_epoch={} is refused: it takes an int > from_epoch, or end", text);
  } else {
    internal_error("'{}' is not a filter", name);
  }
}

Filters::Numbers Filters::read_numbers(std::string_view filter, std::string_view what,
                                       std::string_view text) {
  Numbers numbers;
  numbers.text = text;
  if (text == "all") return numbers;
  for (const std::string& item : split_list(text)) {
    const std::size_t dash = item.find('-', 1);
    const std::string first = item.substr(0, dash);
    const std::string last = dash == std::string::npos ? first : item.substr(dash + 1);
    const Numbers::Range range{ir::parse_int(first).value_or(-1), ir::parse_int(last).value_or(-1)};
    if (range.first < 0 || range.last < range.first) {
      user_error("{}={}: '{}' is not a {} or range of {}s, such as 3 or 4-5", filter, text, item, what, what);
    }
    numbers.ranges.push_back(range);
  }
  return numbers;
}

bool Filters::Numbers::holds(std::int64_t number) const {
  return ranges.empty() || std::ranges::any_of(ranges, [&](const Range& range) {
           return range.first <= number && number <= range.last;
         });
}

void Filters::check_last(std::string_view filter, std::string_view what, const Numbers& numbers,
                         std::int64_t last) {
  for (const Numbers::Range& range : numbers.ranges) {
    if (range.last > last) user_error("{}={}: the last {} is {}", filter, numbers.text, what, last);
  }
}

void Filters::check() const {
  if (from_epoch_ >= to_epoch_) {
    user_error("from_epoch={} and to_epoch={} leave no epoch: to_epoch is the first one off again",
               from_epoch_, to_epoch_);
  }
}

std::vector<std::pair<std::string, std::string>> Filters::values() const {
  return {{"sites", sites_.empty() ? "all" : fmt::format("{}", fmt::join(sites_, "+"))},
          {"layers", layers_.text},
          {"stages", stages_.text},
          {"scope", scope_},
          {"from_epoch", std::to_string(from_epoch_)},
          {"to_epoch", to_epoch_ == kEnd ? "end" : std::to_string(to_epoch_)}};
}

std::vector<std::size_t> Filters::select(const ir::Function& function) const {
  std::set<std::string> scopes, sites;
  std::int64_t last_block = -1, last_stage = -1;
  std::vector<std::size_t> selected;
  for (std::size_t at : ir::find_joins(function)) {
    const ir::Join join = ir::read_join(function.body[at]);
    scopes.insert(join.scope);
    if (scope_ != "all" && join.scope != scope_) continue;
    sites.insert(join.site);
    last_block = std::max(last_block, join.block);
    last_stage = std::max(last_stage, join.stage);
    const bool site_passes = sites_.empty() || std::ranges::find(sites_, join.site) != sites_.end();
    if (site_passes && layers_.holds(join.block) && stages_.holds(join.stage)) selected.push_back(at);
  }
  if (scopes.empty()) user_error("the model has no residual join to rewrite");
  if (scope_ != "all" && !scopes.contains(scope_)) {
    user_error("scope={}: the model has no such part (it has {})", scope_, joined(scopes));
  }
  for (const std::string& site : sites_) {
    if (!sites.contains(site))
      user_error("sites: the model has no '{}' join (it has {})", site, joined(sites));
  }
  check_last("layers", "block", layers_, last_block);
  check_last("stages", "stage", stages_, last_stage);
  if (selected.empty()) user_error("its filters select no join");
  return selected;
}

}  // namespace rewire::runtime
