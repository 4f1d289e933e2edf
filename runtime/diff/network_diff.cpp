#include "runtime/diff/network_diff.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>

#include "runtime/diff/diff_rows.h"

namespace rewire::runtime {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kContextLines = 2;

Json pair_json(const Json& a, const Json& b) {
  return Json::array({a, b});
}

Json hunks_json(const std::vector<Hunk>& hunks) {
  Json list = Json::array();
  for (const Hunk& hunk : hunks) {
    Json lines = Json::array();
    for (const EditLine& line : hunk.lines)
      lines.push_back({{"sign", std::string(1, line.sign)}, {"text", line.text}, {"at", line.at}});
    list.push_back({{"at", hunk.at}, {"like", hunk.like}, {"lines", std::move(lines)}});
  }
  return list;
}

/// Compares each function that either side has. One without a counterpart is all added or all gone.
Json functions_json(const ModuleFacts& a, const ModuleFacts& b, std::int64_t& gone, std::int64_t& added) {
  std::map<std::string, std::vector<DiffLine>> in_b;
  for (const FunctionFacts& function : b.functions) in_b[function.name] = function.lines;
  Json functions = Json::array();
  const auto compare = [&](const std::string& name, const std::vector<DiffLine>& first,
                           const std::vector<DiffLine>& second) {
    const std::vector<EditLine> lines = align_lines(first, second);
    gone += std::ranges::count(lines, '-', &EditLine::sign);
    added += std::ranges::count(lines, '+', &EditLine::sign);
    Json hunks = hunks_json(hunks_of(lines, kContextLines));
    if (!hunks.empty()) functions.push_back({{"name", name}, {"hunks", std::move(hunks)}});
  };
  for (const FunctionFacts& function : a.functions) {
    compare(function.name, function.lines, in_b[function.name]);
    in_b.erase(function.name);
  }
  for (const FunctionFacts& function : b.functions) {
    if (in_b.contains(function.name)) compare(function.name, {}, function.lines);
  }
  return functions;
}

Json stage_json(const ModuleFacts& a, const ModuleFacts& b) {
  std::int64_t gone = 0, added = 0;
  Json functions = functions_json(a, b, gone, added);
  return {{"ops", pair_json(a.ops, b.ops)},
          {"gone", gone},
          {"added", added},
          {"declarations", different_rows(a.declarations, b.declarations)},
          {"functions", std::move(functions)}};
}

/// Returns launches by a unique key. A product's name is not unique, nor is its place.
std::map<std::string, std::size_t> launches_by_key(const std::vector<LaunchFacts>& launches) {
  std::map<std::string, std::size_t> by_key;
  for (std::size_t i = 0; i < launches.size(); ++i) {
    const LaunchFacts& launch = launches[i];
    const std::string key = launch.kind + '\0' + launch.name + '\0' + launch.at;
    std::size_t turn = 0;
    while (!by_key.emplace(key + '\0' + std::to_string(turn), i).second) ++turn;
  }
  return by_key;
}

std::vector<DiffLine> tile_lines(const NetworkFacts& facts, const LaunchFacts* launch) {
  std::vector<DiffLine> lines;
  if (launch == nullptr || !launch->code) return lines;
  std::istringstream text(facts.codes[*launch->code].tile);
  for (std::string line; std::getline(text, line);) {
    const std::size_t first = std::min(line.find_first_not_of(' '), line.size());
    lines.push_back({line.substr(first), ""});
  }
  return lines;
}

/// Two launches, one of each side, that are compared with each other.
struct LaunchPair {
  const LaunchFacts* a = nullptr;
  const LaunchFacts* b = nullptr;
};

class KernelDiff {
 public:
  KernelDiff(const NetworkFacts& a, const NetworkFacts& b) : a_(a), b_(b) {
    pair_by_name();
    pair_by_code();
    for (const LaunchPair& pair : pairs_) add_row(pair);
    std::ranges::stable_sort(times_, {}, [](const Json& row) {
      return -std::abs(row["ms"][0].get<double>() - row["ms"][1].get<double>());
    });
  }

  Json json() const { return {{"totals", totals()}, {"rows", rows_}, {"codes", codes_}, {"times", times_}}; }

