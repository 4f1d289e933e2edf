# The folders of runtime/, each a library, from the bottom up. A floor includes what is before it here and nothing after it:
# tests/include_floors.cmake reads every #include.
#
#   device    processors, memory, threads, processes, the log     measure   metrics and diagnostics of a network at work
#   linalg    LAPACK                                              run       run folders and checkpoints
#   io        files, tensors in files, JSON, CSV                  report    pages and tables about runs
#   exec      engines: programs compiled and run                  verify    a network or plugin against the evaluator
#   data      samples, batches, loader; vision, catalog: below    train     the steps of a run, and what it writes meanwhile
#   plugin    strategies of shared libraries                      sweep     runs over grids of settings
#   recipe    what a run is asked for                             analyze   features, probes, token cuts
#   explore   a network's stages as text and formulas             trace     every tensor of a step
#   page      what HTML pages have in common                      repro     a failure as a file
#   events    event files for TensorBoard                         diff      two networks or runs side by side
#   network   from a recipe to programs and weights
#
# Of data, the folder itself knows no kind of data; vision is images, and catalog the sources by name.
set(REWIRE_RUNTIME_FLOORS device linalg io exec data data/vision data/catalog plugin recipe explore page events network measure run report verify train
  sweep analyze trace repro diff)
