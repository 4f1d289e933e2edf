#include "cli/backbone.h"

#include "cli/network.h"

namespace rewire::cli {

void declare_features(FeatureRequest& request, Options& options, const std::string& kind_option) {
  runtime::NetworkRequest& network = request.backbone.trained.network;
  options
      .text("RUN", network.model,
            "a run folder; or a recipe (.toml), a module (.rir) or a name of the zoo, with --weights",
            Options::Need::required)
      .takes(Values::trained);
  options
      .text("--weights", request.backbone.trained.weights,
            "safetensors, instead of the run's last checkpoint")
      .takes(Values::file, {".safetensors"});
  options
      .text("--checkpoint", request.backbone.trained.checkpoint,
            "of the run: best, last or a checkpoint's name; without it the last")
      .takes(Values::checkpoint);
  options.flag("--ema", request.backbone.trained.averages,
               "the moving averages of the run's weights (train.ema)");
  options.choice(kind_option, request.kind, runtime::feature_kind_names(),
                 "the class token; the mean of the patches; each patch; the keys of attention, each patch's");
  options.list("--layer", request.layers,
               "a block's name or number (blocks.11, 11, -1), or norm, behind the last norm; repeatable: one "
               "behind the other");
  declare_changes(network, options);
  declare_engine(request.engine, options);
}

runtime::Backbone open_backbone(const FeatureRequest& request) {
  runtime::BackboneRequest asked = request.backbone;
  asked.engine = engine_of(request.engine);
  return {asked, {runtime::feature_kind(request.kind), request.layers}};
}

}  // namespace rewire::cli