 private:
  /// Pairs launches in the order of the first side; those that only the second side has follow.
  void pair_by_name() {
    const auto by_key_a = launches_by_key(a_.launches), by_key_b = launches_by_key(b_.launches);
    std::vector<LaunchPair> of_a(a_.launches.size());
    std::vector<bool> taken(b_.launches.size());
    for (const auto& [key, i] : by_key_a) {
      of_a[i].a = &a_.launches[i];
      const auto found = by_key_b.find(key);
      if (found == by_key_b.end()) continue;
      of_a[i].b = &b_.launches[found->second];
      taken[found->second] = true;
    }
    pairs_ = std::move(of_a);
    for (std::size_t i = 0; i < taken.size(); ++i) {
      if (!taken[i]) pairs_.push_back({nullptr, &b_.launches[i]});
    }
  }

  /// Pairs kernels that have another name now, and the same code.
  void pair_by_code() {
    for (LaunchPair& gone : pairs_) {
      if (gone.b != nullptr || gone.a == nullptr || !gone.a->code) continue;
      const auto found = std::ranges::find_if(pairs_, [&](const LaunchPair& other) {
        return other.a == nullptr && other.b != nullptr && other.b->code &&
               same_structure(*gone.a, *other.b) && gone.a->bytes == other.b->bytes;
      });
      if (found == pairs_.end()) continue;
      gone.b = found->b;
      found->b = nullptr;
    }
  }

  bool same_structure(const LaunchFacts& a, const LaunchFacts& b) const {
    const CodeFacts &first = a_.codes[*a.code], &second = b_.codes[*b.code];
    if (!first.structure.empty() && !second.structure.empty()) return first.structure == second.structure;
    return first.tile == second.tile;
  }

  bool same_assembly(const LaunchFacts& a, const LaunchFacts& b) const {
    const std::string &first = a_.codes[*a.code].assembly, &second = b_.codes[*b.code].assembly;
    return first.empty() || second.empty() || first == second;
  }

  const char* status_of(const LaunchPair& pair) const {
    if (pair.b == nullptr) return "gone";
    if (pair.a == nullptr) return "added";
    const bool both_kernels = pair.a->code && pair.b->code;
    if (both_kernels && !same_structure(*pair.a, *pair.b)) return "changed";
    if (pair.a->bytes != pair.b->bytes || pair.a->flops != pair.b->flops) return "changed";
    if (pair.a->name != pair.b->name) return "renamed";
    if (both_kernels && !same_assembly(*pair.a, *pair.b)) return "assembly";
    return "same";
  }

  /// Returns the number of the comparison of their tile IR; null if there is none.
  Json code_of(const LaunchPair& pair) {
    const auto number = [](const LaunchFacts* launch) {
      return launch == nullptr || !launch->code ? Json() : Json(*launch->code);
    };
    const Json key = pair_json(number(pair.a), number(pair.b));
    if (key[0].is_null() && key[1].is_null()) return {};
    const auto known = code_numbers_.find(key.dump());
    if (known != code_numbers_.end()) return known->second;
    Json hunks =
        hunks_json(hunks_of(align_lines(tile_lines(a_, pair.a), tile_lines(b_, pair.b)), kContextLines));
    Json code;  // null: their code may be the same, on other buffers of the same size
    if (!hunks.empty()) {
      code = codes_.size();
      codes_.push_back({{"hunks", std::move(hunks)}});
    }
    return code_numbers_[key.dump()] = code;
  }

  void add_row(const LaunchPair& pair) {
    if (pair.a == nullptr && pair.b == nullptr) return;
    const std::string status = status_of(pair);
    const auto of = [&](auto member) {
      return pair_json(pair.a == nullptr ? Json() : Json(pair.a->*member),
                       pair.b == nullptr ? Json() : Json(pair.b->*member));
    };
    const auto milliseconds = [](const LaunchFacts* launch) {
      return launch == nullptr || !launch->ms ? Json() : Json(*launch->ms);
    };
    const Json ms = pair_json(milliseconds(pair.a), milliseconds(pair.b));
    if (status == "same" || status == "assembly") {
      if (!ms[0].is_null() && !ms[1].is_null())
        times_.push_back({{"name", pair.a->name}, {"at", pair.a->at}, {"ms", ms}});
      if (status == "same") return;
    }
    const LaunchFacts& one = pair.a == nullptr ? *pair.b : *pair.a;
    const bool has_text = status == "changed" || status == "gone" || status == "added";
    rows_.push_back({{"status", status},
                     {"kind", one.kind},
                     {"name", of(&LaunchFacts::name)},
                     {"at", one.at},
                     {"bytes", of(&LaunchFacts::bytes)},
                     {"flops", of(&LaunchFacts::flops)},
                     {"ms", ms},
                     {"code", has_text ? code_of(pair) : Json()}});
  }

