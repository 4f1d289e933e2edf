// See product.h. A function has the loops over k of register_block.h, then two ends: one for whole blocks,
// and one with masks for the last columns of c.
#include "codegen/llvm/product.h"

#include <fmt/format.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Module.h>
#include <llvm/IR/Verifier.h>
#include <llvm/Support/raw_ostream.h>

#include "codegen/llvm/register_block.h"
#include "codegen/llvm/vector_math.h"
#include "ir/error.h"

namespace rewire::codegen::cpu {
namespace {

using llvm::BasicBlock;
using llvm::PHINode;
using llvm::Value;

constexpr int kVectors = 2;  // per row of a block

class ProductEmitter {
 public:
  ProductEmitter(llvm::Module& module, const CpuTarget& target)
      : module_(module),
        target_(target),
        block_(product_block(target)),
        builder_(module.getContext()),
        math_(builder_, target),
        scalar_(builder_.getFloatTy()),
        vector_(llvm::FixedVectorType::get(scalar_, static_cast<unsigned>(target.vector_width))) {
    llvm::FastMathFlags flags;
    flags.setAllowContract();
    builder_.setFastMathFlags(flags);
  }

  void emit(bool packed, int rows) {
    packed_ = packed;
    rows_ = rows;
    declare();
    multiply_rows();
    Value* whole = builder_.CreateICmpEQ(columns_, number(block_.columns));
    BasicBlock *in_whole = make("whole"), *in_part = make("part");
    builder_.CreateCondBr(whole, in_whole, in_part);
    builder_.SetInsertPoint(in_whole);
    finish(nullptr);
    builder_.SetInsertPoint(in_part);
    finish(live_lanes());
  }

  void emit_peak() {
    function_ = llvm::Function::Create(
        llvm::FunctionType::get(builder_.getVoidTy(), {builder_.getInt64Ty(), builder_.getPtrTy()}, false),
        llvm::Function::ExternalLinkage, kPeakSymbol, module_);
    set_attributes();
    BasicBlock *entry = make("entry"), *body = make("steps"), *after = make("after");
    builder_.SetInsertPoint(entry);
    // sum = sum f + g. Each sum starts from another number, so no two sums are the same. The numbers stay
    // near g / (1 - f).
    Value* factor = builder_.CreateAlignedLoad(vector_, function_->getArg(1), llvm::Align(4));
    Value* term = builder_.CreateAlignedLoad(vector_, element(function_->getArg(1), target_.vector_width),
                                             llvm::Align(4));
    builder_.CreateBr(body);
    builder_.SetInsertPoint(body);
    PHINode* step = builder_.CreatePHI(builder_.getInt64Ty(), 2);
    step->addIncoming(number(0), entry);
    std::vector<PHINode*> each;
    for (std::int64_t i = 0; i < block_.rows * kVectors; ++i) {
      each.push_back(builder_.CreatePHI(vector_, 2));
      each.back()->addIncoming(llvm::ConstantFP::get(vector_, static_cast<double>(i + 1)), entry);
    }
    std::vector<Value*> next;
    for (PHINode* sum : each) next.push_back(math_.fma(sum, factor, term));
    for (std::size_t i = 0; i < each.size(); ++i) each[i]->addIncoming(next[i], body);
    Value* following = builder_.CreateAdd(step, number(1));
    step->addIncoming(following, body);
    builder_.CreateCondBr(builder_.CreateICmpSLT(following, function_->getArg(0)), body, after);
    builder_.SetInsertPoint(after);
    Value* total = next.front();
    for (std::size_t i = 1; i < next.size(); ++i) total = builder_.CreateFAdd(total, next[i]);
    builder_.CreateAlignedStore(total, function_->getArg(1), llvm::Align(4));
    builder_.CreateRetVoid();
  }

 private:
  using Sums = std::vector<Value*>;  // row by row

  llvm::ConstantInt* number(std::int64_t value) {
    return builder_.getInt64(static_cast<std::uint64_t>(value));
  }
  BasicBlock* make(const char* name) { return BasicBlock::Create(module_.getContext(), name, function_); }
  Value* element(Value* base, Value* index) { return builder_.CreateInBoundsGEP(scalar_, base, index); }
  Value* element(Value* base, std::int64_t index) { return element(base, number(index)); }

  void set_attributes() {
    function_->addFnAttr(llvm::Attribute::NoUnwind);
    function_->addFnAttr("prefer-vector-width", target_.avx512 ? "512" : "256");
  }

  void declare() {
    llvm::Type *pointer = builder_.getPtrTy(), *i64 = builder_.getInt64Ty();
    function_ = llvm::Function::Create(
        llvm::FunctionType::get(
            builder_.getVoidTy(),
            {pointer, i64, pointer, pointer, i64, i64, i64, pointer, builder_.getInt8Ty()}, false),
        llvm::Function::ExternalLinkage, product_symbol(packed_, rows_), module_);
    set_attributes();
    const char* const names[] = {"a", "a_row", "b", "c", "c_row", "k", "columns", "bias", "add"};
    for (unsigned i = 0; i < std::size(names); ++i) function_->getArg(i)->setName(names[i]);
    for (const unsigned i : {0U, 2U, 3U, 7U}) function_->addParamAttr(i, llvm::Attribute::NoAlias);
    c_ = function_->getArg(3), c_row_ = function_->getArg(4);
    columns_ = function_->getArg(6), bias_ = function_->getArg(7);
    builder_.SetInsertPoint(make("entry"));
    add_ = builder_.CreateICmpNE(function_->getArg(8), builder_.getInt8(0));
    for (int r = 0; r < rows_; ++r) {
      Value* row = element(c_, builder_.CreateMul(c_row_, number(r)));
      fetch(builder_, row, block_.columns * static_cast<std::int64_t>(sizeof(float)), Fetch::to_write);
    }
  }

