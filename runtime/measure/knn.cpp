#include "runtime/measure/knn.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "ir/error.h"
#include "runtime/device/process.h"
#include "runtime/device/thread_pool.h"
#include "runtime/linalg/lapack.h"

namespace rewire::runtime {
namespace {

// Products are computed by blocks of so many queries and rows of the bank, 2 MB at a time. The blocks are
// the same on any number of threads, and so are the products.
constexpr std::size_t kQueryBlock = 64, kBankBlock = 8192;

struct Neighbour {
  float similarity = 0;
  std::size_t row = 0;
};

bool is_nearer(const Neighbour& a, const Neighbour& b) {
  return a.similarity > b.similarity || (a.similarity == b.similarity && a.row < b.row);
}

/// The nearest rows seen so far, the farthest of them first: a heap.
class Nearest {
 public:
  explicit Nearest(std::size_t most) : most_(most) { heap_.reserve(most); }

  void offer(const Neighbour& candidate) {
    if (heap_.size() == most_) {
      if (!is_nearer(candidate, heap_.front())) return;
      std::ranges::pop_heap(heap_, is_nearer);
      heap_.pop_back();
    }
    heap_.push_back(candidate);
    std::ranges::push_heap(heap_, is_nearer);
  }

  std::vector<Neighbour> sorted() && {
    std::ranges::sort(heap_, is_nearer);
    return std::move(heap_);
  }

 private:
  std::size_t most_;
  std::vector<Neighbour> heap_;
};

std::vector<float> unit_rows(std::span<const float> rows, std::size_t width, const char* of) {
  std::vector<float> unit(rows.begin(), rows.end());
  for (std::size_t first = 0; first < unit.size(); first += width) {
    const std::span<float> row = std::span(unit).subspan(first, width);
    double square = 0;
    for (const float x : row) square += static_cast<double>(x) * static_cast<double>(x);
    if (!std::isfinite(square))
      user_error("nearest neighbours: row {} of the {} has a number that is not finite", first / width, of);
    if (square == 0) continue;
    const double length = std::sqrt(square);
    for (float& x : row) x = static_cast<float>(static_cast<double>(x) / length);
  }
  return unit;
}

void check_rows(std::span<const float> rows, std::span<const std::int64_t> labels, std::int64_t width,
                std::int64_t classes, const char* of) {
  if (labels.empty()) user_error("nearest neighbours: there are no rows of the {}", of);
  if (rows.size() != labels.size() * static_cast<std::size_t>(width))
    internal_error("{} numbers for {} rows of {}", rows.size(), labels.size(), width);
  const auto bad = std::ranges::find_if(labels, [&](std::int64_t x) { return x < 0 || x >= classes; });
  if (bad != labels.end())
    user_error("nearest neighbours: a label of the {} is {}; there are {} classes, counted from 0", of, *bad,
               classes);
}

/// Returns how many classes have more votes than the label, or as many votes and a lower number.
std::size_t rank_of_label(const std::vector<Neighbour>& nearest, std::span<const std::int64_t> bank_labels,
                          std::int64_t label, const KnnOptions& options) {
  std::vector<double> votes(static_cast<std::size_t>(options.classes));
  const double largest = static_cast<double>(nearest.front().similarity);
  for (const Neighbour& neighbour : nearest) {
    // Scales all votes by the same factor: the largest is 1, whatever the temperature.
    votes[static_cast<std::size_t>(bank_labels[neighbour.row])] +=
        std::exp((static_cast<double>(neighbour.similarity) - largest) / options.temperature);
  }
  const auto own = static_cast<std::size_t>(label);
  std::size_t rank = 0;
  for (std::size_t c = 0; c < votes.size(); ++c)
    rank += votes[c] > votes[own] || (votes[c] == votes[own] && c < own) ? 1 : 0;
  return rank;
}

/// Returns the nearest rows of the whole bank for a block of queries [count, width].
std::vector<std::vector<Neighbour>> nearest_of(std::span<const float> queries, std::span<const float> bank,
                                               std::size_t width, std::size_t neighbours) {
  const std::size_t count = queries.size() / width, rows = bank.size() / width;
  std::vector<Nearest> found(count, Nearest(neighbours));
  std::vector<float> products;
  for (std::size_t first = 0; first < rows; first += kBankBlock) {
    const std::size_t some = std::min(kBankBlock, rows - first);
    products.resize(count * some);
    row_products(queries, bank.subspan(first * width, some * width), width, products);
    for (std::size_t q = 0; q < count; ++q) {
      for (std::size_t i = 0; i < some; ++i) found[q].offer({products[q * some + i], first + i});
    }
  }
  std::vector<std::vector<Neighbour>> sorted;
  for (Nearest& nearest : found) sorted.push_back(std::move(nearest).sorted());
  return sorted;
}

}  // namespace

KnnAccuracy knn_accuracy(std::span<const float> bank, std::span<const std::int64_t> bank_labels,
                         std::span<const float> queries, std::span<const std::int64_t> query_labels,
                         std::int64_t width, const KnnOptions& options) {
  if (options.neighbours < 1)
    user_error("nearest neighbours: the number of neighbours is {}; it must be at least 1",
               options.neighbours);
  if (!(options.temperature > 0) || !std::isfinite(options.temperature))
    user_error("nearest neighbours: the temperature is {}; it must be above 0", options.temperature);
  if (width < 1) user_error("nearest neighbours: features have {} numbers; they need at least 1", width);
  check_rows(bank, bank_labels, width, options.classes, "bank");
  check_rows(queries, query_labels, width, options.classes, "queries");
  const auto columns = static_cast<std::size_t>(width);
  const std::vector<float> unit_bank = unit_rows(bank, columns, "bank"),
                           unit_queries = unit_rows(queries, columns, "queries");
  const std::size_t neighbours = std::min(static_cast<std::size_t>(options.neighbours), bank_labels.size());
  std::vector<std::size_t> ranks(query_labels.size());
  const auto run_block = [&](std::size_t block) {
    const std::size_t begin = block * kQueryBlock, count = std::min(kQueryBlock, ranks.size() - begin);
    const std::vector<std::vector<Neighbour>> nearest = nearest_of(
        std::span(unit_queries).subspan(begin * columns, count * columns), unit_bank, columns, neighbours);
    for (std::size_t i = 0; i < count; ++i)
      ranks[begin + i] = rank_of_label(nearest[i], bank_labels, query_labels[begin + i], options);
  };
  std::vector<float> first(1);  // so that a missing library is reported on this thread
  row_products(std::span(unit_queries).first(columns), std::span(unit_bank).first(columns), columns, first);
  ThreadPool pool(usable_cores());
  const auto blocks = static_cast<std::int64_t>((ranks.size() + kQueryBlock - 1) / kQueryBlock);
  pool.run(blocks, 1, [&](std::int64_t begin, std::int64_t end, int) {
    for (std::int64_t block = begin; block < end; ++block) run_block(static_cast<std::size_t>(block));
  });
  const auto share = [&](std::size_t most) {
    return static_cast<double>(std::ranges::count_if(ranks, [&](std::size_t rank) { return rank < most; })) /
           static_cast<double>(ranks.size());
  };
  return {share(1), share(5)};
}

}  // namespace rewire::runtime