  static std::map<std::string, Json> sums_of(const NetworkFacts& facts) {
    std::map<std::string, std::int64_t> kinds = {{"kernel", 0}, {"product", 0}, {"call", 0}};
    std::int64_t bytes = 0, flops = 0;
    double ms = 0;
    bool timed = !facts.launches.empty();
    for (const LaunchFacts& launch : facts.launches) {
      ++kinds[launch.kind];
      bytes += launch.bytes;
      flops += launch.flops;
      ms += launch.ms.value_or(0);
      timed = timed && launch.ms.has_value();
    }
    return {{"kernels", kinds["kernel"]},
            {"products", kinds["product"]},
            {"calls", kinds["call"]},
            {"codes", facts.codes.size()},
            {"bytes", bytes},
            {"flops", flops},
            {"ms", timed ? Json(ms) : Json()}};
  }

  Json totals() const {
    const std::map<std::string, Json> a = sums_of(a_), b = sums_of(b_);
    Json rows = Json::array();
    for (const char* key : {"kernels", "codes", "products", "calls", "bytes", "flops", "ms"})
      rows.push_back({{"key", key}, {"a", a.at(key)}, {"b", b.at(key)}});
    return rows;
  }

  const NetworkFacts &a_, &b_;
  std::vector<LaunchPair> pairs_;
  std::map<std::string, Json> code_numbers_;
  Json rows_ = Json::array(), codes_ = Json::array();
  std::vector<Json> times_;
};

Json about_json(const NetworkFacts& a, const NetworkFacts& b) {
  Json rows = Json::array();
  for (std::size_t i = 0; i < a.about.size(); ++i) {
    const auto& [key, value] = a.about[i];
    // The name of the model is shown above. A file at another place is not a difference.
    if (key != "model" && value != b.about[i].second)
      rows.push_back({{"key", key}, {"a", value}, {"b", b.about[i].second}});
  }
  return rows;
}

Json memory_rows(const NetworkFacts& a, const NetworkFacts& b) {
  Json rows = Json::array();
  for (std::size_t i = 0; i < a.memory.size(); ++i) {
    const auto& [key, bytes] = a.memory[i];
    rows.push_back({{"key", key}, {"a", bytes}, {"b", b.memory[i].second}});
  }
  return rows;
}

/// Returns the rows in the order of the network. "like": the first row that differs only in its block.
Json join_rows(const NetworkFacts& a, const NetworkFacts& b) {
  std::map<std::string, std::size_t> order;
  for (const NetworkFacts* facts : {&a, &b})
    for (const std::string& place : facts->join_places) order.try_emplace(place, order.size());
  const Json differences = different_rows(a.joins, b.joins);
  std::map<std::size_t, Json> in_order;
  for (const Json& row : differences) in_order.emplace(order.at(row["key"].get<std::string>()), row);
  Json rows = Json::array();
  std::map<std::string, std::size_t> alike;
  for (auto& [place, row] : in_order) {
    std::string text;
    for (const auto& [key, value] : row.items()) text += of_any_block(value.dump()) + '\n';
    row["like"] = alike.try_emplace(text, rows.size()).first->second;
    rows.push_back(std::move(row));
  }
  return rows;
}

bool is_same_stage(const Json& stage) {
  return stage["declarations"].empty() && stage["functions"].empty();
}

}  // namespace

Json network_diff(const NetworkFacts& a, const NetworkFacts& b, const DiffNames& names) {
  Json diff = {{"format", 1}, {"kind", "networks"}, {"a", names.a}, {"b", names.b}, {"same", false}};
  diff["about"] = about_json(a, b);
  diff["joins"] = join_rows(a, b);
  diff["stages"] = {{"ir", stage_json(a.original, b.original)},
                    {"rewritten", stage_json(a.rewritten, b.rewritten)},
                    {"step", stage_json(a.step, b.step)}};
  diff["kernels"] = KernelDiff(a, b).json();
  diff["memory"] = memory_rows(a, b);
  const bool both_chose = a.choices && b.choices;
  diff["choices"] = both_chose ? different_rows(*a.choices, *b.choices) : Json();
  const bool same_memory =
      std::ranges::all_of(diff["memory"], [](const Json& row) { return row["a"] == row["b"]; });
  diff["same"] = diff["about"].empty() && diff["joins"].empty() && diff["kernels"]["rows"].empty() &&
                 same_memory && diff["choices"].empty() && std::ranges::all_of(diff["stages"], is_same_stage);
  return diff;
}

}  // namespace rewire::runtime
