// The sources by name, as data.format selects them.
#pragma once

#include <memory>
#include <span>

#include "runtime/data/source.h"
#include "runtime/data/vision/image_source.h"

namespace rewire::runtime {

std::span<const SourceRow* const> sources();
/// Adds a source that is not a resident, for tests. The row must outlive the process.
void add_source(const SourceRow& row);

/// Makes a source. Throws UserError naming the key (unknown format, value out of range), or the image and
/// its label if the model has no class for it.
std::unique_ptr<Source> make_source(const ir::Selection& selection, const SourceContext& context);
/// Makes a source of images. Throws UserError also if the format has none.
std::unique_ptr<ImageSource> make_image_source(const ir::Selection& selection, const ImageContext& context);

/// Takes `source` if it is a source of images; else returns null and takes nothing.
std::unique_ptr<ImageSource> images_of(std::unique_ptr<Source>& source);

}  // namespace rewire::runtime
