// Shared by features, probe and tokencut: the network, its weights, and the kind of features.
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

/// Declares RUN or MODEL, --weights, --layer, --device and `kind_option`, which selects the features and
/// defaults to `request.kind`.
void declare_features(FeatureRequest& request, Options& options, const std::string& kind_option);

/// Opens the backbone. Throws UserError as runtime::Backbone does.
runtime::Backbone open_backbone(const FeatureRequest& request);

}  // namespace rewire::cli
