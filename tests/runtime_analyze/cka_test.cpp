// A diagnostic that Rewire has not got, of all images that are seen: linear CKA (Kornblith et al., ICML 2019) of what a block gives
// and what the block before gives, |Y^T X|^2 / (|X^T X| |Y^T Y|) of columns less their means.
#include <cmath>
#include <map>

#include "models/model.h"
#include "programs/diagnose.h"
#include "programs/diagnostic.h"
#include "runtime/exec/make_engine.h"
#include "runtime/measure/diagnose.h"
#include "runtime/network/weights.h"
#include "tests/support/catch.h"
#include "tests/support/host_noise.h"

namespace rewire::programs {
namespace {

std::vector<double> centred(const SampleRows& place) {
  std::vector<double> matrix = place.data;
  for (std::size_t k = 0; k < place.columns; ++k) {
    double mean = 0;
    for (std::size_t i = k; i < matrix.size(); i += place.columns)
      mean += matrix[i] / static_cast<double>(place.rows());
    for (std::size_t i = k; i < matrix.size(); i += place.columns) matrix[i] -= mean;
  }
  return matrix;
}

/// |Y^T X|^2, by the samples' Gram matrices: the sum of (x_i x_j) (y_i y_j).
double product(const std::vector<double>& x, const std::vector<double>& y, std::size_t rows) {
  double sum = 0;
  for (std::size_t i = 0; i < rows; ++i) {
    for (std::size_t j = 0; j < rows; ++j) {
      double of_x = 0, of_y = 0;
      for (std::size_t k = 0; k < x.size() / rows; ++k)
        of_x += x[i * (x.size() / rows) + k] * x[j * (x.size() / rows) + k];
      for (std::size_t k = 0; k < y.size() / rows; ++k)
        of_y += y[i * (y.size() / rows) + k] * y[j * (y.size() / rows) + k];
      sum += of_x * of_y;
    }
  }
  return sum;
}

const DiagnosticRow kCka{
    .name = "cka",
    .doc = "linear CKA of each block with the one before",
    .of_block =
        [](Observation& seen, const Block& block) {
          if (const ir::Value rows = seen.sample_rows(block)) seen.add_rows(block.name + ".cka", rows);
        },
    .rows = "cka",
    .finish =
        [](std::span<const SampleRows* const> places, const SingularValues&) {
          std::vector<DiagnosticValue> values;
          for (std::size_t i = 1; i < places.size(); ++i) {
            const auto x = centred(*places[i - 1]), y = centred(*places[i]);
            const std::size_t rows = places[i]->rows();
            values.push_back({places[i]->name,
                              product(x, y, rows) / std::sqrt(product(x, x, rows) * product(y, y, rows))});
          }
          return values;
        }};

}  // namespace
}  // namespace rewire::programs

namespace rewire::runtime {
namespace {

TEST_CASE("A diagnostic is one row: CKA of neighbouring blocks over the images of several batches") {
  programs::add_diagnostic(programs::kCka);
  CHECK(programs::parse_diagnostics("rank+cka", "k") == std::vector<std::string>{"rank", "cka"});
  ir::Selection model{"vit"};
  model.set("dim", 18).set("heads", 3).set("depth", 3).set("image", 12).set("patch", 4);
  ir::Module module = models::build(model, 4);
  programs::add_diagnose_program(module, {{"supervised"}, {"cka"}});
  const auto engine = make_engine(engine_names().front(), module);
  start_state(*engine, module, {}, 3);
  const ir::Function& program = module.function("diagnose");
  DiagnoseMeans all(program), first(program);
  std::map<std::string, std::vector<double>> rows;
  for (int seed = 1; seed <= 3; ++seed) {
    TensorMap batch;
    for (const ir::Argument& argument : program.arguments) {
      const ir::TensorType& type = program.type(argument.value);
      HostTensor tensor(type);
      if (type.dtype == ir::DType::f32)
        tensor = testing::noise(type.shape, static_cast<std::uint64_t>(seed), "batch");
      batch.emplace(argument.name, std::move(tensor));
    }
    const TensorMap results = engine->run("diagnose", batch);
    all.add(results);
    if (seed == 1) first.add(results);
    for (const auto& [name, tensor] : results) {
      const std::vector<double> numbers = to_double(tensor).data;
      rows[name].insert(rows[name].end(), numbers.begin(), numbers.end());
    }
  }
  const MetricValues values = all.values();
  REQUIRE(values.size() == 2);
  for (std::size_t i = 0; i < 2; ++i) {
    CHECK(values[i].name == (i == 0 ? "blocks.1.cka" : "blocks.2.cka"));
    // By the columns' products instead.
    const auto sum_of_squares = [](const std::vector<double>& x, const std::vector<double>& y) {
      double sum = 0;
      for (std::size_t p = 0; p < 18; ++p) {
        for (std::size_t q = 0; q < 18; ++q) {
          double dot = 0, mean_x = 0, mean_y = 0;
          for (std::size_t r = 0; r < 12; ++r) {
            dot += x[18 * r + p] * y[18 * r + q];
            mean_x += x[18 * r + p] / 12;
            mean_y += y[18 * r + q] / 12;
          }
          sum += std::pow(dot - 12 * mean_x * mean_y, 2);
        }
      }
      return sum;
    };
    const auto &x = rows.at(i == 0 ? "blocks.0.cka" : "blocks.1.cka"), &y = rows.at(values[i].name);
    REQUIRE(x.size() == 12 * 18);
    const double expected = sum_of_squares(x, y) / std::sqrt(sum_of_squares(x, x) * sum_of_squares(y, y));
    CHECK(values[i].value == Approx(expected).epsilon(1e-9));
    CHECK(values[i].value < 0.9999);
    CHECK(values[i].value != Approx(first.values()[i].value));
  }
}

}  // namespace
}  // namespace rewire::runtime
