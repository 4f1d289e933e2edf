// rewire data bench: what it counts adds up, and what it is asked wrongly is refused.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "tests/cli/fixture.h"
#include "tests/support/catch.h"

namespace rewire::test {
namespace {

const Words kBench = {"data", "bench", "vit_tiny_28", "--seconds", "1", "--set", "data.format=synthetic"};

TEST_CASE("data bench counts the images of both splits, without padding") {
  const Outcome trained = rewire_command(
      kBench + Words{"--set", "data.count=70", "--set", "train.batch=32", "--threads", "2", "--json"});
  REQUIRE(trained.code == 0);
  const auto train = nlohmann::json::parse(trained.out);
  CHECK(train.at("split") == "train");
  CHECK(train.at("images") == 70);
  CHECK(train.at("batch") == 32);
  CHECK(train.at("threads") == 2);
  const auto& loader = train.at("loader");
  CHECK(loader.at("images") == 32 * loader.at("batches").get<std::int64_t>());
  CHECK(loader.at("seconds") >= 1.0);
  CHECK(loader.at("processor_seconds") > 0.0);
  CHECK(loader.at("images_per_s").get<double>() ==
        Approx(loader.at("images").get<double>() / loader.at("seconds").get<double>()));
  CHECK(loader.at("batch_ms").get<double>() ==
        Approx(1e3 * loader.at("seconds").get<double>() / loader.at("batches").get<double>()));
  CHECK(train.at("one_thread").at("transforms_us") > 0.0);
  CHECK(train.at("one_thread").at("batch_transforms_us") == 0.0);

  const Outcome tested = rewire_command(
      kBench + Words{"--split", "test", "--set", "data.count=70", "--set", "eval.batch=64", "--json"});
  REQUIRE(tested.code == 0);
  const auto test = nlohmann::json::parse(tested.out);
  const auto batches = test.at("loader").at("batches").get<std::int64_t>();
  const auto counted = test.at("loader").at("images").get<std::int64_t>();
  // Passes of 64 images and the 6 that are left; the warm-up is two of them.
  CHECK(test.at("images") == 70);
  CHECK(counted == batches / 2 * 70 + batches % 2 * 64);
}

TEST_CASE("data bench names what it cannot measure") {
  const Outcome split = rewire_command(kBench + Words{"--split", "tset"});
  CHECK(split.code == 2);
  CHECK_THAT(split.err, REWIRE_CATCH_CONTAINS("'tset' is none of train, test"));
  const Outcome missing = rewire_command(
      {"data", "bench", "vit_tiny_28", "--set", "data.format=folder", "--set", "data.path=/no"});
  CHECK(missing.code == 2);
  CHECK(std::count(missing.err.begin(), missing.err.end(), '\n') == 1);
  CHECK_THAT(missing.err, REWIRE_CATCH_CONTAINS("/no/train"));
}

}  // namespace
}  // namespace rewire::test
