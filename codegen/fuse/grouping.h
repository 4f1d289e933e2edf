// Decides which ops share a kernel. Ops are taken from last to first. An op joins the group of its consumers
// that runs first, if the group's axes can carry it (group.h) and no other consumer runs before that group.
// Other independent groups of consumers are merged with it, since they read the same tensor. So a tensor is
// consumed where it is made, a chain that was cloned next to its users (ir/passes/recompute) stays with
// them, and a value that two kernels need is written once.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "codegen/fuse/chain.h"
#include "codegen/fuse/group.h"
#include "codegen/fuse/order.h"
#include "codegen/fuse/prepare.h"
#include "codegen/fuse/token_sums.h"
#include "codegen/program.h"

namespace rewire::codegen {

struct GroupNode {
  bool live = true;
  bool opaque = false;  // a call: matmul, attention, concat, sort …
  int op = -1;          // opaque: body index
  int epilogue = -1;    // a matmul's: the op whose result its call writes, with a bias, a cast or more
  GemmEpilogue kind = GemmEpilogue::none;  // of a matmul's call
  bool accumulates = false;  // the call adds to an operand's memory: a matmul's third, a scatter_add's first
  int other = -1;            // its call's other result: gelu's operand, or the sum of the gradient's rows
  std::vector<TokenSums> sums;  // that an attention_grad computes too
  /// By operand, if opaque. A matmul's third is its bias, the sum that it adds to, or for a gradient gelu's
  /// operand.
  std::vector<Source> operands;
  Group group;
  std::set<std::string> reads;  // parameters read
  std::string stopped;          // why it stopped growing, for the report
};

struct Use {
  int node = 0, op = 0, operand = 0;
};

/// A matmul and the ops that its call computes too, which no other op reads.
struct Product {
  int matmul = -1;
  std::vector<int> absorbed;  // body indices, the matmul's included
};
struct AddedProduct {
  Product product;
  ir::Value sum;  // of earlier products, that nothing else reads
};
struct BiasedProduct {
  Product product;
  Source bias;
};

/// The most ops of a small matrix whose columns are summed. It exceeds WorkGrain::group_ops, since each sum
/// would otherwise need a kernel.
constexpr std::size_t kMaxSmallGroupOps = 1000;

/// A kernel of fewer elements along all of its axes takes WorkGrain::few_elements_ops.
constexpr std::int64_t kFewElements = 1 << 18;

class Grouping {
 public:
  Grouping(Prepared prepared, const FuseOptions& options);

  /// Returns whether the GEMM library multiplies matrices of this type.
  bool is_product_type(ir::DType dtype) const;

  const ir::Module& module() const { return prepared_.module; }
  const ir::Function& function() const { return prepared_.function(); }
  const std::vector<GroupNode>& nodes() const { return nodes_; }
  /// Returns the readers of a value, through shape ops.
  const std::vector<Use>& uses(ir::Value value) const { return uses_[static_cast<std::size_t>(value.id)]; }
  /// Returns the node that computes a value; -1 for arguments and leaves.
  int producer(ir::Value value) const { return producer_[static_cast<std::size_t>(value.id)]; }
  /// Returns whether a rewrite is not left out (lowering_steps.h).
  bool does(std::string_view step) const { return !left_out_.contains(step); }
  bool is_result(ir::Value value) const { return results_.contains(value.id); }
  /// Returns true if a reader addresses the value by its row-major linear index.
  bool needs_dense(ir::Value value) const { return dense_.contains(value.id); }
  bool is_copy(int op) const { return prepared_.copy[static_cast<std::size_t>(op)]; }
  /// Returns the op that defines a value; nullptr for arguments.
  const ir::Op* definition(ir::Value value) const;
  /// Returns uses for the axes of a group of this function (group.h).
  std::optional<AxisPlan> plan_axes_of(const Group& group) const {
    return plan_axes(group, function(), lane_elements_, rows_first_);
  }
  /// Returns the live nodes in an order that respects all dependences, early ops first.
  std::vector<int> execution_order() const;
  /// Returns the cost of the nodes' order so far, for tests: order.h.
  std::int64_t order_steps() const { return order_.steps(); }

 private:
  const ir::Op& op(int index) const { return function().body[static_cast<std::size_t>(index)]; }

  // A group with one more op, and its demands on others: shape ops to carry out, values to keep dense.
  struct Placement {
    Group group;
    std::vector<int> copies;
    std::vector<ir::Value> dense;
  };

  /// The group with one more op, or the reason why the op cannot join it.
  struct Joining {
    std::optional<Placement> placement;
    std::string refusal = {};
    bool is_usual = false;  // most kernels have such an op: a report prefers another reason
  };

  // --- grouping.cpp: the walk over ops, and the order of nodes
  bool is_virtual(int index) const;
  void process(int index);
  bool copies_call(int copy) const;
  void note_read(int node, const std::string& parameter);
  void commit(int node, Placement placement, int index);
  int add_node(GroupNode node);
  void add_edges(int node, const ir::Op& producer);
  Joining tried(int index, int candidate, bool has_others) const;
  bool reads_before_updates(const Placement& joined, int index, int home) const;
  bool runs_first(int node, ir::Value value) const;
  int first_op(int node) const;
  bool updates_in_place(const Group& group) const;

