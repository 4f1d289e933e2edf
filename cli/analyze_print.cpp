#include "cli/analyze_print.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

#include "cli/json.h"
#include "cli/streams.h"
#include "cli/table.h"
#include "ir/side_results.h"
#include "programs/diagnose_blocks.h"

namespace rewire::cli {
namespace {

/// A quantity of a join or a block: `name` ends a value's name, after the place; `title` heads a column.
struct Quantity {
  std::string_view name, title;
  int decimals = 0;           // 0: four significant digits
  std::string_view key = {};  // in JSON, if it differs from the name
};

constexpr Quantity kOfJoins[] = {{"stream", "|x|^2"},        {"branch", "|f|^2"},
                                 {"parallel", "|f par|^2"},  {"perpendicular", "|f orth|^2", 0, "orthogonal"},
                                 {"cosine", "cos(x, f)", 4}, {"condition", "condition"}};
constexpr Quantity kOfBlocks[] = {
    {"effective_rank", "eff. rank", 4},    {"diversity", "r(Z)"},
    {"relative_diversity", "r(Z)/|Z|", 4}, {"similarity", "similarity", 4},
    {"attention_entropy", "entropy", 4},   {"gradient_norm", "|gradient|"},
    {"attention_condition", "maps, mean"}, {"attention_condition_max", "maps, max"},
    {"value_output_condition", "W_V W_O"}, {"condition", "condition"}};
constexpr std::string_view kFeatures = "features.effective_rank", kGradient = "gradient_norm";

/// The value of a block quantity for the whole network: its name, and the text in place of a block.
struct OfNetwork {
  std::string_view quantity, name, place;
};
constexpr OfNetwork kOfNetwork[] = {{"effective_rank", kFeatures, "features"},
                                    {"gradient_norm", kGradient, "all weights"}};

std::string text_of(double number, int decimals) {
  if (std::isinf(number)) return "singular";
  return decimals == 0 ? fmt::format("{:.4g}", number) : fmt::format("{:.{}f}", number, decimals);
}

/// The values of a run by place and quantity. Joins and blocks are in the network's order.
class Numbers {
 public:
  explicit Numbers(const MeasuredRun& run) : run_(run) {
    for (const programs::Block& block : programs::find_blocks(run.network)) {
      blocks.push_back(block.name);
      for (const ir::Join& join : block.joins) joins.push_back(join.describe());
    }
    for (const auto& [name, value] : run.values) values_.emplace(name, value);
    number_equal(joins);
  }

  std::optional<double> find(std::string_view name) const {
    const auto found = values_.find(name);
    if (found == values_.end()) return std::nullopt;
    return found->second;
  }
  std::optional<double> find(const std::string& place, std::string_view quantity) const {
    const std::size_t hash = place.find('#');  // marks a join whose name occurred before
    std::string name = fmt::format("{}.{}", place.substr(0, hash), quantity);
    if (hash != std::string::npos) name += place.substr(hash);
    return find(name);
  }

  /// Returns the values of no join and no block: those of weights, or reports with their full names.
  runtime::MetricValues others(bool reports) const {
    runtime::MetricValues found;
    for (const runtime::MetricValue& value : run_.values) {
      const bool is_report = value.name.starts_with(ir::kReportPrefix);
      if (is_report == reports && (is_report || !is_placed(value.name))) found.push_back(value);
    }
    return found;
  }

  std::vector<std::string> joins, blocks;

 private:
  /// Appends #2, #3, … to names that occur again, as programs/diagnose.cpp does.
  static void number_equal(std::vector<std::string>& names) {
    std::map<std::string, int> seen;
    for (std::string& name : names) {
      if (const int count = ++seen[name]; count > 1) name += fmt::format("#{}", count);
    }
  }

