# The folders of runtime/, each a library, from the bottom up. A floor includes what is before it here and nothing after it:
# tests/include_floors.cmake reads every #include.
#
#   device    processors, memory, threads, processes, the log     measure   metrics and diagnostics of a network at work
#   group     what the processes of a run exchange                run       run folders and checkpoints
#   linalg    LAPACK                                              report    pages and tables about runs
#   io        files, tensors in files, JSON, CSV                  verify    a network or plugin against the evaluator
#   exec      engines: programs compiled and run                  train     the steps of a run, and what it writes meanwhile
#   data      samples, batches, loader; vision, text, catalog: below    sweep     runs over grids of settings
#   plugin    strategies of shared libraries                      analyze   features, probes, token cuts
#   recipe    what a run is asked for                             trace     every tensor of a step
#   explore   a network's stages as text and formulas             repro     a failure as a file
#   export    a network in other programs' forms                  diff      two networks or runs side by side
#   page      what HTML pages have in common
#   events    event files for TensorBoard
#   network   from a recipe to programs and weights
#
# Of data, the folder itself knows no kind of data; vision is images, text is tokens, and catalog the sources by name.
set(REWIRE_RUNTIME_FLOORS device group linalg io exec data data/vision data/text data/catalog plugin recipe explore export page events network measure run report verify train
  sweep analyze trace repro diff)
