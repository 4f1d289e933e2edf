// Nearest neighbours against a loop over all pairs, in double precision.
#include "runtime/measure/knn.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "ir/error.h"
#include "ir/philox.h"
#include "tests/support/catch.h"
#include "tests/support/message_of.h"

namespace rewire::test {
namespace {

struct LabelledRows {
  std::vector<float> rows;
  std::vector<std::int64_t> labels;
};

/// Around one centre a class, far enough apart that neighbours tell something, and near enough that they err.
LabelledRows rows_around_centres(std::size_t count, std::size_t width, std::size_t classes,
                                 const char* name) {
  const ir::PhiloxStream centres{3, 0, ir::stream_hash("centres")}, noise{3, 0, ir::stream_hash(name)};
  LabelledRows made;
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t label = (i * 7 + 1) % classes;
    made.labels.push_back(static_cast<std::int64_t>(label));
    for (std::size_t j = 0; j < width; ++j)
      made.rows.push_back(
          static_cast<float>(centres.normal(label * width + j) + 2 * noise.normal(i * width + j)));
  }
  return made;
}

/// The definition: all cosines, the k largest of a stable sort, votes exp(s / t), classes in a stable order of votes.
runtime::KnnAccuracy by_all_pairs(const LabelledRows& bank, const LabelledRows& queries, std::size_t width,
                                  std::size_t k, double t, std::size_t classes) {
  runtime::KnnAccuracy found;
  const auto cosine = [&](std::size_t q, std::size_t b) {
    double qq = 0, bb = 0, qb = 0;
    for (std::size_t j = 0; j < width; ++j) {
      const double x = static_cast<double>(queries.rows[q * width + j]),
                   y = static_cast<double>(bank.rows[b * width + j]);
      qq += x * x, bb += y * y, qb += x * y;
    }
    return qb / std::sqrt(qq * bb);
  };
  for (std::size_t q = 0; q < queries.labels.size(); ++q) {
    std::vector<double> cosines;
    for (std::size_t b = 0; b < bank.labels.size(); ++b) cosines.push_back(cosine(q, b));
    std::vector<std::size_t> order(cosines.size()), by_votes(classes);
    std::iota(order.begin(), order.end(), 0U);
    std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) { return cosines[a] > cosines[b]; });
    std::vector<double> votes(classes);
    for (std::size_t i = 0; i < std::min(k, order.size()); ++i)
      votes[static_cast<std::size_t>(bank.labels[order[i]])] += std::exp(cosines[order[i]] / t);
    std::iota(by_votes.begin(), by_votes.end(), 0U);
    std::ranges::stable_sort(by_votes, [&](std::size_t a, std::size_t b) { return votes[a] > votes[b]; });
    const auto place =
        std::ranges::find(by_votes, static_cast<std::size_t>(queries.labels[q])) - by_votes.begin();
    found.top1 += place < 1 ? 1 : 0, found.top5 += place < 5 ? 1 : 0;
  }
  const auto all = static_cast<double>(queries.labels.size());
  return {found.top1 / all, found.top5 / all};
}

TEST_CASE(
    "Nearest neighbours vote as the definition over all pairs has it, across blocks and in narrow banks") {
  constexpr std::size_t kFeatures = 9, kClasses = 8;
  // More queries than one block has, and once more rows than a block of the bank.
  for (const std::size_t rows : {5U, 700U, 8500U}) {
    const LabelledRows bank = rows_around_centres(rows, kFeatures, kClasses, "bank"),
                       queries = rows_around_centres(150, kFeatures, kClasses, "queries");
    for (const std::size_t k : {1U, 20U}) {
      CAPTURE(rows, k);
      const runtime::KnnAccuracy expected = by_all_pairs(bank, queries, kFeatures, k, .07, kClasses);
      const runtime::KnnAccuracy found =
          runtime::knn_accuracy(bank.rows, bank.labels, queries.rows, queries.labels, kFeatures,
                                {.neighbours = static_cast<std::int64_t>(k), .classes = kClasses});
      CHECK(found.top1 == expected.top1);
      CHECK(found.top5 == expected.top5);
      CHECK(found.top1 > 1.0 / kClasses);
      CHECK(found.top1 < 1);
    }
  }
}

TEST_CASE(
    "Of equal neighbours the first counts, of equal votes the lower class; a row of zeros is near to none") {
  // Lengths do not matter, directions do.
  const std::vector<float> bank = {2, 0, 5, 0, 0, 3, 0, 0};
  const std::vector<std::int64_t> bank_labels = {3, 1, 0, 2};
  const std::vector<float> query = {.5F, 0};
  const auto top1 = [&](std::int64_t neighbours, std::int64_t label) {
    return runtime::knn_accuracy(bank, bank_labels, query, std::vector{label}, 2,
                                 {.neighbours = neighbours, .classes = 6})
        .top1;
  };
  CHECK(top1(1, 3) == 1);  // rows 0 and 1 are as near
  CHECK(top1(2, 1) == 1);  // both vote alike: class 1 before 3
  CHECK(top1(2, 3) == 0);
  CHECK(top1(4, 1) == 1);  // rows of product 0 vote exp(-1 / .07) as much
  // Five classes are ahead of the last, four of the one before.
  const auto top5 = [&](std::int64_t label) {
    return runtime::knn_accuracy(bank, bank_labels, query, std::vector{label}, 2,
                                 {.neighbours = 4, .classes = 6})
        .top5;
  };
  CHECK(top5(4) == 1);
  CHECK(top5(5) == 0);
}

TEST_CASE("What cannot be compared is refused") {
  const std::vector<float> rows = {1, 2};
  const std::vector<std::int64_t> labels = {0};
  const auto message = [&](std::vector<float> bank, std::vector<std::int64_t> bank_labels,
                           const runtime::KnnOptions& options) {
    return message_of<UserError>([&] { runtime::knn_accuracy(bank, bank_labels, rows, labels, 2, options); });
  };
  CHECK(message(rows, labels, {.neighbours = 0, .classes = 1}) ==
        "nearest neighbours: the number of neighbours is 0; it must be at least 1");
  CHECK(message(rows, labels, {.temperature = 0, .classes = 1}) ==
        "nearest neighbours: the temperature is 0; it must be above 0");
  CHECK(message({}, {}, {.classes = 1}) == "nearest neighbours: there are no rows of the bank");
  CHECK(message(rows, {4}, {.classes = 4}) ==
        "nearest neighbours: a label of the bank is 4; there are 4 classes, counted from 0");
  CHECK(message({1, std::numeric_limits<float>::infinity()}, labels, {.classes = 1}) ==
        "nearest neighbours: row 0 of the bank has a number that is not finite");
}

}  // namespace
}  // namespace rewire::test
