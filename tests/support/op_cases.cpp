// Which generator serves which op.
#include "tests/support/op_cases.h"

#include <map>

#include "ir/error.h"
#include "ir/opcodes.h"
#include "tests/support/case_builder.h"

namespace rewire::testing {

// One generator serves a family of ops.
void unary_case(CaseBuilder& c, ir::Opcode code);
void binary_case(CaseBuilder& c, ir::Opcode code);
void logical_case(CaseBuilder& c, ir::Opcode code);
void isfinite_case(CaseBuilder& c, ir::Opcode code);
void cast_case(CaseBuilder& c, ir::Opcode code);
void compare_case(CaseBuilder& c, ir::Opcode code);
void select_case(CaseBuilder& c, ir::Opcode code);

void reduce_case(CaseBuilder& c, ir::Opcode code);
void argmax_case(CaseBuilder& c, ir::Opcode code);
void matmul_case(CaseBuilder& c, ir::Opcode code);

void reshape_case(CaseBuilder& c, ir::Opcode code);
void transpose_case(CaseBuilder& c, ir::Opcode code);
void broadcast_case(CaseBuilder& c, ir::Opcode code);
void slice_case(CaseBuilder& c, ir::Opcode code);
void pad_case(CaseBuilder& c, ir::Opcode code);
void concat_case(CaseBuilder& c, ir::Opcode code);
void gather_case(CaseBuilder& c, ir::Opcode code);
void scatter_add_case(CaseBuilder& c, ir::Opcode code);
void sort_case(CaseBuilder& c, ir::Opcode code);
void iota_case(CaseBuilder& c, ir::Opcode code);
void constant_case(CaseBuilder& c, ir::Opcode code);

void random_case(CaseBuilder& c, ir::Opcode code);
void layer_norm_case(CaseBuilder& c, ir::Opcode code);
void rope_case(CaseBuilder& c, ir::Opcode code);
void softmax_case(CaseBuilder& c, ir::Opcode code);
void activation_case(CaseBuilder& c, ir::Opcode code);
void attention_case(CaseBuilder& c, ir::Opcode code);
void attention_grad_case(CaseBuilder& c, ir::Opcode code);
void cross_entropy_case(CaseBuilder& c, ir::Opcode code);
void dropout_case(CaseBuilder& c, ir::Opcode code);
void residual_case(CaseBuilder& c, ir::Opcode code);

void rfft_case(CaseBuilder& c, ir::Opcode code);
void irfft_case(CaseBuilder& c, ir::Opcode code);
void irfft_pairs_case(CaseBuilder& c, ir::Opcode code);
void circulant_matmul_case(CaseBuilder& c, ir::Opcode code);
void circulant_matmul_grad_case(CaseBuilder& c, ir::Opcode code);

void qr_case(CaseBuilder& c, ir::Opcode code);
void eigh_case(CaseBuilder& c, ir::Opcode code);

void conv2d_case(CaseBuilder& c, ir::Opcode code);
void batch_norm_case(CaseBuilder& c, ir::Opcode code);
void pool_case(CaseBuilder& c, ir::Opcode code);
void unfold_case(CaseBuilder& c, ir::Opcode code);
void resize_case(CaseBuilder& c, ir::Opcode code);

void param_case(CaseBuilder& c, ir::Opcode code);
void update_case(CaseBuilder& c, ir::Opcode code);
void is_training_case(CaseBuilder& c, ir::Opcode code);

namespace {

using ir::Opcode;
using CaseGenerator = void (*)(CaseBuilder&, ir::Opcode);

const std::map<Opcode, CaseGenerator>& generators() {
  static const std::map<Opcode, CaseGenerator> table = {
      {Opcode::neg, unary_case},
      {Opcode::abs, unary_case},
      {Opcode::exp, unary_case},
      {Opcode::log, unary_case},
      {Opcode::sqrt, unary_case},
      {Opcode::rsqrt, unary_case},
      {Opcode::sin, unary_case},
      {Opcode::cos, unary_case},
      {Opcode::tanh, unary_case},
      {Opcode::erf, unary_case},
      {Opcode::sigmoid, unary_case},
      {Opcode::floor, unary_case},
      {Opcode::stop_gradient, unary_case},
      {Opcode::all_reduce, unary_case},
      {Opcode::isfinite, isfinite_case},
      {Opcode::logical_not, logical_case},
      {Opcode::logical_and, logical_case},
      {Opcode::logical_or, logical_case},
      {Opcode::cast, cast_case},
      {Opcode::add, binary_case},
      {Opcode::sub, binary_case},
      {Opcode::mul, binary_case},
      {Opcode::div, binary_case},
      {Opcode::maximum, binary_case},
      {Opcode::minimum, binary_case},
      {Opcode::pow, binary_case},
      {Opcode::compare, compare_case},
      {Opcode::select, select_case},
      {Opcode::sum, reduce_case},
      {Opcode::max, reduce_case},
      {Opcode::argmax, argmax_case},
      {Opcode::matmul, matmul_case},
      {Opcode::reshape, reshape_case},
      {Opcode::transpose, transpose_case},
      {Opcode::broadcast, broadcast_case},
      {Opcode::slice, slice_case},
      {Opcode::pad, pad_case},
      {Opcode::concat, concat_case},
      {Opcode::gather, gather_case},
      {Opcode::scatter_add, scatter_add_case},
      {Opcode::sort, sort_case},
      {Opcode::iota, iota_case},
      {Opcode::constant, constant_case},
      {Opcode::rfft, rfft_case},
      {Opcode::irfft, irfft_case},
      {Opcode::rfft_pairs, rfft_case},
      {Opcode::irfft_pairs, irfft_pairs_case},
      {Opcode::random_uniform, random_case},
      {Opcode::random_normal, random_case},
      {Opcode::layer_norm, layer_norm_case},
      {Opcode::rms_norm, layer_norm_case},
      {Opcode::rope, rope_case},
      {Opcode::softmax, softmax_case},
      {Opcode::gelu, activation_case},
      {Opcode::silu, activation_case},
      {Opcode::relu, activation_case},
      {Opcode::attention, attention_case},
      {Opcode::attention_grad, attention_grad_case},
      {Opcode::cross_entropy, cross_entropy_case},
      {Opcode::dropout, dropout_case},
      {Opcode::drop_path, dropout_case},
      {Opcode::circulant_matmul, circulant_matmul_case},
      {Opcode::circulant_matmul_grad, circulant_matmul_grad_case},
      {Opcode::conv2d, conv2d_case},
      {Opcode::conv2d_input_grad, conv2d_case},
      {Opcode::conv2d_weight_grad, conv2d_case},
      {Opcode::qr, qr_case},
      {Opcode::eigh, eigh_case},
      {Opcode::batch_norm, batch_norm_case},
      {Opcode::max_pool, pool_case},
      {Opcode::avg_pool, pool_case},
      {Opcode::unfold, unfold_case},
      {Opcode::resize, resize_case},
      {Opcode::residual, residual_case},
      {Opcode::param, param_case},
      {Opcode::update, update_case},
      {Opcode::is_training, is_training_case},
  };
  return table;
}

/// FNV-1a. Ops draw apart, so that one seed gives each op another shape; and by name, so that an op that is
/// added changes no other's cases.
std::uint64_t name_hash(std::string_view name) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash;
}

}  // namespace

bool has_op_case(Opcode code) {
  return generators().contains(code);
}

OpCase random_op_case(Opcode code, std::uint64_t seed) {
  const auto found = generators().find(code);
  if (found == generators().end()) internal_error("no op case for '{}'", ir::opcode_name(code));
  CaseBuilder builder(seed + name_hash(ir::opcode_name(code)));
  found->second(builder, code);
  return builder.finish();
}

}  // namespace rewire::testing