  bool is_placed(const std::string& name) const {
    if (name == kFeatures || name == kGradient) return true;
    const std::size_t dot = name.rfind('.');
    if (dot == std::string::npos) return false;
    const std::string place = name.substr(0, dot), quantity = name.substr(dot + 1, name.find('#') - dot - 1);
    const auto has = [&](const auto& quantities) {
      return std::ranges::find(quantities, quantity, &Quantity::name) != std::end(quantities);
    };
    return (std::ranges::find(joins, place) != joins.end() && has(kOfJoins)) ||
           (std::ranges::find(blocks, place) != blocks.end() && has(kOfBlocks));
  }

  const MeasuredRun& run_;
  std::map<std::string, double, std::less<>> values_;
};

/// Returns the width of the program's features, or 0 if it has none.
std::int64_t width_of_features(const MeasuredRun& run) {
  const ir::Value features = run.network.result(kFeatures);
  return features ? run.network.type(features).shape.at(1) : 0;
}

/// JSON has only finite numbers.
nlohmann::ordered_json json_of(double number) {
  if (std::isinf(number)) return "infinite";
  if (std::isnan(number)) return nullptr;
  return number;
}

template <class Quantities>
nlohmann::ordered_json places_object(const Numbers& numbers, const std::vector<std::string>& places,
                                     const Quantities& quantities) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const std::string& place : places) {
    nlohmann::ordered_json object = {{"name", place}};
    for (const Quantity& quantity : quantities) {
      if (const auto number = numbers.find(place, quantity.name))
        object[std::string(quantity.key.empty() ? quantity.name : quantity.key)] = json_of(*number);
    }
    list.push_back(std::move(object));
  }
  return list;
}

nlohmann::ordered_json named_object(const runtime::MetricValues& values) {
  nlohmann::ordered_json object = nlohmann::ordered_json::object();
  for (const auto& [name, value] : values) object[name] = json_of(value);
  return object;
}

nlohmann::ordered_json object_of(const MeasuredRun& run) {
  const Numbers numbers(run);
  nlohmann::ordered_json object = {{"weights", run.weights},
                                   {"images", run.images},
                                   {"joins", places_object(numbers, numbers.joins, kOfJoins)},
                                   {"features", width_of_features(run)}};
  if (const auto rank = numbers.find(kFeatures)) object["effective_rank"] = json_of(*rank);
  object["blocks"] = places_object(numbers, numbers.blocks, kOfBlocks);
  if (const auto norm = numbers.find(kGradient)) object["gradient_norm"] = json_of(*norm);
  object["gamma"] = programs::width_over_depth(run.network);
  object["parameters"] = named_object(numbers.others(false));
  object["reports"] = named_object(numbers.others(true));
  if (!run.no_jacobian.empty()) object["no_jacobian"] = run.no_jacobian;
  return object;
}

template <class Quantities>
void print_places(const Numbers& numbers, std::string_view head, const std::vector<std::string>& places,
                  const Quantities& quantities) {
  std::vector<Quantity> measured;
  for (const Quantity& quantity : quantities) {
    if (std::ranges::any_of(
            places, [&](const std::string& place) { return numbers.find(place, quantity.name).has_value(); }))
      measured.push_back(quantity);
  }
  if (measured.empty()) return;
  Table table(1);
  std::vector<std::string> line = {std::string(head)};
  for (const Quantity& quantity : measured) line.emplace_back(quantity.title);
  table.add(line);
  for (const std::string& place : places) {
    line = {place};
    for (const Quantity& quantity : measured) {
      const auto number = numbers.find(place, quantity.name);
      line.push_back(number ? text_of(*number, quantity.decimals) : "-");
    }
    table.add(line);
  }
  table.print();
}

void print_named(const runtime::MetricValues& values, std::string_view head) {
  if (values.empty()) return;
  print("\n");
  Table table(1);
  table.add({std::string(head), "value"});
  for (const auto& [name, value] : values) table.add({name, text_of(value, 0)});
  table.print();
}

void print_features(const MeasuredRun& run, const Numbers& numbers) {
  const auto rank = numbers.find(kFeatures);
  if (!rank) {
    print("no effective rank: the network does not end in a product of one vector per image\n");
    return;
  }
  const std::int64_t features = width_of_features(run);
  print("features: {} numbers per image, effective rank {:.4f} of at most {:.4f}\n", features, *rank,
        std::log(static_cast<double>(std::min(features, run.images))));
}

