// The sources by name: what data.format selects.
#pragma once

#include <memory>
#include <span>

#include "runtime/data/source.h"
#include "runtime/data/vision/image_source.h"

namespace rewire::runtime {

std::span<const SourceRow* const> sources();
/// For a source that is no resident, as tests have; the row must outlive the process.
void add_source(const SourceRow& row);

/// UserError naming the key: an unknown format, a value out of range; or an image and its label, for which the
/// model has no class.
std::unique_ptr<Source> make_source(const ir::Selection& selection, const SourceContext& context);
/// The same of images. UserError where the format has none.
std::unique_ptr<ImageSource> make_image_source(const ir::Selection& selection, const ImageContext& context);

/// Takes a source that is one of images; null, and nothing is taken, where it is not.
std::unique_ptr<ImageSource> images_of(std::unique_ptr<Source>& source);

}  // namespace rewire::runtime
