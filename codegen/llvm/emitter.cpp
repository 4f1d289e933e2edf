// Emits functions, the loops over instances and rows, and carried values.
#include "codegen/llvm/emitter.h"

#include <llvm/BinaryFormat/Dwarf.h>
#include <llvm/IR/DIBuilder.h>
#include <llvm/IR/Verifier.h>
#include <llvm/Support/raw_ostream.h>

#include "codegen/tile/walk.h"
#include "ir/error.h"

namespace rewire::codegen::cpu {

using llvm::Value;
using tile::TileValue;

Emitter::Emitter(llvm::Module& module, const LoopProgram& program, const CpuTarget& target, bool trace)
    : module_(module),
      context_(module.getContext()),
      program_(program),
      target_(target),
      width_(program.vector_width),
      trace_(trace),
      builder_(context_),
      math_(builder_, target_),
      convert_(builder_),
      indices_(program.kernel.axes.size()) {
  llvm::FastMathFlags flags;
  flags.setAllowContract();
  builder_.setFastMathFlags(flags);
}

void Emitter::emit(const std::string& symbol) {
  function_ = declare_body(symbol);
  if (trace_) begin_trace(symbol);
  locals_ = llvm::BasicBlock::Create(context_, "locals", function_);
  llvm::BasicBlock* start = llvm::BasicBlock::Create(context_, "start", function_);
  builder_.SetInsertPoint(start);
  emit_instances(function_);
  builder_.CreateRetVoid();
  builder_.SetInsertPoint(locals_);
  builder_.CreateBr(start);
  emit_entry(symbol, function_);
  if (trace_) end_trace();
  std::string problem;
  llvm::raw_string_ostream stream(problem);
  if (llvm::verifyModule(module_, &stream)) {
    internal_error("tile kernel {}: invalid LLVM IR: {}", program_.kernel.name, problem);
  }
}

/// Makes the function, file and unit that a debug location needs. None of them is written anywhere.
void Emitter::begin_trace(const std::string& symbol) {
  module_.addModuleFlag(llvm::Module::Warning, "Debug Info Version", llvm::DEBUG_METADATA_VERSION);
  llvm::DIBuilder debug(module_);
  llvm::DIFile* file = debug.createFile("tile", "");
  debug.createCompileUnit(llvm::dwarf::DW_LANG_C, file, "rewire", true, "", 0);
  traced_ = debug.createFunction(file, symbol, symbol, file, 1,
                                 debug.createSubroutineType(debug.getOrCreateTypeArray({})), 1,
                                 llvm::DINode::FlagZero, llvm::DISubprogram::SPFlagDefinition);
  function_->setSubprogram(traced_);
  debug.finalize();
}

/// Removes debug locations from helpers. They are not part of the body, so a location there would belong to
/// another function.
void Emitter::end_trace() {
  for (llvm::Function& function : module_) {
    if (&function == function_) continue;
    for (llvm::BasicBlock& block : function) {
      for (llvm::Instruction& instruction : block) instruction.setDebugLoc({});
    }
  }
}

void Emitter::set_attributes(llvm::Function& function) const {
  function.addFnAttr(llvm::Attribute::NoUnwind);
  function.addFnAttr("prefer-vector-width", target_.avx512 ? "512" : "256");
}

/// Declares the body (arguments…, begin, end, scratch); its pointers do not alias.
llvm::Function* Emitter::declare_body(const std::string& symbol) {
  const std::size_t count = program_.kernel.arguments.size();
  std::vector<llvm::Type*> types(count, builder_.getPtrTy());
  types.insert(types.end(), {builder_.getInt64Ty(), builder_.getInt64Ty(), builder_.getPtrTy()});
  auto* function = llvm::Function::Create(llvm::FunctionType::get(builder_.getVoidTy(), types, false),
                                          llvm::Function::InternalLinkage, symbol + ".body", module_);
  set_attributes(*function);
  const auto decorate = [&](unsigned parameter) {
    function->addParamAttr(parameter, llvm::Attribute::NoAlias);
    function->addParamAttr(parameter, llvm::Attribute::NonNull);
    function->addParamAttr(parameter, llvm::Attribute::getWithAlignment(context_, llvm::Align(64)));
  };
  for (std::size_t i = 0; i < count; ++i) {
    decorate(static_cast<unsigned>(i));
    arguments_.push_back(function->getArg(static_cast<unsigned>(i)));
    arguments_.back()->setName(program_.kernel.arguments[i].name);
  }
  decorate(static_cast<unsigned>(count) + 2);
  scratch_ = function->getArg(static_cast<unsigned>(count) + 2);
  scratch_->setName("scratch");
  return function;
}

/// Emits void symbol(ptr* arguments, i64 begin, i64 end, ptr scratch), which calls the body.
void Emitter::emit_entry(const std::string& symbol, llvm::Function* body) {
  llvm::Type* pointer = builder_.getPtrTy();
  llvm::Type* i64 = builder_.getInt64Ty();
  auto* entry = llvm::Function::Create(
      llvm::FunctionType::get(builder_.getVoidTy(), {pointer, i64, i64, pointer}, false),
      llvm::Function::ExternalLinkage, symbol, module_);
  entry->addFnAttr(llvm::Attribute::NoUnwind);
  builder_.SetInsertPoint(llvm::BasicBlock::Create(context_, "entry", entry));
  std::vector<Value*> values;
  for (std::size_t i = 0; i < program_.kernel.arguments.size(); ++i) {
    values.push_back(builder_.CreateLoad(pointer, builder_.CreateConstGEP1_64(pointer, entry->getArg(0), i)));
  }
  values.insert(values.end(), {entry->getArg(1), entry->getArg(2), entry->getArg(3)});
  builder_.CreateCall(body, values);
  builder_.CreateRetVoid();
}

void Emitter::emit_instances(llvm::Function* function) {
  for (const Slot& slot : program_.slots) {
    if (slot.registers) {
      llvm::Type* type =
          type_of(slot.dtype == ir::DType::i1 ? ir::DType::u8 : slot.dtype, !slot.lanes.empty());
      const std::int64_t vectors = slot.lanes.empty() ? 1 : program_.slot_extents(slot)[0] / width_;
      slots_.push_back(
          local(slot.lanes.empty() ? type : llvm::ArrayType::get(type, static_cast<std::uint64_t>(vectors)),
                "slot"));
    } else {
      slots_.push_back(builder_.CreateConstInBoundsGEP1_64(builder_.getInt8Ty(), scratch_,
                                                           static_cast<std::uint64_t>(slot.offset), "slot"));
    }
  }
  const auto count = static_cast<unsigned>(arguments_.size());
  loop(function->getArg(count), function->getArg(count + 1), 1,
       [&](Value* instance) { emit_instance(instance); });
}

void Emitter::emit_instance(Value* instance) {
  Value* partitions = builder_.getInt64(static_cast<std::uint64_t>(program_.kernel.partitions));
  partition_ = builder_.CreateURem(instance, partitions, "part");
  decompose(builder_.CreateUDiv(instance, partitions), tile::AxisUse::outer);
  Environment environment;
  environment.before = environment.inside = mark();
  environment_ = &environment;
  look_ahead(instance);
  emit_block(program_.prologue);
  if (!program_.kernel.body.empty() || !program_.kernel.carried.empty()) emit_rows();
  emit_block(program_.epilogue);
  environment_ = nullptr;
}

/// Computes the indices of the axes of one use from their row-major linear index.
void Emitter::decompose(Value* linear, tile::AxisUse use) {
  for (std::size_t axis = program_.kernel.axes.size(); axis-- > 0;) {
    if (program_.kernel.axes[axis].use != use) continue;
    bool outermost = true;
    for (std::size_t other = 0; other < axis; ++other)
      outermost = outermost && program_.kernel.axes[other].use != use;
    Value* extent = builder_.getInt64(static_cast<std::uint64_t>(program_.kernel.axes[axis].extent));
    indices_[axis] = outermost ? linear : builder_.CreateURem(linear, extent);
    if (!outermost) linear = builder_.CreateUDiv(linear, extent);
  }
}

void Emitter::emit_rows() {
  if (program_.kernel.bounds || !program_.kernel.short_tiles.empty())
    internal_error("tile kernel {}: row bounds and short tiles are a GPU's", program_.kernel.name);
  for (std::size_t i = 0; i < program_.kernel.carried.size(); ++i) {
    const tile::Carried& carried = program_.kernel.carried[i];
    if (!program_.info(carried.initial).lanes.empty()) continue;
    builder_.CreateStore(read(carried.initial, 0),
                         slots_[static_cast<std::size_t>(program_.carried_slots[i])]);
  }
  Value* rows = builder_.getInt64(static_cast<std::uint64_t>(program_.kernel.rows_per_partition()));
  Value* all = builder_.getInt64(static_cast<std::uint64_t>(program_.kernel.row_count()));
  Value* begin = builder_.CreateMul(partition_, rows);
  Value* end = builder_.CreateAdd(begin, rows);
  end = builder_.CreateSelect(builder_.CreateICmpULT(end, all), end, all);
  Environment row;
  row.kind = Environment::Kind::row;
  row.around = environment_;
  row.before = mark();
  const auto one = [&](Value* index) {
    decompose(index, tile::AxisUse::row);
    row.inside = mark();
    environment_ = &row;
    load_carried(row);
    emit_row();
    environment_ = row.around;
  };
  if (const std::vector<std::int32_t> sums = long_sums(); !sums.empty()) {
    chained_rows(begin, end, sums, one);
  } else {
    loop(begin, end, 1, one);
  }
  for (std::size_t i = 0; i < program_.kernel.carried.size(); ++i) {
    const TileValue last = program_.kernel.carried[i].last;
    if (!program_.info(last).lanes.empty()) continue;
    environment_->scalars[last.id] =
        builder_.CreateLoad(type_of(program_.info(last).dtype, false),
                            slots_[static_cast<std::size_t>(program_.carried_slots[i])]);
  }
}

/// Emits a row. If all its conditions are false, a branch skips the rest of the row.
void Emitter::emit_row() {
  std::size_t known = 0;
  Value* meets = builder_.getFalse();
  llvm::BasicBlock* skipped = nullptr;
  for (const Step& step : program_.body) {
    emit_step(step);
    for (const TileValue condition : program_.row_conditions) {
      if (step.node != program_.plan(condition).node) continue;
      meets = builder_.CreateOr(meets, read(condition, 0));
      if (++known < program_.row_conditions.size()) continue;
      llvm::BasicBlock* counts = llvm::BasicBlock::Create(context_, "counts", function_);
      skipped = llvm::BasicBlock::Create(context_, "skipped", function_);
      builder_.CreateCondBr(meets, counts, skipped);
      builder_.SetInsertPoint(counts);
    }
  }
  store_carried();
  if (skipped == nullptr) return;
  builder_.CreateBr(skipped);
  builder_.SetInsertPoint(skipped);
}

void Emitter::load_carried(Environment& row) {
  for (std::size_t i = 0; i < program_.kernel.carried.size(); ++i) {
    const TileValue entry = program_.kernel.carried[i].entry;
    if (!program_.info(entry).lanes.empty()) continue;
    row.scalars[entry.id] = builder_.CreateLoad(type_of(program_.info(entry).dtype, false),
                                                slots_[static_cast<std::size_t>(program_.carried_slots[i])]);
  }
}

void Emitter::store_carried() {
  for (std::size_t i = 0; i < program_.kernel.carried.size(); ++i) {
    const TileValue next = program_.kernel.carried[i].next;
    if (!program_.info(next).lanes.empty()) continue;
    builder_.CreateStore(read(next, 0), slots_[static_cast<std::size_t>(program_.carried_slots[i])]);
  }
  for (const SlotCopy& copy : program_.copies) copy_slot(copy);
}

void Emitter::loop(Value* begin, Value* end, std::int64_t step, const std::function<void(Value*)>& body) {
  llvm::BasicBlock* before = builder_.GetInsertBlock();
  llvm::BasicBlock* inside = llvm::BasicBlock::Create(context_, "loop", function_);
  llvm::BasicBlock* after = llvm::BasicBlock::Create(context_, "after", function_);
  builder_.CreateCondBr(builder_.CreateICmpSLT(begin, end), inside, after);
  builder_.SetInsertPoint(inside);
  llvm::PHINode* index = builder_.CreatePHI(builder_.getInt64Ty(), 2, "i");
  index->addIncoming(begin, before);
  body(index);
  Value* next = builder_.CreateNSWAdd(index, builder_.getInt64(static_cast<std::uint64_t>(step)));
  index->addIncoming(next, builder_.GetInsertBlock());
  builder_.CreateCondBr(builder_.CreateICmpSLT(next, end), inside, after);
  builder_.SetInsertPoint(after);
}

/// Ends the basic block here. Returns the branch: code can be placed before it later.
llvm::Instruction* Emitter::mark() {
  llvm::BasicBlock* next = llvm::BasicBlock::Create(context_, "", function_);
  llvm::Instruction* branch = builder_.CreateBr(next);
  builder_.SetInsertPoint(next);
  return branch;
}

llvm::Type* Emitter::type_of(ir::DType dtype, bool vector) const {
  llvm::Type* type = register_type(context_, dtype);
  return vector ? llvm::FixedVectorType::get(type, static_cast<unsigned>(width_)) : type;
}

Value* Emitter::constant_of(ir::DType dtype, bool vector, double value) const {
  llvm::Type* type = type_of(dtype, vector);
  if (dtype == ir::DType::i1) return llvm::ConstantInt::get(type, value != 0 ? 1 : 0);
  if (ir::is_integer(dtype)) {
    return llvm::ConstantInt::get(type, static_cast<std::uint64_t>(static_cast<std::int64_t>(value)), true);
  }
  return llvm::ConstantFP::get(type, value);
}

llvm::AllocaInst* Emitter::local(llvm::Type* type, const char* name) {
  const llvm::IRBuilderBase::InsertPointGuard guard(builder_);
  builder_.SetInsertPoint(locals_);
  return builder_.CreateAlloca(type, nullptr, name);
}

}  // namespace rewire::codegen::cpu
