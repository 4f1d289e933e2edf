// Reductions along rows of packets; see blocks_row_sums.h.
#include "codegen/cuda/blocks_row_sums.h"

#include <algorithm>
#include <bit>
#include <map>
#include <numeric>

#include "codegen/tile/walk.h"

namespace rewire::codegen::cuda {
namespace {

using tile::Node;
using tile::TileValue;

class RowSumWriter {
 public:
  RowSumWriter(const BlockStep& step, const BlockPlan& plan, const KernelText& text, Lines& lines,
               BlockValues& values)
      : step_(step), plan_(plan), text_(text), lines_(lines), values_(values) {}

  bool write() {
    if (step_.reduced.size() != 1 || step_.lanes.size() != 1) return false;
    packet_ = std::gcd(std::int64_t{8}, columns());
    for (const Node* node : step_.nodes) find_packets(std::get<tile::Reduce>(*node).operand);
    if (packet_ < 2 || packets_.empty()) return false;
    write_rows();
    values_.release_all();
    return true;
  }

 private:
  const tile::Axis& row() const { return text_.axis(step_.lanes[0]); }
  const tile::Axis& column() const { return text_.axis(step_.reduced[0]); }
  std::int64_t columns() const { return column().extent; }
  bool along_the_row(TileValue value) const {
    return tile::contains_lane(text_.info(value).lanes, step_.reduced[0]);
  }

  /// Finds what the sums read along the row (packets_), and the number of neighbours in a packet that suits
  /// all of it (packet_).
  void find_packets(TileValue value) {
    const BlockValue& own = plan_.value(value);
    if (!along_the_row(value)) return;
    const auto* load = own.node == nullptr ? nullptr : std::get_if<tile::Load>(own.node);
    if (own.home == BlockHome::again && load == nullptr) {
      for (TileValue inner : tile::operands_of(*own.node)) find_packets(inner);
    } else if (own.home == BlockHome::again && !load->index) {
      packet_ = std::gcd(packet_, std::max<std::int64_t>(1, text_.packet_of(load->access, step_.reduced[0])));
      packets_[value.id] = {
          fmt::format("{} + {}", text_.argument(load->access.argument), text_.element_index(load->access)),
          text_.stored_dtype(load->access) == ir::DType::bf16};
    } else if (own.home == BlockHome::shared && plan_.array_of(value).narrow &&
               plan_.array_of(value).lanes.back() == step_.reduced[0]) {
      packets_[value.id] = {"&" + values_.place(value), true};
    } else {
      packet_ = 1;
    }
  }

  void write_rows() {
    // `sharers` threads share a row: a power of two that is at most the number of packets, so all are busy.
    const auto packets = static_cast<std::uint64_t>(columns() / packet_);
    const auto sharers = static_cast<std::int64_t>(std::min<std::uint64_t>(std::bit_floor(packets), 32));
    const std::int64_t rows = row().extent, at_once = plan_.threads / sharers;
    const std::string own_row = fmt::format("first + int(threadIdx.x) / {}", sharers);
    lines_.directive("#pragma unroll 4");
    lines_.open("for (int first = 0; first < {}; first += {})", rows, at_once);
    if (rows > 1) lines_.line("const int {} = minimum({}, {});", row().name, own_row, rows - 1);
    for (const Node* node : step_.nodes) {
      const auto& reduce = std::get<tile::Reduce>(*node);
      lines_.line("{} {}_sum = {};", text_.type(reduce.result), text_.name(reduce.result),
                  reduction_start(reduce.kind, text_.info(reduce.result).dtype));
    }
    write_packets(sharers);
    for (const Node* node : step_.nodes) {
      const auto& reduce = std::get<tile::Reduce>(*node);
      const std::string name = text_.name(reduce.result);
      if (sharers > 1)
        lines_.line("{0}_sum = over_threads<{1}, {2}>({0}_sum);", name, reduction_functor(reduce.kind),
                    sharers);
      lines_.line("if ({}{} < {}) {} = {}_sum;",
                  sharers > 1 ? fmt::format("threadIdx.x % {} == 0 && ", sharers) : "", own_row, rows,
                  values_.place(reduce.result), name);
    }
    lines_.close();
  }

  void write_packets(std::int64_t sharers) {
    lines_.open("for (int {0} = int(threadIdx.x) % {1} * {2}; {0} < {3}; {0} += {4})", column().name, sharers,
                packet_, columns(), sharers * packet_);
    for (const auto& [id, packet] : packets_) {
      const std::string name = text_.name({id}) + "_packet";
      lines_.line("const auto {} = {}<{}>({});", name, packet.pairs ? "pairs_at" : "packet_at", packet_,
                  packet.address);
      values_.hold({id}, packet.pairs ? fmt::format("of_pairs({}, e)", name)
                                      : fmt::format("convert<{}>({}.lane[e])", text_.type({id}), name));
    }
    values_.change_scope();
    lines_.directive("#pragma unroll");
    lines_.open("for (int e = 0; e < {}; ++e)", packet_);
    for (const Node* node : step_.nodes) {
      const auto& reduce = std::get<tile::Reduce>(*node);
      lines_.line("{};", accumulate(reduce.kind, text_.info(reduce.result).dtype,
                                    text_.name(reduce.result) + "_sum", values_.read(reduce.operand)));
    }
    lines_.close();
    lines_.close();
    values_.change_scope();
  }

  const BlockStep& step_;
  const BlockPlan& plan_;
  const KernelText& text_;
  Lines& lines_;
  BlockValues& values_;
  std::int64_t packet_ = 1;
  struct Packet {
    std::string address;  // at the axes in scope
    bool pairs = false;   // the elements are pairs of bf16
  };
  std::map<std::int32_t, Packet> packets_;  // by value
};

}  // namespace

bool write_row_sums(const BlockStep& step, const BlockPlan& plan, const KernelText& text, Lines& lines,
                    BlockValues& values) {
  return RowSumWriter(step, plan, text, lines, values).write();
}

}  // namespace rewire::codegen::cuda
