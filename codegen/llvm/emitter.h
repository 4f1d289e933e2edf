// Walks a loop tree (loop_tree.h) and writes LLVM IR: explicit vectors, no reliance on auto-vectorisation.
//
// The module gets two functions. One has the kernel's symbol and the signature KernelFunction (jit.h). It
// loads the argument pointers and calls the other, whose parameters carry noalias.
//
// Every loop around the point of emission has an Environment: its index, and the values known inside it.
// Code that a loop does not change is emitted before it, in the environment around it, at the loop's
// `before` point.
#pragma once

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Module.h>

#include <array>
#include <functional>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "codegen/llvm/convert.h"
#include "codegen/llvm/loop_tree.h"
#include "codegen/llvm/target.h"
#include "codegen/llvm/vector_math.h"

namespace rewire::codegen::cpu {

/// The vectors of one trip of a vector loop: `count` vectors from element `base` on. The last has only
/// `tail` elements (0: all).
struct Chunk {
  llvm::Value* base = nullptr;  // i64
  int count = 1;
  int tail = 0;
};

struct Environment {
  enum class Kind : std::uint8_t { instance, row, lane, vector };
  Kind kind = Kind::instance;
  Environment* around = nullptr;
  std::int32_t axis = -1;                                  // lane, vector
  llvm::Value* index = nullptr;                            // lane
  Chunk chunk;                                             // vector
  llvm::Instruction* before = nullptr;                     // code placed here runs once, before the loop
  llvm::Instruction* inside = nullptr;                     // code placed here runs first in every trip
  std::unordered_map<std::int32_t, llvm::Value*> scalars;  // by value
  /// By value, one per vector of the chunk.
  std::unordered_map<std::int32_t, std::vector<llvm::Value*>> vectors;
  std::unordered_map<llvm::Value*, llvm::Value*> splats;
  std::unordered_map<const tile::Access*, llvm::Value*> addresses;
};

class Emitter {
 public:
  /// `trace`: an instruction has a debug location whose line is 1 more than the id of its tile value.
  Emitter(llvm::Module& module, const LoopProgram& program, const CpuTarget& target, bool trace = false);
  /// Adds the two functions to the module.
  void emit(const std::string& symbol);

 private:
  // --- emitter.cpp: functions, instances, rows, indices
  void set_attributes(llvm::Function& function) const;
  void begin_trace(const std::string& symbol);
  void end_trace();
  llvm::Function* declare_body(const std::string& symbol);
  void emit_entry(const std::string& symbol, llvm::Function* body);
  void emit_instances(llvm::Function* function);
  void emit_instance(llvm::Value* instance);
  void emit_rows();
  void emit_row();
  void load_carried(Environment& row);
  void store_carried();
  void decompose(llvm::Value* linear, tile::AxisUse use);
  /// for (i = begin; i < end; i += step)
  void loop(llvm::Value* begin, llvm::Value* end, std::int64_t step,
            const std::function<void(llvm::Value*)>& body);
  llvm::Instruction* mark();

  // --- emit_loops.cpp: lane loops, reductions, slots, values
  void emit_block(const Block& block);
  void emit_step(const Step& step);
  void emit_loop(const Loop& lane_loop);
  void emit_vector_loop(const Loop& lane_loop);
  void emit_chunk(const Loop& lane_loop, const Chunk& chunk, llvm::Instruction* before);
  void open_reductions(const Loop& lane_loop, int accumulators);
  void close_reductions(const Loop& lane_loop, int accumulators);
  bool accumulates_in_slot(const tile::Reduce& reduce) const;
  void fill_slot(const Slot& slot, llvm::Value* memory, std::int32_t axis, llvm::Value* value);
  void copy_slot(const SlotCopy& copy);
  llvm::Value* slot_pointer(std::int32_t slot, int u);
  llvm::Type* slot_type(const Slot& slot) const;
  llvm::Value* load_slot(std::int32_t slot, int u);
  void store_slot(std::int32_t slot, int u, llvm::Value* value);
  /// Returns a value at the current point: a vector in a vector loop over one of its lanes, else a scalar.
  llvm::Value* read(tile::TileValue value, int u);
  /// Returns a value as a vector, in a vector loop.
  llvm::Value* read_spread(tile::TileValue value, int u);
  llvm::Value* spread(llvm::Value* scalar);
  void define(tile::TileValue value, int u, llvm::Value* result);
  void remember(tile::TileValue value, int u, llvm::Value* result);
  llvm::Value* find(tile::TileValue value, int u) const;

