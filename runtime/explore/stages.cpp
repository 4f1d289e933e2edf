#include "runtime/explore/stages.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string_view>

#include "codegen/cost.h"
#include "ir/ops/op_info.h"
#include "ir/text.h"

namespace rewire::runtime {
namespace {

using Json = nlohmann::ordered_json;

Json attributes_json(const ir::Attributes& attributes) {
  Json json = Json::object();
  for (const auto& [name, value] : attributes)
    std::visit([&, &key = name](const auto& v) { json[key] = v; }, value);
  return json;
}

Json parameter_json(const ir::Parameter& parameter) {
  Json json = {{"name", parameter.name},
               {"type", ir::to_string(parameter.type)},
               {"role", parameter.role},
               {"site", parameter.site}};
  json["block"] = parameter.block < 0 ? Json() : Json(parameter.block);
  json["trainable"] = parameter.trainable;
  return json;
}

/// Returns the printed lines of a function's ops, without their places, and of what it
/// returns: all lines after its head.
std::vector<std::string> op_lines(const ir::Module& module, ir::Function function) {
  for (ir::Op& op : function.body) op.location.clear();
  std::istringstream text(ir::print(module, function));
  std::vector<std::string> lines;
  std::string line;
  std::getline(text, line);
  while (lines.size() <= function.body.size() && std::getline(text, line)) lines.push_back(std::move(line));
  return lines;
}

std::string_view without_indent(std::string_view line) {
  return line.substr(std::min(line.find_first_not_of(' '), line.size()));
}

/// Returns the text after the word `return`.
std::string_view returned_by(std::string_view line) {
  const std::string_view text = without_indent(line);
  return text.substr(std::min(text.find(' '), text.size() - 1) + 1);
}

Json function_json(const ir::Module& module, const ir::Function& function) {
  const auto named = [&](const std::vector<ir::Argument>& list) {
    Json json = Json::array();
    for (const ir::Argument& argument : list)
      json.push_back({{"name", argument.name}, {"type", ir::to_string(function.type(argument.value))}});
    return json;
  };
  const std::vector<std::string> lines = op_lines(module, function);
  Json ops = Json::array();
  for (std::size_t i = 0; i < function.body.size(); ++i) {
    const ir::Op& op = function.body[i];
    const std::string_view text = without_indent(lines.at(i));
    ops.push_back({{"text", text}, {"op", ir::op_info(op.code).name}, {"at", op.location}});
  }
  return {{"name", function.name},
          {"training", function.trains},
          {"arguments", named(function.arguments)},
          {"results", named(function.results)},
          {"ops", std::move(ops)},
          {"return", returned_by(lines.at(function.body.size()))}};
}

std::string_view buffer_kind(codegen::BufferKind kind) {
  constexpr std::string_view kNames[] = {"argument", "result", "state", "constant", "temporary"};
  return kNames[static_cast<std::size_t>(kind)];
}

Json member_json(const std::string& name, const BufferUse& use, const codegen::GroupReport* report) {
  return {{"name", name},
          {"reads", use.reads},
          {"writes", use.writes},
          {"ops", report == nullptr ? std::vector<std::string>() : report->ops},
          {"stopped", report == nullptr ? "" : report->stopped}};
}

/// Returns the buffers that one member of a table touches.
BufferUse member_use(const codegen::KernelLaunch& launch, std::size_t member) {
  codegen::KernelLaunch alone = launch;
  alone.buffers = launch.member_buffers(member);
  alone.others.clear();
  return buffers_of(alone);
}

/// Returns the place that the most ops of a kernel have; of several such places, the last.
std::string main_place(const codegen::GroupReport& report) {
  std::map<std::string, int> counts;
  std::string best;
  for (const std::string& op : report.ops) {
    const std::size_t at = op.find(" at ");
    if (at == std::string::npos) continue;
    const std::string place = op.substr(at + 4);
    if (++counts[place] >= counts[best]) best = place;
  }
  return best;
}

/// Returns the name of the first buffer that is written. Used for kernels whose ops are not listed.
std::string first_written(const codegen::Program& program, const codegen::Launch& launch) {
  const BufferUse use = buffers_of(launch);
  return use.writes.empty() ? "" : program.buffers[static_cast<std::size_t>(use.writes.front())].name;
}

/// Ops of a module's text by place and kind.
using OpCounts = std::map<std::string, std::map<std::string, int>>;

OpCounts count_ops(const std::string& module) {
  OpCounts counts;
  std::istringstream text(module);
  std::string line;
  while (std::getline(text, line)) {
    const bool is_op = line.starts_with("    %") || line.starts_with("    update ");
    if (!is_op) continue;
    const std::size_t equals = line.find(" = ");
    const std::size_t first = line[4] == '%' ? equals + 3 : 4;
    const std::size_t loc = line.rfind(" loc(\"");
    const std::string place =
        loc == std::string::npos ? "" : line.substr(loc + 6, line.rfind("\")") - loc - 6);
    ++counts[place][line.substr(first, line.find_first_of(" :", first) - first)];
  }
  return counts;
}

int total(const OpCounts& counts) {
  int sum = 0;
  for (const auto& [place, ops] : counts) {
    for (const auto& [op, count] : ops) sum += count;
  }
  return sum;
}

int count_at(const OpCounts& counts, const std::string& place, const std::string& op) {
  const auto found = counts.find(place);
  if (found == counts.end()) return 0;
  const auto ops = found->second.find(op);
  return ops == found->second.end() ? 0 : ops->second;
}

/// Returns the places whose ops changed in kind or number.
Json changed_places(const OpCounts& before, const OpCounts& after) {
  std::map<std::string, std::set<std::string>> all;
  for (const OpCounts* counts : {&before, &after}) {
    for (const auto& [place, ops] : *counts) {
      for (const auto& [op, count] : ops) all[place].insert(op);
    }
  }
  Json places = Json::array();
  for (const auto& [place, ops] : all) {
    Json removed = Json::object(), added = Json::object();
    for (const std::string& op : ops) {
      const int change = count_at(after, place, op) - count_at(before, place, op);
      if (change < 0) removed[op] = -change;
      if (change > 0) added[op] = change;
    }
    if (!removed.empty() || !added.empty())
      places.push_back({{"at", place}, {"removed", removed}, {"added", added}});
  }
  return places;
}

}  // namespace

Json module_json(const ir::Module& module) {
  Json parameters = Json::array(), functions = Json::array();
  for (const ir::Parameter& parameter : module.parameters) parameters.push_back(parameter_json(parameter));
  for (const ir::Function& function : module.functions) functions.push_back(function_json(module, function));
  return {{"module", module.name},
          {"attributes", attributes_json(module.attributes)},
          {"parameters", std::move(parameters)},
          {"functions", std::move(functions)}};
}

std::vector<const codegen::KernelLaunch*> codes_of(const codegen::Program& program) {
  std::vector<const codegen::KernelLaunch*> codes;
  std::set<std::string> known;
  for (const codegen::Launch& launch : program.launches) {
    const auto* kernel = std::get_if<codegen::KernelLaunch>(&launch);
    if (kernel != nullptr && known.insert(codegen::tile::structure(kernel->kernel)).second)
      codes.push_back(kernel);
  }
  return codes;
}

Json program_json(const codegen::Program& program, const std::vector<std::optional<double>>& milliseconds) {
  Json buffers = Json::array(), launches = Json::array();
  for (const codegen::Buffer& buffer : program.buffers) {
    buffers.push_back({{"name", buffer.name},
                       {"kind", buffer_kind(buffer.kind)},
                       {"type", ir::to_string(buffer.type)},
                       {"bytes", buffer.type.bytes()}});
  }
  std::map<std::string, const codegen::GroupReport*> reports;
  for (const codegen::GroupReport& report : program.groups) reports.emplace(report.kernel, &report);
  const auto report_of = [&](const std::string& name) -> const codegen::GroupReport* {
    const auto found = reports.find(name);
    return found == reports.end() ? nullptr : found->second;
  };
  std::map<std::string, std::size_t> codes;
  for (const codegen::KernelLaunch* code : codes_of(program))
    codes.emplace(codegen::tile::structure(code->kernel), codes.size());
  for (std::size_t i = 0; i < program.launches.size(); ++i) {
    const codegen::Launch& launch = program.launches[i];
    const codegen::LaunchCost cost = codegen::cost_of(program, launch);
    Json members = Json::array();
    std::string kind, at;
    int code = -1;
    if (const auto* kernel = std::get_if<codegen::KernelLaunch>(&launch)) {
      kind = "kernel";
      code = static_cast<int>(codes.at(codegen::tile::structure(kernel->kernel)));
      for (std::size_t member = 0; member < kernel->members(); ++member) {
        const codegen::GroupReport* report = report_of(kernel->member_name(member));
        if (member == 0 && report != nullptr) at = main_place(*report);
        members.push_back(member_json(kernel->member_name(member), member_use(*kernel, member), report));
      }
    } else if (const auto* gemm = std::get_if<codegen::GemmLaunch>(&launch)) {
      kind = "product";
      at = gemm->location;
      members.push_back(member_json(codegen::short_name(launch), buffers_of(launch), nullptr));
    } else {
      kind = "call";
      at = std::get<codegen::OpCall>(launch).op.location;
      members.push_back(member_json(codegen::short_name(launch), buffers_of(launch), nullptr));
    }
    if (at.empty()) at = first_written(program, launch);
    Json json = {{"kind", kind},
                 {"name", codegen::short_name(launch)},
                 {"at", at},
                 {"code", code},
                 {"bytes", cost.bytes},
                 {"flops", cost.flops}};
    const bool timed = !milliseconds.empty() && milliseconds.at(i);
    json["ms"] = timed ? Json(*milliseconds.at(i)) : Json();
    json["members"] = std::move(members);
    launches.push_back(std::move(json));
  }
  return {{"name", program.name}, {"buffers", std::move(buffers)}, {"launches", std::move(launches)}};
}

Json memory_json(const MemoryPlan& plan) {
  Json buffers = Json::array();
  for (std::size_t i = 0; i < plan.buffers.size(); ++i) {
    const PlannedBuffer& buffer = plan.buffers[i];
    if (buffer.offset < 0) continue;
    buffers.push_back({{"buffer", i},
                       {"offset", buffer.offset},
                       {"bytes", buffer.bytes},
                       {"first", buffer.first},
                       {"last", buffer.last}});
  }
  return {{"arena_bytes", plan.arena_bytes},
          {"live_peak_bytes", plan.live_peak_bytes},
          {"buffers", std::move(buffers)}};
}

PassLog::PassLog(ir::PassContext& context, const ir::Module& before) : before_(ir::print(before)) {
  context.on_change = [this, &context](std::string_view pass, const std::string& text) {
    changes_.push_back(
        {std::string(pass), text, context.times.empty() ? 0 : context.times.back().seconds.count()});
  };
}

Json PassLog::json() const {
  Json passes = Json::array();
  OpCounts before = count_ops(before_);
  const std::vector<ir::PassInfo> of_ir = ir::passes();
  for (const Change& change : changes_) {
    if (std::ranges::find(of_ir, change.pass, &ir::PassInfo::name) == of_ir.end()) continue;
    OpCounts after = count_ops(change.text);
    passes.push_back({{"name", change.pass},
                      {"ms", change.seconds * 1e3},
                      {"ops_before", total(before)},
                      {"ops_after", total(after)},
                      {"places", changed_places(before, after)}});
    before = std::move(after);
  }
  return passes;
}

}  // namespace rewire::runtime
