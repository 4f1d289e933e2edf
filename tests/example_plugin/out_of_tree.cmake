# Installs the SDK alone into a fresh prefix and builds the example against it, as a user would.
#
#   cmake -DBUILD=<build tree> -DEXAMPLE=<its sources> -DWORK=<scratch folder> -DCOMPILER=<of that tree> -DFLAGS=<compiler flags>
#         -DWERROR=<whether warnings are errors>
#         -P out_of_tree.cmake
cmake_minimum_required(VERSION 3.25)
function(step)
  execute_process(COMMAND "${CMAKE_COMMAND}" ${ARGN} OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)
endfunction()
# What a shell or a packager may have set: another place, another way, another SDK.
foreach(variable DESTDIR CXXFLAGS CMAKE_PREFIX_PATH)
  unset(ENV{${variable}})
endforeach()
set(ENV{CXX} "${COMPILER}")
file(REMOVE_RECURSE "${WORK}")
step(--install "${BUILD}" --component sdk --prefix "${WORK}/installed")
file(RENAME "${WORK}/installed" "${WORK}/moved") # the prefix is relocatable
step(-S "${EXAMPLE}" -B "${WORK}/build" -G Ninja "-DCMAKE_PREFIX_PATH=${WORK}/moved" "-DCMAKE_CXX_FLAGS=-Wall -Wextra ${FLAGS}"
     "-DCMAKE_COMPILE_WARNING_AS_ERROR=${WERROR}")
step(--build "${WORK}/build")