  // --- emit_long_sums.cpp
  std::int64_t chain_of(const Loop& lane_loop, std::int64_t trips) const;
  void move_to_totals(const Loop& lane_loop, std::map<std::int32_t, std::vector<llvm::Value*>>& totals);
  void chained_loop(const Loop& lane_loop, std::int64_t end, std::int64_t step, std::int64_t chain,
                    const std::function<void(llvm::Value*)>& trip);
  std::vector<std::int32_t> long_sums() const;
  void for_each_of(std::int32_t slot, llvm::Value* total,
                   const std::function<void(llvm::Type*, llvm::Value*, llvm::Value*)>& each);
  void chained_rows(llvm::Value* begin, llvm::Value* end, const std::vector<std::int32_t>& sums,
                    const std::function<void(llvm::Value*)>& row);

  // --- emit_nodes.cpp
  void emit_node(std::int32_t node);
  void emit_untraced(std::int32_t node);
  llvm::Value* compute(const tile::Node& node, int u);
  llvm::Value* compute_load(const tile::Load& load, int u);
  llvm::Value* load_vector(llvm::Value* pointer, llvm::Type* scalar, int u);
  llvm::Value* strided_offsets(std::int64_t stride, int u);
  llvm::Value* gather_offset(const tile::Load& load, int u);
  llvm::Value* compute_index(const tile::Index& index, int u);
  llvm::Value* compute_pointwise(const tile::Pointwise& node, int u);
  llvm::Value* float_op(const tile::Pointwise& node, const std::vector<llvm::Value*>& x);
  llvm::Value* integer_op(const tile::Pointwise& node, const std::vector<llvm::Value*>& x, ir::DType dtype);
  llvm::Value* compare(const std::string& direction, llvm::Value* a, llvm::Value* b, ir::DType dtype);
  void emit_store(const tile::Store& store);
  void store_scalar(llvm::Value* pointer, llvm::Value* value, llvm::Value* predicate, unsigned alignment);
  void store_vector(const tile::Store& store, int u, llvm::Value* value, llvm::Value* predicate);
  void accumulate(std::int32_t node);
  llvm::Value* combine(tile::ReduceKind kind, ir::DType dtype, llvm::Value* a, llvm::Value* b);
  llvm::Value* identity(tile::ReduceKind kind, llvm::Type* type, ir::DType dtype);
  llvm::Value* across(tile::ReduceKind kind, ir::DType dtype, llvm::Value* vector);
  /// Returns an access's address at the indices around, without the vector axis: a pointer; for Random an
  /// i64.
  llvm::Value* address(const tile::Access& access);
  llvm::Value* address_in(const tile::Access& access, Environment& environment);
  llvm::Value* own_offset(const tile::Access& access, const Environment& environment);
  llvm::Value* advance(llvm::Value* base, llvm::Value* elements, const tile::Access& access);
  llvm::Value* mask(int u, llvm::Value* predicate);
  bool is_partial(int u) const;
  llvm::Value* element(int u);  // i64 index of the first element of vector u
  llvm::Value* lane_numbers(llvm::Type* scalar);

  // --- emit_random.cpp
  using Words = std::array<llvm::Value*, 4>;
  void emit_random(const tile::Random& random);
  llvm::Value* compute_random(const tile::Random& random, llvm::Value* elements);
  Words philox(const tile::Random& random, llvm::Value* blocks);
  std::pair<llvm::Value*, llvm::Value*> multiply_words(llvm::Value* x, std::uint64_t factor);
  bool starts_with_blocks(const tile::Access& element) const;
  std::vector<Words> contiguous_words(const tile::Random& random);
  llvm::Value* alternating();
  llvm::Value* draw(const tile::Random& random, const Words& pair, llvm::Value* odd);