  // --- placement.cpp: how an op joins a group
  Joining try_join(int index, int node) const;
  bool worth_joining(const Group& group, int index, const AxisPlan& plan) const;
  std::size_t max_ops(const Group& group) const;
  std::size_t most_ops(const Group& group) const;
  Group new_group(int index) const;
  void place_operands(Placement& placement, int index) const;
  Source resolve(Placement& placement, int index, std::size_t operand) const;
  IndexMap start_map(const Group& group, int index, std::size_t operand) const;

  // --- merge.cpp: how groups become one
  void merge_consumers(int index, int node);
  enum class Readers : std::uint8_t { all, first };
  void merge_readers(ir::Value value, Readers which);
  void absorb(int node, int other, Group merged);
  std::optional<Group> try_merge(int into, int from, ir::Value shared) const;
  std::vector<std::map<int, int>> alignments(const Group& into, const Group& from, ir::Value shared) const;
  /// `axis_of`: the axis of `first` that each axis of `second` becomes.
  std::optional<Group> merged_group(const Group& first, Group second,
                                    const std::map<int, int>& axis_of) const;
  void refresh(Group& group) const;

  // --- opaque.cpp: calls
  void process_opaque(int index);
  bool process_epilogue(int index);
  int sole_definition(ir::Value value, ir::Opcode code) const;
  std::optional<BiasedProduct> biased_product(ir::Value sum) const;
  std::optional<BiasedProduct> biased_result(const ir::Op& last) const;
  std::optional<Product> product(ir::Value value) const;
  std::optional<AddedProduct> added_product(const ir::Op& add) const;
  bool is_own_sum(ir::Value value) const;
  bool is_small_result(const ir::Op& matmul) const;
  std::optional<IndexMap> view_map(ir::Value& value) const;
  Source opaque_operand(ir::Value value, bool matrix);
  bool is_one_number(ir::Value value) const;  // everywhere
  Source dense_operand(ir::Value value);
  void commit_opaque(GroupNode node, const ir::Op& result_op, const std::vector<int>& others = {});

  // --- token_sums.cpp: what attention's gradient adds up
  struct PlacedResults;
  void find_token_sums(const WorkGrain& grain);
  std::optional<std::pair<int, TokenSums>> token_sums(int index) const;
  bool place_results(ir::Value value, std::int64_t offset, const ir::Shape& strides,
                     PlacedResults& found) const;

  // --- epilogues.cpp: what calls compute besides products
  struct Epilogue {
    GemmEpilogue epilogue = GemmEpilogue::none;
    int matmul = -1;
    Source bias;       // for gelu
    ir::Value pre;     // gelu's operand
    int written = -1;  // the op whose result the call writes
    int sum = -1;      // for a gradient
    bool keeps_pre = false;
    std::set<int> absorbed;  // ops of the call, `written` included
  };
  void find_epilogues(const std::function<bool(const ProductEpilogue&)>& ask);
  std::optional<Epilogue> gelu_epilogue(int index, const Chain& chain, const BiasedProduct& of) const;
  std::optional<Epilogue> gelu_gradient_epilogue(int index, const Chain& chain,
                                                 const std::set<std::int32_t>& stops) const;
  std::set<int> private_ops(const Chain& chain, int last) const;
  bool adds_rows_of(ir::Value value, int sum) const;
  ProductEpilogue facts_of(const Epilogue& found) const;
  void process_found_epilogue(const Epilogue& found);
  ir::Value root_of(ir::Value value) const;

  Prepared prepared_;
  ir::LeftOut left_out_;
  bool fuse_, any_float_product_;
  std::int64_t lane_elements_;
  bool rows_first_;
  std::size_t group_ops_, few_elements_ops_;
  std::vector<std::int32_t> definitions_;
  std::vector<int> direct_uses_;  // by Value::id: how many operands it is, shape ops' included
  std::vector<GroupNode> nodes_;
  NodeOrder order_;               // of nodes_
  std::vector<SpineSpan> spans_;  // by body index
  std::vector<std::vector<Use>> uses_;
  std::vector<int> producer_;
  std::set<std::int32_t> results_, dense_;
  std::set<int> absorbed_;  // ops of a matmul's node, or sums of an attention_grad's
  std::map<int, std::vector<TokenSums>> token_sums_;  // by attention_grad
  std::map<int, Epilogue> epilogues_;       // by the op at which the node is made, the first that it writes
  std::vector<std::vector<int>> readers_;   // by Value::id, through views; for find_epilogues alone
  std::map<std::string, int> update_node_;  // by parameter
  std::map<std::string, std::vector<int>>
      parameter_readers_;  // by parameter: nodes that read it, or were merged into one that does
};

}  // namespace rewire::codegen
