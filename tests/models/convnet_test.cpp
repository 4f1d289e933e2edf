// The residual networks of convolutions: what papers print of them, names, shapes and joins, and what is refused.
#include <algorithm>

#include "ir/error.h"
#include "ir/ops/work.h"
#include "ir/residual.h"
#include "ir/verify.h"
#include "models/model.h"
#include "tests/support/catch.h"

namespace rewire::models {
namespace {

std::int64_t trained_weights(const ir::Module& module) {
  std::int64_t count = 0;
  for (const ir::Parameter& p : module.parameters) count += p.trainable ? p.type.elements() : 0;
  return count;
}

ir::Selection small_net(const char* name) {
  ir::Selection net{name};
  net.set("width", std::int64_t{4}).set("depths", ir::Doubles{1, 2}).set("image", std::int64_t{16});
  return net;
}

TEST_CASE("Convolutional networks have the weights and multiply-adds that papers print") {
  struct Row {
    const char* name;
    std::int64_t image;
    double millions, gmacs;  // as printed
  };
  // Oh et al.: 10 classes of 32 pixels, and four times the work at 64; printed to the last digit.
  for (const Row& row : {Row{"resnetv2_18", 32, 11.2, 0.56}, Row{"resnetv2_34", 32, 21.3, 1.16},
                         Row{"resnetv2_50", 32, 23.5, 1.22}, Row{"resnetv2_101", 32, 42.6, 2.43},
                         Row{"resnetv2_18", 64, 11.2, 4 * 0.56}, Row{"resnetv2_34", 64, 21.3, 4 * 1.16},
                         Row{"resnetv2_50", 64, 23.5, 4 * 1.22}, Row{"resnetv2_101", 64, 42.6, 4 * 2.43},
                         Row{"resnet18", 224, 11.2, 1.81}}) {
    CAPTURE(row.name, row.image);
    ir::Selection selection{row.name};
    const ir::Module module = build(selection.set("image", row.image), 1);
    CHECK(std::abs(static_cast<double>(trained_weights(module)) * 1e-6 - row.millions) <= 0.05);
    CHECK(std::abs(ir::multiply_adds(module.function("forward")) * 1e-9 - row.gmacs) <=
          0.005 * std::max(1.0, static_cast<double>(row.image * row.image) / 1024));
  }
  // timm's resnetv2_50 has 25.55 million weights with 1000 classes.
  ir::Selection timm{"resnetv2_50"};
  timm.set("form", std::string("timm")).set("image", std::int64_t{224}).set("classes", std::int64_t{1000});
  CHECK(trained_weights(build(timm, 1)) == 25549352);
}

TEST_CASE(
    "Each block that the depth study adds to the third stage has two 3 x 3 convolutions of 256 channels") {
  const auto weights = [](double blocks) {
    ir::Selection net{"resnet18_depth"};
    return trained_weights(build(net.set("depths", ir::Doubles{2, 2, blocks, 2}), 1));
  };
  const std::int64_t least = trained_weights(build({"resnet18"}, 1));
  for (int blocks = 2; blocks <= 10; ++blocks)
    CHECK(weights(blocks) == least + (blocks - 2) * 2 * (256 * 256 * 9 + 2 * 256));
}

TEST_CASE("A convolutional network's joins know their stage, and its norms hand out running statistics") {
  for (const char* name : {"resnetv2_18", "resnetv2_50", "resnet18"}) {
    CAPTURE(name);
    const ir::Module module = build(small_net(name), 3);
    CHECK_NOTHROW(ir::verify(module));
    const ir::Function& forward = module.function("forward");
    CHECK(forward.results.front().name == "logits");
    std::vector<std::int64_t> stages;
    for (const std::size_t at : ir::find_joins(forward)) {
      const ir::Join join = ir::read_join(forward.body[at]);
      stages.push_back(join.stage);
      CHECK(join.site == "conv");
      CHECK(join.channel_axis == 1);
      CHECK(join.join_count == 3);
      CHECK(module.find_parameter(join.last_weight) != nullptr);
    }
    CHECK(stages == std::vector<std::int64_t>{0, 1, 1});
    std::size_t statistics = 0;
    for (const ir::Parameter& p : module.parameters) {
      if (p.kind != ir::StateKind::statistic) continue;
      ++statistics;
      CHECK(std::ranges::count(forward.results, "update." + p.name, &ir::Argument::name) == 1);
    }
    CHECK(statistics + 1 == forward.results.size());
  }
  const ir::Module paper = build(small_net("resnetv2_18"), 1);
  for (const char* name :
       {"stem.conv.bias", "stem.norm.running_var", "stages.1.blocks.0.downsample.conv.weight",
        "stages.1.blocks.1.conv2.weight", "head.fc.weight"})
    CHECK(paper.find_parameter(name) != nullptr);
  CHECK(build(small_net("resnet18"), 1).find_parameter("layer2.0.downsample.1.running_mean") != nullptr);
}

TEST_CASE("What a convolutional network cannot be made of is refused in one line") {
  const auto refusal = [](ir::Selection net, const char* key, ir::Attribute value) {
    net.set(key, std::move(value));
    std::string message;
    try {
      build(net, 1);
    } catch (const UserError& error) {
      message = error.what();
    }
    return message;
  };
  CHECK(refusal(small_net("resnetv2_18"), "image", std::int64_t{1}) ==
        "model.image=1 is too small: stem and stages reduce 2 x 2 pixels to one, so it takes 2 or more; "
        "fewer stages take smaller images");
  CHECK(refusal(small_net("resnet18"), "image", std::int64_t{4}) ==
        "model.image=4 is too small: stem and stages reduce 8 x 8 pixels to one, so it takes 5 or more; "
        "model.stem=conv3 and fewer stages take smaller images");
  ir::Selection timm = small_net("resnetv2_50");
  CHECK(refusal(timm.set("form", std::string("timm")), "head_norm", true) ==
        "model.head_norm=true needs model.form=paper: timm's form has a norm before the pool");
  CHECK(refusal(small_net("resnet18"), "image", std::int64_t{5}).empty());
  CHECK(refusal(small_net("resnetv2_50"), "depths", ir::Doubles{1, 1.5}) ==
        "model.depths has 1.5; it takes whole numbers, one per stage");
  CHECK(refusal(small_net("resnetv2_50"), "depths", ir::Doubles{}).starts_with("model.depths has 0 entries"));
}

}  // namespace
}  // namespace rewire::models
