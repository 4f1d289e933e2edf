// See register_block.h: whole trips of kUnroll steps, then the steps that are left.
#include "codegen/llvm/register_block.h"

#include <llvm/IR/Intrinsics.h>

namespace rewire::codegen::cpu {
namespace {

using llvm::BasicBlock;
using llvm::PHINode;
using llvm::Value;

constexpr int kUnroll = 4;

class BlockLoops {
 public:
  BlockLoops(llvm::IRBuilder<>& builder, VectorMath& math, const RegisterBlock& block)
      : builder_(builder), math_(math), block_(block) {}

  std::vector<Value*> run() {
    State state{number(0), block_.right, {}};
    state.sums.assign(static_cast<std::size_t>(block_.rows * block_.vectors),
                      llvm::Constant::getNullValue(block_.type));
    Value* whole = builder_.CreateAnd(block_.count, number(-kUnroll));
    state = loop(number(0), whole, kUnroll, state);
    return loop(whole, block_.count, 1, state).sums;
  }

 private:
  /// The values before a step of k.
  struct State {
    Value *offset, *right;  // elements from k = 0 to here in left, and the row of right
    std::vector<Value*> sums;
  };

  llvm::ConstantInt* number(std::int64_t value) {
    return builder_.getInt64(static_cast<std::uint64_t>(value));
  }
  Value* element(Value* base, Value* index) {
    return builder_.CreateInBoundsGEP(builder_.getFloatTy(), base, index);
  }
  BasicBlock* make(const char* name) {
    return BasicBlock::Create(builder_.getContext(), name, builder_.GetInsertBlock()->getParent());
  }

  /// Emits steps [begin, end) of k, `unroll` per trip. Returns the state after them.
  State loop(Value* begin, Value* end, int unroll, const State& before) {
    BasicBlock *from = builder_.GetInsertBlock(), *body = make("steps"), *after = make("after");
    builder_.CreateCondBr(builder_.CreateICmpULT(begin, end), body, after);
    builder_.SetInsertPoint(body);
    PHINode* k = phi(begin, from);
    State entry = before;
    each(entry, [&](Value*& value) { value = phi(value, from); });
    State state = entry;
    for (int u = 0; u < unroll; ++u) state = step(state);
    Value* next = builder_.CreateNUWAdd(k, number(unroll));
    k->addIncoming(next, body);
    builder_.CreateCondBr(builder_.CreateICmpULT(next, end), body, after);
    State result = before;
    std::vector<Value*> last = list(state), first = list(before);
    std::size_t index = 0;
    each(entry, [&](Value*& value) { llvm::cast<PHINode>(value)->addIncoming(last[index++], body); });
    builder_.SetInsertPoint(after);
    index = 0;
    each(result, [&](Value*& value) {
      PHINode* merged = phi(first[index], from);
      merged->addIncoming(last[index++], body);
      value = merged;
    });
    return result;
  }

  State step(const State& state) {
    State next{builder_.CreateAdd(state.offset, block_.left_step), element(state.right, block_.right_step),
               state.sums};
    std::vector<Value*> row;
    for (int v = 0; v < block_.vectors; ++v) row.push_back(block_.load(state.right, v));
    std::size_t sum = 0;
    for (Value* line : block_.left) {
      Value* factor =
          builder_.CreateAlignedLoad(builder_.getFloatTy(), element(line, state.offset), llvm::Align(4));
      Value* spread = builder_.CreateVectorSplat(block_.type->getNumElements(), factor);
      for (Value* vector : row) {
        next.sums[sum] = math_.fma(spread, vector, next.sums[sum]);
        ++sum;
      }
    }
    return next;
  }

  PHINode* phi(Value* value, BasicBlock* from) {
    PHINode* node = builder_.CreatePHI(value->getType(), 2);
    node->addIncoming(value, from);
    return node;
  }
  template <class Visit>
  static void each(State& state, const Visit& visit) {
    visit(state.offset);
    visit(state.right);
    for (Value*& sum : state.sums) visit(sum);
  }
  static std::vector<Value*> list(State state) {
    std::vector<Value*> values;
    each(state, [&](Value*& value) { values.push_back(value); });
    return values;
  }

  llvm::IRBuilder<>& builder_;
  VectorMath& math_;
  const RegisterBlock& block_;
};

}  // namespace

std::vector<Value*> multiply(llvm::IRBuilder<>& builder, VectorMath& math, const RegisterBlock& block) {
  return BlockLoops(builder, math, block).run();
}

void fetch(llvm::IRBuilder<>& builder, Value* begin, std::int64_t bytes, Fetch what) {
  constexpr std::int64_t kLine = 64;
  constexpr unsigned kData = 1;  // an argument of llvm.prefetch, like the numbers below: not code
  const bool writes = what == Fetch::to_write;
  for (std::int64_t byte = 0; byte < bytes; byte += kLine) {
    Value* line = builder.CreateConstGEP1_64(builder.getInt8Ty(), begin, static_cast<std::uint64_t>(byte));
    builder.CreateIntrinsic(
        llvm::Intrinsic::prefetch, {line->getType()},
        {line, builder.getInt32(writes ? 1 : 0), builder.getInt32(writes ? 3 : 2), builder.getInt32(kData)});
  }
}

}  // namespace rewire::codegen::cpu
