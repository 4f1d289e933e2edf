// Decides which ops share a kernel: the walk over a function's ops, and the order of the groups; see
// grouping.h. placement.cpp adds an op to a group, merge.cpp merges groups, opaque.cpp handles calls.
#include "codegen/fuse/grouping.h"

#include <algorithm>

#include "codegen/lowering_steps.h"
#include "ir/error.h"
#include "ir/opcodes.h"
#include "ir/ops/op_info.h"

namespace rewire::codegen {

using ir::Function;
using ir::Op;
using ir::Opcode;
using ir::Value;

Grouping::Grouping(Prepared prepared, const FuseOptions& options)
    : prepared_(std::move(prepared)),
      left_out_(options.left_out),
      fuse_(options.fuse && does(kFuse)),
      any_float_product_(options.grain.any_float_product),
      lane_elements_(options.grain.lane_elements),
      rows_first_(options.grain.row_sum_lanes > 0),
      group_ops_(static_cast<std::size_t>(options.grain.group_ops)),
      few_elements_ops_(
          static_cast<std::size_t>(std::min(options.grain.group_ops, options.grain.few_elements_ops))) {
  const Function& f = function();
  definitions_ = f.definitions();
  spans_ = spine_spans(f);
  uses_.resize(f.types.size());
  producer_.assign(f.types.size(), -1);
  direct_uses_.assign(f.types.size(), 0);
  for (const Op& node : f.body) {
    for (Value operand : node.operands) ++direct_uses_[static_cast<std::size_t>(operand.id)];
  }
  for (const auto& result : f.results) results_.insert(result.value.id);
  if (fuse_ && options.epilogue) find_epilogues(options.epilogue);
  if (fuse_ && does(kTokenSums)) find_token_sums(options.grain);
  for (int i = static_cast<int>(f.body.size()) - 1; i >= 0; --i) process(i);
  if (fuse_) {
    for (const auto& argument : f.arguments) merge_readers(argument.value, Readers::all);
  }
}

const Op* Grouping::definition(Value value) const {
  const std::int32_t at = definitions_[static_cast<std::size_t>(value.id)];
  return at < 0 ? nullptr : &op(at);
}

bool Grouping::is_virtual(int index) const {
  return is_view(op(index).code) && !prepared_.copy[static_cast<std::size_t>(index)];
}

void Grouping::process(int index) {
  const Op& node = op(index);
  if (is_virtual(index) || absorbed_.contains(index)) return;
  if (const auto found = epilogues_.find(index); found != epilogues_.end())
    return process_found_epilogue(found->second);
  if (is_leaf(node.code) && !is_copy(index)) return;
  if (!is_view(node.code) && !is_leaf(node.code) && !is_fusible(node.code)) return process_opaque(index);
  if (process_epilogue(index)) return;
  if (fuse_ && !node.results.empty()) merge_readers(node.results[0], Readers::first);
  int home = -1;
  // A copy of a call's result stays alone: the call can write its result there, and the copy disappears.
  const bool alone = is_view(node.code) && copies_call(index);
  if (fuse_ && !alone && !node.results.empty()) {
    std::set<int> candidates;
    for (const Use& use : uses(node.results[0])) {
      if (!nodes_[static_cast<std::size_t>(use.node)].opaque) candidates.insert(use.node);
    }
    for (int candidate : candidates) {
      Joining joining = tried(index, candidate, candidates.size() > 1);
      if (joining.placement) {
        home = candidate;
        commit(home, std::move(*joining.placement), index);
        break;
      }
      std::string& stopped = nodes_[static_cast<std::size_t>(candidate)].stopped;
      if (stopped.empty() || !joining.is_usual) stopped = ir::describe(node) + " " + joining.refusal;
    }
  }
  if (home < 0) {
    Placement placement{new_group(index), {}, {}};
    place_operands(placement, index);
    home = add_node({});
    commit(home, std::move(placement), index);
  }
  if (fuse_ && !alone && !node.results.empty()) merge_consumers(index, home);
}

Grouping::Joining Grouping::tried(int index, int candidate, bool has_others) const {
  const Value value = op(index).results[0];
  if (has_others && function().type(value).elements() == 1 &&
      !nodes_[static_cast<std::size_t>(candidate)].group.all_axes().empty())
    return {{}, "is one number for several groups", true};
  if (!runs_first(candidate, value)) return {{}, "is read by another group, which must run first", true};
  Joining joining = try_join(index, candidate);
  if (joining.placement && !reads_before_updates(*joining.placement, index, candidate))
    return {{}, "reads a parameter that another group updates before"};
  return joining;
}

bool Grouping::copies_call(int copy) const {
  Value value = op(copy).operands[0];
  std::int32_t at = definitions_[static_cast<std::size_t>(value.id)];
  while (at >= 0 && is_virtual(at)) {
    value = op(at).operands[0];
    at = definitions_[static_cast<std::size_t>(value.id)];
  }
  return at >= 0 && !is_view(op(at).code) && !is_leaf(op(at).code) && !is_fusible(op(at).code);
}

// Returns whether a group runs first among the readers of `value`: no other reader comes before it.
bool Grouping::runs_first(int node, Value value) const {
  std::vector<int> others;
  for (const Use& use : uses(value)) {
    if (use.node != node) others.push_back(use.node);
  }
  return !order_.reaches(std::move(others), node);
}

// Returns whether an op that joins a group reads its parameters there before any other group updates them.
bool Grouping::reads_before_updates(const Placement& joined, int index, int home) const {
  for (std::size_t k = 0; k < op(index).operands.size(); ++k) {
    const Op* leaf = definition(joined.group.sources.at({index, static_cast<int>(k)}).root);
    if (leaf == nullptr || leaf->code != Opcode::param) continue;
    const auto update = update_node_.find(leaf->attributes.get_string("name"));
    if (update == update_node_.end() || update->second == home) continue;
    if (order_.reaches({update->second}, home)) return false;
  }
  return true;
}

// Adds edges from a node to the readers of the values that it computes, and to the updates of the parameters
// that it reads.
void Grouping::add_edges(int node, const Op& producer) {
  std::set<int> next;
  for (Value result : producer.results) {
    for (const Use& use : uses(result)) next.insert(use.node);
  }
  for (const std::string& name : nodes_[static_cast<std::size_t>(node)].reads) {
    const auto it = update_node_.find(name);
    if (it != update_node_.end()) next.insert(it->second);
  }
  for (const int target : next) order_.add_edge(node, target);
}

int Grouping::add_node(GroupNode node) {
  nodes_.push_back(std::move(node));
  return order_.add_node();
}

int Grouping::first_op(int node) const {
  const GroupNode& n = nodes_[static_cast<std::size_t>(node)];
  return n.opaque ? n.op : n.group.ops.front();
}

// Returns whether a group reads each element of a state where it writes it. Elsewhere, another instance may
// have overwritten it.
bool Grouping::updates_in_place(const Group& group) const {
  if (group.updates.empty()) return true;
  for (const auto& [key, source] : group.sources) {
    const Op* leaf = definition(source.root);
    if (leaf == nullptr || leaf->code != Opcode::param ||
        !group.updates.contains(leaf->attributes.get_string("name")))
      continue;
    const auto update = std::find_if(group.ops.begin(), group.ops.end(), [&](int member) {
      return op(member).code == Opcode::update &&
             op(member).attributes.get_string("name") == leaf->attributes.get_string("name");
    });
    if (source.linear || source.indexed || source.map != group.reduce_maps.at(*update)) return false;
  }
  return true;
}

void Grouping::note_read(int node, const std::string& parameter) {
  if (nodes_[static_cast<std::size_t>(node)].reads.insert(parameter).second)
    parameter_readers_[parameter].push_back(node);
}

void Grouping::commit(int node, Placement placement, int index) {
  const Op& member = op(index);
  for (int copy : placement.copies) prepared_.copy[static_cast<std::size_t>(copy)] = true;
  for (Value value : placement.dense) dense_.insert(value.id);
  GroupNode& n = nodes_[static_cast<std::size_t>(node)];
  n.group = std::move(placement.group);
  for (std::size_t k = 0; k < member.operands.size(); ++k) {
    const Value root = n.group.sources.at({index, static_cast<int>(k)}).root;
    uses_[static_cast<std::size_t>(root.id)].push_back({node, index, static_cast<int>(k)});
    const Op* leaf = definition(root);
    if (leaf != nullptr && leaf->code == Opcode::param) note_read(node, leaf->attributes.get_string("name"));
  }
  if (member.code == Opcode::update) {
    const std::string& name = member.attributes.get_string("name");
    update_node_[name] = node;
    // Readers after the update in the body also read the value from before it, so they run first.
    std::set<int> before;
    for (const int reader : parameter_readers_[name]) before.insert(order_.home(reader));
    before.erase(node);
    for (const int reader : before) order_.add_edge(reader, node);
  }
  for (Value result : member.results) producer_[static_cast<std::size_t>(result.id)] = node;
  order_.add_span(node, spans_[static_cast<std::size_t>(index)]);
  add_edges(node, member);
}

std::vector<int> Grouping::execution_order() const {
  std::vector<int> waiting(nodes_.size());
  std::map<int, int> ready;  // first op -> node
  std::vector<std::vector<int>> next(nodes_.size());
  int live = 0;
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    if (!nodes_[i].live) continue;
    ++live;
    next[i] = order_.successors(static_cast<int>(i));
    for (int n : next[i]) ++waiting[static_cast<std::size_t>(n)];
  }
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    if (nodes_[i].live && waiting[i] == 0) ready[first_op(static_cast<int>(i))] = static_cast<int>(i);
  }
  std::vector<int> order;
  while (!ready.empty()) {
    const int node = ready.begin()->second;
    ready.erase(ready.begin());
    order.push_back(node);
    for (int n : next[static_cast<std::size_t>(node)]) {
      if (--waiting[static_cast<std::size_t>(n)] == 0) ready[first_op(n)] = n;
    }
  }
  if (static_cast<int>(order.size()) != live) internal_error("fusion of '{}' made a cycle", function().name);
  return order;
}

}  // namespace rewire::codegen
