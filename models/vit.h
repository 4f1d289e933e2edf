// The vision transformer as timm builds it; see vit.cpp. Callers go through models/model.h.
#pragma once

#include <cstdint>

#include "ir/module.h"
#include "models/model.h"

namespace rewire::models {

/// `options` are valid (models::build has checked them).
ir::Module build_vit(const ModelOptions& options, std::int64_t batch);

}  // namespace rewire::models
