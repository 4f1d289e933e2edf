// rewire data info: describes a data set before anything is trained on it.
#include "runtime/data/catalog/data_info.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "cli/commands.h"
#include "cli/data_settings.h"
#include "cli/json.h"
#include "cli/log.h"
#include "cli/progress.h"
#include "cli/streams.h"
#include "ir/error.h"
#include "runtime/data/catalog/sources.h"
#include "runtime/device/process.h"
#include "runtime/io/files.h"

namespace rewire::cli {
namespace {

struct DataInfoRequest {
  std::string path, format, output;
  std::vector<std::string> settings;
  std::int64_t images = 0, threads = 0;
  bool json = false;
};

void declare(DataInfoRequest& request, Options& options) {
  options
      .text("PATH", request.path, "the path of the data, as for data.path; --format text has one of its own")
      .takes(Values::file);
  options.text("--format", request.format, "the format of the data, as for data.format; detected by default")
      .takes([] { return offers_of(runtime::sources()); });
  options.list("--set", request.settings, "data.key=value: another key of [data]; repeatable")
      .takes(Values::setting, {"data"});
  options.text("--output", request.output, "a PNG file to draw images of each class to")
      .takes(Values::file, {".png"});
  options.integer("--images", request.images, 0,
                  "number of images to examine per split, spread evenly; 0: all");
  options.integer("--threads", request.threads, 0, "number of threads that decode; 0: one per core");
  options.flag("--json", request.json, "print an object");
  options.example("rewire data info /usr/share/datasets/fashion-mnist",
                  "print the numbers of images, their sizes and classes");
  options.example("rewire data info photos --output page.png", "also draw some images of each class");
  options.example("rewire data info --format text", "count the tokens of the default text");
}

/// Refuses keys of [data] that have no effect here, such as those for loading.
void check_effect(const std::string& setting, const runtime::SourceRow& row) {
  const std::size_t begin = setting.find('.') + 1;
  const std::string key = setting.substr(begin, setting.find('=') - begin);
  if (ir::find_parameter(row.schema, key) != nullptr) return;
  std::vector<std::string> keys;
  for (const ir::ParameterSpec& parameter : row.schema) {
    if (parameter.name != "path") keys.push_back("data." + parameter.name);
  }
  user_error("data info: --set {} has no effect: the format {} has {}", runtime::printable(setting), row.name,
             keys.empty() ? "no such keys" : fmt::to_string(fmt::join(keys, ", ")));
}

ir::Selection selection_of(const DataInfoRequest& request) {
  for (const std::string& setting : request.settings) {
    if (setting.starts_with("data.path=") || setting.starts_with("data.format="))
      user_error("data info: use PATH and --format instead of --set {}", runtime::printable(setting));
  }
  if (request.path.empty() && request.format.empty())
    user_error("data info: give PATH, or --format text to examine the default text");
  runtime::Recipe recipe;
  recipe.source = {request.format.empty() ? runtime::detect_format(request.path) : request.format};
  const runtime::SourceRow& row = ir::find_row(runtime::sources(), "--format", recipe.source.name);
  if (ir::find_parameter(row.schema, "path") == nullptr)
    user_error("data info: the format {} has no data.path, so there is nothing to examine",
               recipe.source.name);
  recipe = with_settings("data info", "data", request.settings, std::move(recipe));
  for (const std::string& setting : request.settings) check_effect(setting, row);
  return recipe.source.set("path", request.path);
}

const char* name_of(runtime::Split split) {
  return split == runtime::Split::train ? "train" : "test";
}

/// Returns "3", or "3 (dress)" if the class has a name.
std::string class_text(std::int64_t label, const std::vector<std::string>& names) {
  if (label < 0 || label >= std::ssize(names)) return std::to_string(label);
  return fmt::format("{} ({})", label, visible(names[static_cast<std::size_t>(label)]));
}

void print_fact(std::string_view subject, const std::string& text) {
  print("  {:<11} {}\n", subject, text);
}

std::string counted(std::int64_t count, std::string_view what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

std::string classes_text(const runtime::SplitInfo& info) {
  if (info.classes.empty()) return "none";
  using Entry = std::pair<const std::int64_t, std::int64_t>;
  const auto [small, large] = std::ranges::minmax_element(info.classes, {}, &Entry::second);
  if (small->second == large->second)
    return fmt::format("{} of {} each", info.classes.size(), counted(small->second, "image"));
  return fmt::format("{}; the smallest is {} with {}, the largest {} with {}", info.classes.size(),
                     class_text(small->first, info.class_names), counted(small->second, "image"),
                     class_text(large->first, info.class_names), counted(large->second, "image"));
}

std::string sizes_text(const runtime::SplitInfo& info) {
  if (info.sizes == 0) return "none";
  if (info.sizes == 1)
    return fmt::format("all {} x {} (height x width)", info.height.least, info.width.least);
  const auto range = [](const runtime::ExtentRange& extent) {
    return fmt::format("{} to {}, median {}", extent.least, extent.greatest, extent.median);
  };
  return fmt::format("{}: height {}; width {}", info.sizes, range(info.height), range(info.width));
}

std::string list_text(const std::vector<double>& values) {
  return fmt::format("[{:.4f}]", fmt::join(values, ", "));
}

void print_equal(const runtime::EqualCount& equal) {
  for (const runtime::EqualImages& pair : equal.first)
    print_fact("", fmt::format("{} = {}", visible(pair.image), visible(pair.earlier)));
  if (equal.images > std::ssize(equal.first)) print_fact("", "…");
}

/// Returns, for example, "2 test images equal a training image, 1 of them with another label".
std::string equal_text(const runtime::EqualCount& equal, std::string_view which, std::string_view other) {
  return fmt::format("{} equal{} {} image, {} of them with another label", counted(equal.images, which),
                     equal.images == 1 ? "s" : "", other, equal.other_label);
}

bool is_of_images(const runtime::SplitInfo& info) {
  return info.channels > 0;
}

/// Returns, for example, "boxes f32[?,4]: 0 to 7, median 2; from 0 to 31.5".
std::string field_text(const runtime::FieldFacts& facts) {
  constexpr std::string_view kKinds[] = {"numbers", "image", "category", "tokens", "boxes", "mask", "latent"};
  std::string text =
      fmt::format("{} {}", kKinds[static_cast<std::size_t>(facts.field.kind)], to_string(facts.field));
  if (facts.extent.greatest > 0)
    text +=
        fmt::format(": {} to {}, median {}", facts.extent.least, facts.extent.greatest, facts.extent.median);
  text += fmt::format("; from {} to {}", facts.least, facts.greatest);
  if (!facts.field.names.empty()) text += fmt::format(", {} names", facts.field.names.size());
  return text;
}

void print_tokens(const runtime::TokenFacts& facts) {
  print_fact("tokens", facts.types.empty()
                           ? fmt::format("{}", facts.tokens)
                           : fmt::format("{}, {}", facts.tokens, fmt::join(facts.types, " and ")));
  if (facts.documents > 0) print_fact("documents", fmt::format("{}", facts.documents));
  if (facts.bytes > 0)
    print_fact("bytes", fmt::format("{}, {:.3f} per token", facts.bytes,
                                    static_cast<double>(facts.bytes) / static_cast<double>(facts.tokens)));
  print_fact("vocabulary",
             fmt::format("{} different ids from {} to {}{}", facts.seen, facts.least, facts.greatest,
                         facts.vocabulary > 0 ? fmt::format(", of {}", facts.vocabulary)
                                              : fmt::format(": model.vocab must be at least {}",
                                                            static_cast<std::int64_t>(facts.greatest) + 1)));
  std::vector<std::string> frequent;
  for (const runtime::TokenCount& entry : facts.frequent) {
    frequent.push_back(entry.text.empty()
                           ? fmt::format("{}: {}", entry.id, entry.count)
                           : fmt::format("{} '{}': {}", entry.id, visible(entry.text), entry.count));
  }
  print_fact("frequent", fmt::to_string(fmt::join(frequent, ", ")));
  if (facts.text_bytes > 0)
    print_fact("text", fmt::format("{} bytes in {}, both splits together", facts.text_bytes,
                                   counted(facts.text_documents, "document")));
  print_fact("SHA-256", facts.sha256);
}

void print_image_facts(const runtime::SplitInfo& info) {
  print_fact("classes", classes_text(info));
  print_fact("sizes", sizes_text(info));
  if (!info.mean.empty()) {
    print_fact("pixels", fmt::format("mean = {}", list_text(info.mean)));
    print_fact("", fmt::format("std = {}", list_text(info.deviation)));
  }
  print_fact("duplicates",
             info.duplicates.images == 0 ? "none" : equal_text(info.duplicates, "image", "an earlier"));
  print_equal(info.duplicates);
}

void print_split(const runtime::SplitInfo& info) {
  if (!info.problem.empty()) {
    print("{}: cannot be opened: {}\n", name_of(info.split), info.problem);
    return;
  }
  print("{}: {}\n", name_of(info.split), info.name);
  if (info.tokens) {
    print_tokens(*info.tokens);
    return;
  }
  print_fact(is_of_images(info) ? "images" : "samples",
             info.examined == info.count ? fmt::format("{}", info.count)
                                         : fmt::format("{}, {} of them examined", info.count, info.examined));
  for (const runtime::FieldFacts& facts : info.fields) print_fact(facts.field.name, field_text(facts));
  if (is_of_images(info)) print_image_facts(info);
  for (const std::string& line : info.notes.left_out) print_fact("left out", line);
  if (info.notes.links_out > 0)
    print_fact("links", fmt::format("{} that lead{} out of the folder are followed", info.notes.links_out,
                                    info.notes.links_out == 1 ? "s" : ""));
  if (info.turned_by_exif > 0)
    print_fact("exif", fmt::format("{} with an orientation other than 1: see data.exif",
                                   counted(info.turned_by_exif, "image")));
  if (info.unreadable == 0) return;
  print_fact("unreadable", fmt::format("{}", info.unreadable));
  for (const std::string& message : info.first_unreadable) print_fact("", message);
  if (info.unreadable > std::ssize(info.first_unreadable)) print_fact("", "…");
}

nlohmann::ordered_json to_json(const runtime::TokenFacts& facts) {
  nlohmann::ordered_json frequent = nlohmann::ordered_json::array();
  for (const runtime::TokenCount& entry : facts.frequent) {
    nlohmann::ordered_json& row = frequent.emplace_back();
    row["id"] = entry.id;
    row["count"] = entry.count;
    if (!entry.text.empty()) row["text"] = visible(entry.text);
  }
  nlohmann::ordered_json object = {
      {"tokens", facts.tokens},         {"documents", facts.documents}, {"bytes", facts.bytes},
      {"vocabulary", facts.vocabulary}, {"seen", facts.seen},           {"min", facts.least},
      {"max", facts.greatest},          {"frequent", frequent},         {"sha256", facts.sha256}};
  if (!facts.types.empty()) object["types"] = facts.types;
  if (facts.text_bytes > 0)
    object["text"] = {{"documents", facts.text_documents}, {"bytes", facts.text_bytes}};
  return object;
}

nlohmann::ordered_json to_json(const runtime::EqualCount& equal) {
  nlohmann::ordered_json first = nlohmann::ordered_json::array();
  for (const runtime::EqualImages& pair : equal.first)
    first.push_back({{"image", pair.image}, {"earlier", pair.earlier}});
  return {{"images", equal.images}, {"other_label", equal.other_label}, {"first", first}};
}

nlohmann::ordered_json to_json(const runtime::ExtentRange& extent) {
  return {{"min", extent.least}, {"median", extent.median}, {"max", extent.greatest}};
}

nlohmann::ordered_json to_json(const runtime::FieldFacts& facts) {
  nlohmann::ordered_json json = {{"name", facts.field.name}, {"type", to_string(facts.field)}};
  if (facts.extent.greatest > 0) json["extent"] = to_json(facts.extent);
  json["min"] = facts.least;
  json["max"] = facts.greatest;
  return json;
}

nlohmann::ordered_json to_json(const runtime::SplitInfo& info) {
  if (!info.problem.empty()) return {{"split", name_of(info.split)}, {"problem", info.problem}};
  if (info.tokens) {
    nlohmann::ordered_json object = {{"split", name_of(info.split)}, {"name", info.name}};
    object.update(to_json(*info.tokens));
    return object;
  }
  nlohmann::ordered_json fields = nlohmann::ordered_json::array();
  for (const runtime::FieldFacts& facts : info.fields) fields.push_back(to_json(facts));
  if (!is_of_images(info)) {
    return {{"split", name_of(info.split)},
            {"name", info.name},
            {"samples", info.count},
            {"examined", info.examined},
            {"fields", fields},
            {"left_out", info.notes.left_out},
            {"links_out", info.notes.links_out},
            {"unreadable", {{"samples", info.unreadable}, {"first", info.first_unreadable}}}};
  }
  nlohmann::ordered_json classes = nlohmann::ordered_json::array();
  for (const auto& entry : info.classes) {
    nlohmann::ordered_json& row = classes.emplace_back();
    row["label"] = entry.first;
    if (entry.first >= 0 && entry.first < std::ssize(info.class_names))
      row["name"] = info.class_names[static_cast<std::size_t>(entry.first)];
    row["images"] = entry.second;
  }
  nlohmann::ordered_json object = {
      {"split", name_of(info.split)},
      {"name", info.name},
      {"images", info.count},
      {"examined", info.examined},
      {"channels", info.channels},
      {"classes", classes},
      {"sizes", info.sizes},
      {"height", to_json(info.height)},
      {"width", to_json(info.width)},
      {"mean", info.mean},
      {"std", info.deviation},
      {"duplicates", to_json(info.duplicates)},
      {"left_out", info.notes.left_out},
      {"links_out", info.notes.links_out},
      {"turned_by_exif", info.turned_by_exif},
      {"unreadable", {{"images", info.unreadable}, {"first", info.first_unreadable}}}};
  if (!fields.empty()) object["fields"] = fields;
  return object;
}

nlohmann::ordered_json to_json(const runtime::ClassSheet& sheet, const std::string& file) {
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const runtime::SheetRow& row : sheet.rows)
    rows.push_back({{"label", row.label}, {"images", row.images}});
  return {{"file", file}, {"split", name_of(sheet.split)}, {"rows", rows}};
}

void print_sheet(const runtime::ClassSheet& sheet, const runtime::DataInfo& info, const std::string& file) {
  const std::vector<std::string>& names =
      info.splits[sheet.split == runtime::Split::train ? 0 : 1].class_names;
  print("{}: images of {}, one class per row, from the top:\n", file, name_of(sheet.split));
  std::vector<std::string> rows;
  for (const runtime::SheetRow& row : sheet.rows) rows.push_back(class_text(row.label, names));
  print("  {}\n", fmt::to_string(fmt::join(rows, ", ")));
}

runtime::DataInfo examine(const DataInfoRequest& request, const ir::Selection& selection) {
  MovingLine line(!logs_info());
  runtime::DataInfoOptions options;
  options.images = request.images;
  options.threads = request.threads > 0 ? static_cast<int>(request.threads) : runtime::usable_cores();
  options.progress = [&line](runtime::Split split, std::int64_t done, std::int64_t all) {
    line.moving(fmt::format("examining {}  image {}/{}", name_of(split), done, all), false);
  };
  return runtime::examine_data(selection, options);
}

bool has_both(const runtime::DataInfo& info) {
  return std::ranges::all_of(info.splits,
                             [](const runtime::SplitInfo& split) { return split.problem.empty(); });
}

void print_info(const runtime::DataInfo& info) {
  for (const runtime::SplitInfo& split : info.splits) print_split(split);
  if (!has_both(info) || !is_of_images(info.splits.front())) return;
  print("in both: {}\n", info.leaks.images == 0 ? "no test image equals a training image"
                                                : equal_text(info.leaks, "test image", "a training"));
  print_equal(info.leaks);
}

nlohmann::ordered_json to_json(const runtime::DataInfo& info, const DataInfoRequest& request,
                               const std::string& format) {
  nlohmann::ordered_json object = {
      {"path", request.path}, {"format", format}, {"splits", nlohmann::ordered_json::array()}};
  for (const runtime::SplitInfo& split : info.splits) object["splits"].push_back(to_json(split));
  if (has_both(info) && is_of_images(info.splits.front())) object["in_both"] = to_json(info.leaks);
  return object;
}

/// Throws RuntimeFailure if something is wrong, so that the exit code shows it.
void fail_where_incomplete(const runtime::DataInfo& info, const std::string& path) {
  std::vector<std::string> faults;
  std::int64_t unreadable = 0;
  for (const runtime::SplitInfo& split : info.splits) {
    unreadable += split.unreadable;
    if (!split.problem.empty())
      faults.push_back(fmt::format("the {} split cannot be opened", name_of(split.split)));
  }
  if (unreadable > 0)
    faults.push_back(fmt::format(
        "{} cannot be read", counted(unreadable, is_of_images(info.splits.front()) ? "image" : "sample")));
  if (!faults.empty()) throw RuntimeFailure(fmt::format("{}: {}", visible(path), fmt::join(faults, ", ")));
}

void run(const DataInfoRequest& request) {
  constexpr std::int64_t kMostThreads = 1024;
  if (request.threads > kMostThreads)
    user_error("data info: --threads {}: at most {}", request.threads, kMostThreads);
  if (!request.output.empty()) runtime::require_writable(request.output);
  const ir::Selection selection = selection_of(request);
  const runtime::DataInfo info = examine(request, selection);
  nlohmann::ordered_json object = to_json(info, request, selection.name);
  const std::string path = request.path.empty() ? info.splits.front().name : request.path;
  if (!request.json) {
    print("{}: {}\n", path, selection.name);
    print_info(info);
  }
  if (!request.output.empty()) {
    const runtime::ClassSheet sheet = runtime::draw_classes(selection);
    write_picture(request.output, sheet.image);
    object["sheet"] = to_json(sheet, request.output);
    if (!request.json) print_sheet(sheet, info, request.output);
  }
  if (request.json) print_json(object);
  fail_where_incomplete(info, path);
}

}  // namespace

Command data_info_command() {
  return make_command<DataInfoRequest>("data info", "describe a data set: classes, sizes, tokens, duplicates",
                                       declare, run, "fewer images (--images N)");
}

}  // namespace rewire::cli