  /// sums_ = a b
  void multiply_rows() {
    RegisterBlock block{rows_,
                        kVectors,
                        vector_,
                        {},
                        number(packed_ ? block_.rows : 1),
                        function_->getArg(2),
                        number(block_.columns),
                        function_->getArg(5),
                        {}};
    for (int r = 0; r < rows_; ++r) {
      block.left.push_back(
          packed_ ? element(function_->getArg(0), r)
                  : element(function_->getArg(0), builder_.CreateMul(function_->getArg(1), number(r))));
    }
    const auto alignment = llvm::Align(static_cast<std::uint64_t>(target_.vector_width) * sizeof(float));
    block.load = [&](Value* row, int v) {
      return builder_.CreateAlignedLoad(vector_, element(row, v * target_.vector_width), alignment);
    };
    sums_ = multiply(builder_, math_, block);
  }

  /// Returns masks of the lanes of each vector that are columns of c.
  std::vector<Value*> live_lanes() {
    std::vector<llvm::Constant*> lanes;
    for (int lane = 0; lane < target_.vector_width; ++lane)
      lanes.push_back(builder_.getInt32(static_cast<unsigned>(lane)));
    std::vector<Value*> live;
    for (int v = 0; v < kVectors; ++v) {
      Value* left = builder_.CreateTrunc(builder_.CreateSub(columns_, number(v * target_.vector_width)),
                                         builder_.getInt32Ty());
      live.push_back(builder_.CreateICmpSLT(
          llvm::ConstantVector::get(lanes),
          builder_.CreateVectorSplat(static_cast<unsigned>(target_.vector_width), left)));
    }
    return live;
  }

  Value* load(Value* from, int v, const std::vector<Value*>* live) {
    Value* at = element(from, v * target_.vector_width);
    if (live == nullptr) return builder_.CreateAlignedLoad(vector_, at, llvm::Align(4));
    return builder_.CreateMaskedLoad(vector_, at, llvm::Align(4), (*live)[static_cast<std::size_t>(v)],
                                     llvm::Constant::getNullValue(vector_));
  }

  /// Returns `sums`, plus what `more` loads for (row, vector) if `condition` holds.
  template <class More>
  Sums added_if(Value* condition, const Sums& sums, const char* name, const More& more) {
    BasicBlock *before = builder_.GetInsertBlock(), *body = make(name), *after = make("then");
    builder_.CreateCondBr(condition, body, after);
    builder_.SetInsertPoint(body);
    Sums changed;
    for (int r = 0; r < rows_; ++r) {
      for (int v = 0; v < kVectors; ++v)
        changed.push_back(builder_.CreateFAdd(sums[changed.size()], more(r, v)));
    }
    builder_.CreateBr(after);
    builder_.SetInsertPoint(after);
    Sums result;
    for (std::size_t i = 0; i < sums.size(); ++i) {
      PHINode* node = builder_.CreatePHI(vector_, 2);
      node->addIncoming(sums[i], before);
      node->addIncoming(changed[i], body);
      result.push_back(node);
    }
    return result;
  }

  void finish(const std::vector<Value*>& live) { finish(&live); }
  void finish(const std::vector<Value*>* live) {
    const auto row = [&](int r) { return element(c_, builder_.CreateMul(c_row_, number(r))); };
    Sums sums = added_if(add_, sums_, "add", [&](int r, int v) { return load(row(r), v, live); });
    sums = added_if(builder_.CreateIsNotNull(bias_), sums, "bias",
                    [&](int, int v) { return load(bias_, v, live); });
    for (int r = 0; r < rows_; ++r) {
      for (int v = 0; v < kVectors; ++v) {
        Value* to = element(row(r), v * target_.vector_width);
        Value* sum = sums[static_cast<std::size_t>(r * kVectors + v)];
        if (live == nullptr) {
          builder_.CreateAlignedStore(sum, to, llvm::Align(4));
        } else {
          builder_.CreateMaskedStore(sum, to, llvm::Align(4), (*live)[static_cast<std::size_t>(v)]);
        }
      }
    }
    builder_.CreateRetVoid();
  }

  llvm::Module& module_;
  const CpuTarget& target_;
  const ProductBlock block_;
  llvm::IRBuilder<> builder_;
  VectorMath math_;
  llvm::Type* scalar_;
  llvm::FixedVectorType* vector_;
  // The function being emitted, and its values.
  llvm::Function* function_ = nullptr;
  bool packed_ = false;
  int rows_ = 0;
  Value *c_ = nullptr, *c_row_ = nullptr, *columns_ = nullptr, *bias_ = nullptr, *add_ = nullptr;
  Sums sums_;
};

}  // namespace

ProductBlock product_block(const CpuTarget& target) {
  return {target.avx512 ? 14 : 6, std::int64_t{kVectors} * target.vector_width};
}

std::string product_symbol(bool packed, std::int64_t rows) {
  return fmt::format("product_{}_{}", packed ? "packed" : "direct", rows);
}

void emit_product(llvm::Module& module, const CpuTarget& target) {
  ProductEmitter emitter(module, target);
  for (const bool packed : {true, false}) {
    for (int rows = 1; rows <= product_block(target).rows; ++rows) emitter.emit(packed, rows);
  }
  emitter.emit_peak();
  std::string problem;
  llvm::raw_string_ostream stream(problem);
  if (llvm::verifyModule(module, &stream)) internal_error("products: invalid LLVM IR: {}", problem);
}

}  // namespace rewire::codegen::cpu
