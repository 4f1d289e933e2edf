#include "models/parameters.h"

#include <string>

namespace rewire::models {

ir::ParameterSpec dim_parameter(std::int64_t default_value) {
  return ir::int_parameter("dim", default_value, "width of the residual stream; a multiple of heads")
      .at_least(1)
      .at_most(65536);
}

ir::ParameterSpec depth_parameter(std::int64_t default_value) {
  return ir::int_parameter("depth", default_value, "number of blocks").at_least(1).at_most(4096);
}

ir::ParameterSpec heads_parameter(std::int64_t default_value) {
  return ir::int_parameter("heads", default_value, "attention heads per block; a divisor of dim")
      .at_least(1)
      .at_most(65536);
}

ir::ParameterSpec mlp_ratio_parameter(double default_value) {
  return ir::float_parameter("mlp_ratio", default_value, "hidden width of the MLP divided by dim")
      .above(0)
      .at_most(64);
}

ir::ParameterSpec patch_parameter(std::int64_t default_value) {
  return ir::int_parameter("patch", default_value, "side of a patch in pixels; a divisor of image")
      .at_least(1)
      .at_most(16384);
}

ir::ParameterSpec image_parameter(std::int64_t default_value, std::string_view needs) {
  return ir::int_parameter("image", default_value, "side of an input image in pixels" + std::string(needs))
      .at_least(1)
      .at_most(16384);
}

ir::ParameterSpec channels_parameter(std::int64_t default_value) {
  return ir::int_parameter("channels", default_value, "channels of an input image").at_least(1).at_most(4096);
}

ir::ParameterSpec classes_parameter() {
  return ir::int_parameter("classes", 10, "number of classes; 0: no head, the result is the head's input")
      .at_least(0)
      .at_most(1e7);
}

ir::ParameterSpec drop_path_parameter() {
  return ir::float_parameter(
             "drop_path", 0,
             "stochastic depth: drop rate of the last block; rates grow linearly from 0 at the first")
      .at_least(0)
      .below(1);
}

ir::ParameterSpec stage_depths_parameter() {
  return ir::list_parameter("depths", {2, 2, 2, 2}, "number of blocks, per stage").at_least(1).at_most(1024);
}

ir::ParameterSpec stage_width_parameter() {
  return ir::int_parameter("width", 64, "channels of the first stage; each later stage has twice as many")
      .at_least(1)
      .at_most(8192);
}

}  // namespace rewire::models
