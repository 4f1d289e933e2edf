// What features, probe and tokencut share: which network and weights, and which of its features.
#pragma once

#include <string>

#include "cli/command.h"
#include "cli/engine.h"
#include "runtime/analyze/backbone.h"

namespace rewire::cli {

struct FeatureRequest {
  runtime::BackboneRequest backbone = {};
  EngineRequest engine = {};
  std::vector<std::string> layers = {};
  std::string kind;
};

/// RUN or MODEL, whose weights, --layer, --device; `kind_option` says which features, as `request.kind` has it by default.
void declare_features(FeatureRequest& request, Options& options, const std::string& kind_option);

/// UserError as of runtime::Backbone.
runtime::Backbone open_backbone(const FeatureRequest& request);

}  // namespace rewire::cli
