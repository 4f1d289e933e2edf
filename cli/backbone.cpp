#include "cli/backbone.h"

#include "cli/network.h"

namespace rewire::cli {

void declare_features(FeatureRequest& request, Options& options, const std::string& kind_option) {
  runtime::NetworkRequest& network = request.backbone.trained.network;
  options
      .text("RUN", network.model,
            "a run folder; with --weights also a recipe (.toml), a module (.rir) or a zoo model",
            Options::Need::required)
      .takes(Values::trained);
  options
      .text("--weights", request.backbone.trained.weights,
            "a safetensors file to use instead of the run's last checkpoint")
      .takes(Values::file, {".safetensors"});
  options
      .text("--checkpoint", request.backbone.trained.checkpoint,
            "best, last or the name of a checkpoint of the run; the last by default")
      .takes(Values::checkpoint);
  options.flag("--ema", request.backbone.trained.averages,
               "use the moving averages of the run's weights (train.ema)");
  options.choice(kind_option, request.kind, runtime::feature_kind_names(),
                 "class: the class token; mean: the mean of the patches; tokens: each patch; keys: each "
                 "patch's attention keys");
  options.list("--layer", request.layers,
               "a block's name or number (blocks.11, 11, -1), or norm for the output of the last norm; "
               "repeatable: layers are concatenated");
  declare_changes(network, options);
  declare_engine(request.engine, options);
}

runtime::Backbone open_backbone(const FeatureRequest& request) {
  runtime::BackboneRequest asked = request.backbone;
  asked.engine = engine_of(request.engine);
  return {asked, {runtime::feature_kind(request.kind), request.layers}};
}

}  // namespace rewire::cli
