// The parts that all kernels of attention are written from, node by node: axes, tiles of queries and keys in
// memory, masks, and rounding for tensor cores. attention.cpp and attention_walks.cpp write the kernels.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "codegen/tile/attention.h"

namespace rewire::codegen::tile {

/// A part of the queries or keys: `tiles` tiles of `size` from token `first` on.
struct Part {
  std::int64_t first = 0, tiles = 1, size = 1;
  std::int64_t end() const { return first + tiles * size; }
};

constexpr double kUnseen = -1e30;  // the logit of a key that the query does not see

/// How an instance goes through its head.
struct AttentionWalk {
  bool keys_first = false;  // values that have both query and key lanes have the keys as rows
  bool groups = false;      // the query heads of a key head are rows, not outer
  // The tiles of keys or of queries are rows. What the other side needs is in the prologue.
  bool keys = false, queries = false;
};

class AttentionNodes {
 protected:
  using Lanes = std::vector<std::int32_t>;

  /// Query tokens are the lanes m, key tokens the lanes n; each is a tile of its part. Parts that are longer
  /// than the tokens have short tiles.
  AttentionNodes(const AttentionShape& shape, std::string name, const Part& queries, const Part& keys,
                 const AttentionWalk& walk);

  std::int32_t axis(std::string name, std::int64_t extent, AxisUse use);
  std::int32_t argument(std::string name, ArgumentUse use);
  std::int32_t argument(std::string name, ArgumentUse use, ir::DType dtype);
  TileValue value(Lanes lanes, ir::DType dtype = ir::DType::f32);
  const Lanes& lanes(TileValue of) const;
  bool has_rows() const;
  /// Returns the section that the nodes of one side's tokens belong to.
  std::vector<Node>& section_of(std::int32_t token);
  static std::int64_t& stride(Access& access, std::int32_t axis);
  /// Adds the steps along the token axis `token` (m or n) of its tile, and along the heads.
  void walk(Access& access, std::int32_t token, std::int64_t by) const;
  void walk_heads(Access& access, const AttentionView& view, bool of_queries) const;
  Access start(std::int32_t argument, const AttentionView& view) const;
  /// Returns an access of a [token] or [token, channel] tile, whose lanes these are.
  Access access(std::int32_t argument, const AttentionView& view, std::int32_t token, const Lanes& of) const;
  TileValue load(const Access& from, Lanes of, ir::DType dtype = ir::DType::f32);
  TileValue load(std::int32_t argument, const AttentionView& view, std::int32_t token, const Lanes& of);
  void store(std::int32_t argument, const AttentionView& view, std::int32_t token, TileValue what);
  /// Stores the sums of a result over its tokens.
  void store_sums(const char* name, const AttentionView& view, std::int32_t token, TileValue what);
  /// Prepares the sum of dv or dk over rows, or one that begins with what memory holds.
  void begin_sum(std::int32_t argument, const AttentionView& view, const Lanes& of, bool loads);
  /// Adds to that sum, and stores it at the end. Without one, stores the value.
  void sum_up(std::int32_t argument, const AttentionView& view, TileValue what);
  /// Adds the bias to the logits, and takes out the keys that a query does not see.
  TileValue seen(TileValue s);
  /// Returns the numbers of a tile's tokens, in i32.
  TileValue token_number(std::int32_t token);
  /// Computes D for the tile's queries. `kept`: stores it too.
  TileValue row_sums(TileValue go, std::int32_t output, bool kept);
  TileValue read_row_sums();
  /// Returns the layout of D in memory: a dense [batch, heads, queries].
  AttentionView dense_rows() const;
  TileValue constant(double number, Lanes of = {}, ir::DType dtype = ir::DType::f32);
  TileValue op(ir::Opcode code, std::vector<TileValue> operands, ir::DType dtype = ir::DType::f32,
               std::string direction = "");
  TileValue scaled(TileValue operand, double by);
  /// A narrow kernel's exponents are those of two, which a GPU computes in one instruction. unit() is what
  /// they are multiplied by for that, and power() returns the power.
  double unit() const;
  TileValue power(TileValue exponent);
  /// Rounds a value to bf16, if tensor cores are to multiply it.
  TileValue narrow(TileValue operand);
  TileValue reduce(ReduceKind kind, TileValue operand, std::int32_t over);
  TileValue dot(TileValue a, TileValue b, std::int32_t contract);

  const AttentionShape& shape_;
  const Part queries_, keys_;
  const AttentionWalk walk_;
  Kernel kernel_;
  std::vector<Node>* nodes_ = &kernel_.prologue;  // the section that is being written
  std::map<std::int32_t, TileValue> sums_;        // by argument: dv and dk so far
  std::int32_t batch_ = 0, head_ = 0, group_ = -1, query_tile_ = 0, key_tile_ = 0;
  std::int32_t m_ = 0, n_ = 0, d_ = 0, e_ = 0;
};

/// Returns "attention_8x12_128x64x64": batch, heads, queries and keys of a tile, channels.
std::string attention_name(const char* what, const AttentionShape& shape, const Part& queries,
                           const Part& keys);

}  // namespace rewire::codegen::tile
