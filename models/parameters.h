// The parameters that several model families have, each with its bounds and documentation.
#pragma once

#include <cstdint>
#include <string_view>

#include "ir/schema.h"

namespace rewire::models {

ir::ParameterSpec dim_parameter(std::int64_t default_value);
ir::ParameterSpec depth_parameter(std::int64_t default_value);
ir::ParameterSpec heads_parameter(std::int64_t default_value);
ir::ParameterSpec mlp_ratio_parameter(double default_value);
ir::ParameterSpec patch_parameter(std::int64_t default_value);
/// `needs` follows the words, as "; a multiple of 16".
ir::ParameterSpec image_parameter(std::int64_t default_value, std::string_view needs = "");
ir::ParameterSpec channels_parameter(std::int64_t default_value);
/// Classes of a model with a head that 0 leaves out.
ir::ParameterSpec classes_parameter();
ir::ParameterSpec drop_path_parameter();
/// Blocks per stage and channels of the first stage of a residual network of convolutions.
ir::ParameterSpec stage_depths_parameter();
ir::ParameterSpec stage_width_parameter();

}  // namespace rewire::models