/// A table with one column per checkpoint. The first line of a quantity has its title.
class Columns {
 public:
  explicit Columns(const std::vector<MeasuredRun>& runs) : table_(2) {
    std::vector<std::string> line = {"", ""};
    for (const MeasuredRun& run : runs) {
      line.push_back(run.name);
      numbers_.emplace_back(run);
    }
    table_.add(line);
  }

  template <class Quantities>
  void add_places(const Quantities& quantities, std::vector<std::string> Numbers::* places) {
    for (const Quantity& quantity : quantities) {
      std::vector<std::string> names;
      for (const Numbers& numbers : numbers_) {
        for (const std::string& place : numbers.*places) {
          if (std::ranges::find(names, place) == names.end()) names.push_back(place);
        }
      }
      std::string_view title = quantity.title;
      for (const std::string& place : names) {
        const bool is_there = add(title, place, quantity.decimals,
                                  [&](const Numbers& numbers) { return numbers.find(place, quantity.name); });
        if (is_there) title = "";
      }
      for (const OfNetwork& whole : kOfNetwork) {
        if (whole.quantity == quantity.name && places == &Numbers::blocks)
          add(title, std::string(whole.place), quantity.decimals,
              [&](const Numbers& numbers) { return numbers.find(whole.name); });
      }
    }
  }

  void add_others(bool reports, std::string_view title) {
    std::vector<std::string> names;
    for (const Numbers& numbers : numbers_) {
      for (const auto& [name, value] : numbers.others(reports)) {
        if (std::ranges::find(names, name) == names.end()) names.push_back(name);
      }
    }
    for (const std::string& name : names) {
      add(title, name, 0, [&](const Numbers& numbers) { return numbers.find(name); });
      title = "";
    }
  }

  /// Adds a line if one of the checkpoints has the number; returns whether it did.
  template <class Find>
  bool add(std::string_view title, const std::string& place, int decimals, const Find& find) {
    std::vector<std::string> line = {std::string(title), place};
    bool is_there = false;
    for (const Numbers& numbers : numbers_) {
      const std::optional<double> number = find(numbers);
      is_there = is_there || number.has_value();
      line.push_back(number ? text_of(*number, decimals) : "-");
    }
    if (is_there) table_.add(line);
    return is_there;
  }

  void print() const { table_.print(); }

 private:
  Table table_;
  std::vector<Numbers> numbers_;
};

}  // namespace

void print_measured_object(const std::vector<MeasuredRun>& runs, bool is_list) {
  if (!is_list) return print_json(object_of(runs.front()));
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const MeasuredRun& run : runs) {
    nlohmann::ordered_json object = {
        {"name", run.name}, {"epoch", run.position.epoch}, {"step", run.position.step}};
    object.update(object_of(run));
    list.push_back(std::move(object));
  }
  print_json({{"checkpoints", std::move(list)}});
}

void print_measured_tables(const MeasuredRun& run) {
  const Numbers numbers(run);
  print("streams of {}, means over {} test images\n", run.weights, run.images);
  print_places(numbers, "join", numbers.joins, kOfJoins);
  print("\n");
  print_places(numbers, "block", numbers.blocks, kOfBlocks);
  print_named(numbers.others(false), "weight");
  print_named(numbers.others(true), "report");
  print("\n");
  print_features(run, numbers);
  if (const auto norm = numbers.find(kGradient))
    print("gradient: norm {:.4g} over all weights; width / depth (gamma): {:.4g}\n", *norm,
          programs::width_over_depth(run.network));
}

void print_measured_columns(const std::vector<MeasuredRun>& runs, const std::string& folder) {
  print("diagnostics of {}, means over {} test images\n", folder, runs.front().images);
  Columns columns(runs);
  columns.add_places(kOfJoins, &Numbers::joins);
  columns.add_places(kOfBlocks, &Numbers::blocks);
  columns.add_others(false, "weight");
  columns.add_others(true, "report");
  columns.print();
}

}  // namespace rewire::cli