  // --- emit_dot.cpp
  /// An operand as memory: element (lanes…) is at base + sum of stride x index, in f32 elements.
  struct DotView {
    llvm::Value* base = nullptr;
    std::map<std::int32_t, std::int64_t> strides;  // by lane axis
    bool padded = false;                           // whole vectors may be read along the last lane
  };
  using LaneIndices = std::vector<std::pair<std::int32_t, llvm::Value*>>;
  struct DotTask {
    std::int32_t contract = 0, column = 0;
    std::int32_t row = -1;  // the last row axis; -1: one row
    LaneIndices outer;      // the other row axes, while their loops are open
    DotView left, right, result;
  };
  /// A result of rows x vectors in registers, over `count` steps of k; strides in elements. `read` and
  /// `written`, if not 0, limit the elements read of right's last vector and written of the result's.
  struct DotBlock {
    int rows = 0, vectors = 0;
    std::int64_t count = 0, left_row = 0, left_step = 0, right_step = 0, result_row = 0;
    int read = 0, written = 0;
  };
  /// Rows of a tensor that the next instance reads, in bytes.
  struct RowsAhead {
    llvm::Value* base = nullptr;
    std::int64_t rows = 0, stride = 0, length = 0;
  };
  void look_ahead(llvm::Value* instance);
  void fetch_ahead(const RowsAhead& ahead, llvm::Value* row, std::int64_t rows);
  void emit_dot(std::int32_t node);
  DotView dot_view(const DotOperand& operand, const std::vector<std::int32_t>& lanes);
  DotView access_view(const tile::Access& access, const std::vector<std::int32_t>& lanes);
  DotView slot_view(std::int32_t slot);
  llvm::Value* dot_element(const DotView& view, const LaneIndices& indices);
  void dot_over(DotTask& task, const std::vector<std::int32_t>& rows, std::size_t depth);
  void dot_blocks(const DotTask& task);
  std::int64_t most_rows(std::int64_t vectors) const;
  void dot_block(const DotTask& task, const LaneIndices& index, int rows, std::int64_t first_vector,
                 int vectors);
  llvm::Function* dot_function(const DotBlock& block);
  DotView pack(const DotTask& task, const DotView& right, std::int32_t slot);
  llvm::Function* pack_function(bool contiguous);
  llvm::Function* helper(const std::string& name, const std::vector<llvm::Type*>& parameters);
  llvm::Value* load_lanes(llvm::Value* pointer, int live);
  void store_lanes(llvm::Value* vector, llvm::Value* pointer, int live);
  llvm::Value* first_lanes(int live);
  void transpose(std::vector<llvm::Value*>& rows);
  llvm::ConstantInt* number(std::int64_t value);

  llvm::Type* type_of(ir::DType dtype, bool vector) const;
  llvm::Value* constant_of(ir::DType dtype, bool vector, double value) const;
  llvm::AllocaInst* local(llvm::Type* type, const char* name);
  const tile::Node& at(std::int32_t node) const { return program_.nodes[static_cast<std::size_t>(node)]; }
  const tile::Argument& argument(std::int32_t index) const {
    return program_.kernel.arguments[static_cast<std::size_t>(index)];
  }
  bool in_vector() const { return environment_->kind == Environment::Kind::vector; }
  llvm::Value* index_of(std::int32_t axis) const;

  llvm::Module& module_;
  llvm::LLVMContext& context_;
  const LoopProgram& program_;
  const CpuTarget& target_;
  const int width_;
  const bool trace_;
  llvm::DISubprogram* traced_ = nullptr;  // of the body, in a trace
  llvm::IRBuilder<> builder_;
  VectorMath math_;
  Convert convert_;
  llvm::Function* function_ = nullptr;
  llvm::BasicBlock* locals_ = nullptr;  // allocas
  std::vector<llvm::Value*> arguments_;
  llvm::Value* scratch_ = nullptr;
  llvm::Value* partition_ = nullptr;
  std::vector<llvm::Value*> indices_;  // outer and row axes, by axis
  Environment* environment_ = nullptr;
  std::vector<std::vector<RowsAhead>> ahead_;  // by dot, in order of emission: what is fetched meanwhile
  std::size_t dots_ = 0;                       // dots emitted so far
  std::vector<llvm::Value*> slots_;            // by slot: its memory
  std::unordered_map<std::int32_t, std::vector<llvm::Value*>> accumulators_;  // by Reduce node: allocas
};

}  // namespace rewire::codegen::cpu
