# A new strategy as its author begins it, from nothing but an installed prefix: `plugin new`, configure, build, and
# the project's own tests (`plugin test`, a few steps of training); what the guide shows of them is held to what they print.
#
#   cmake -DBUILD=<build tree> -DWORK=<scratch folder> -DCOMPILER=<of that tree> -DFLAGS=<compiler flags>
#         -DWERROR=<whether warnings are errors> -P skeleton.cmake
cmake_minimum_required(VERSION 3.25)
function(run)
  execute_process(COMMAND ${ARGN} WORKING_DIRECTORY "${WORK}" RESULT_VARIABLE code OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT code EQUAL 0)
    message(FATAL_ERROR "${ARGN} exits ${code}: ${output}")
  endif()
  set(output "${output}" PARENT_SCOPE)
endfunction()

# What a shell or a packager may have set: another place, another way, another SDK.
foreach(variable DESTDIR CXXFLAGS CMAKE_PREFIX_PATH)
  unset(ENV{${variable}})
endforeach()
set(ENV{CXX} "${COMPILER}")
file(REMOVE_RECURSE "${WORK}")
file(MAKE_DIRECTORY "${WORK}")
run("${CMAKE_COMMAND}" --install "${BUILD}" --prefix "${WORK}/prefix")
set(ENV{PATH} "${WORK}/prefix/bin:$ENV{PATH}") # find_package looks beside it
set(ENV{XDG_DATA_HOME} "${WORK}/none")
run(rewire plugin new mine)
run("${CMAKE_COMMAND}" -S mine -B mine/build -G Ninja "-DCMAKE_CXX_FLAGS=-Wall -Wextra -Wshadow ${FLAGS}"
    "-DCMAKE_COMPILE_WARNING_AS_ERROR=${WERROR}")
run("${CMAKE_COMMAND}" --build mine/build)
run("${CMAKE_CTEST_COMMAND}" --test-dir mine/build --output-on-failure --no-tests=error)
run("${CMAKE_CTEST_COMMAND}" --test-dir mine/build --output-on-failure) # a second time as well
run(rewire plugins info ./mine/build/mine.so)
foreach(path "${WORK}/mine/build" "start")
  string(FIND "${output}" "${path}" place)
  if(place EQUAL -1)
    message(FATAL_ERROR "plugins info does not say ${path}: ${output}")
  endif()
endforeach()

# What docs/start/first-plugin.md shows of `plugin test`, but for the rows of rounding errors, which are a processor's own.
run(rewire plugin test ./mine/build/mine.so)
file(STRINGS "${CMAKE_CURRENT_LIST_DIR}/../../docs/start/first-plugin.md" shown REGEX "^    ok ")
set(held 0)
foreach(line IN LISTS shown)
  if(line MATCHES "worst error" OR (FLAGS MATCHES "sanitize" AND line MATCHES "ok +leak")) # which is left to the sanitizer
    continue()
  endif()
  string(STRIP "${line}" line)
  string(REPLACE "my_strategy" "mine" line "${line}")
  string(FIND "${output}" "${line}" place)
  if(place EQUAL -1)
    message(FATAL_ERROR "first-plugin.md shows '${line}', plugin test prints: ${output}")
  endif()
  math(EXPR held "${held} + 1")
endforeach()
if(held LESS 5)
  message(FATAL_ERROR "first-plugin.md shows ${held} lines of plugin test that could be held against it")
endif()

# One that begins with a formula builds, too, and gives the formula's weights.
file(WRITE "${WORK}/idea.toml" "weights = \"g[channels] = 0.5\"\njoin = \"x + g * sigmoid(mean(h)) * f\"\n")
run(rewire plugin new from_formula --formula idea.toml)
run("${CMAKE_COMMAND}" -S from_formula -B from_formula/build -G Ninja
    "-DCMAKE_CXX_FLAGS=-Wall -Wextra -Wshadow ${FLAGS}" "-DCMAKE_COMPILE_WARNING_AS_ERROR=${WERROR}")
run("${CMAKE_COMMAND}" --build from_formula/build)
set(small --set model.dim=24 --set model.depth=2 --set data.format=synthetic --set data.count=160
    --set train.batch=8 --set train.epochs=1 --set train.max_steps=5)
run(rewire train vit_tiny_28 --plugin ./from_formula/build/from_formula.so --out one ${small})
run(rewire train vit_tiny_28 --formula idea.toml --out two ${small})
run(rewire diff one two)
if(NOT output MATCHES "metrics +the same")
  message(FATAL_ERROR "a formula and its source train differently: ${output}")
endif()
run("${CMAKE_COMMAND}" "-DREADELF=${READELF}" "-DFOLDERS=${WORK}/mine/build" -P "${CMAKE_CURRENT_LIST_DIR}/../floors/library_paths.cmake")
file(REMOVE_RECURSE "${WORK}")
