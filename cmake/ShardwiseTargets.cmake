# Our compile rules, given to our own targets only.
#
# The floating-point rules are a contract (host and CUDA give the same bits): no contraction, no fast-math, no
# flush to zero, precise division and square root. -fno-math-errno and -fno-trapping-math change no value.

# g++ 12 makes fused multiply-add-subtract instructions out of neighbouring sums and products when it vectorizes
# straight-line code, -ffp-contract=off or not, so that is off; loops are still vectorized. (tests/house looks for such
# instructions in what was built.)
set(SHARDWISE_FP_FLAGS -ffp-contract=off -fno-math-errno -fno-trapping-math)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  list(APPEND SHARDWISE_FP_FLAGS -fno-tree-slp-vectorize)
endif()
set(SHARDWISE_CUDA_FP_FLAGS --fmad=false --prec-div=true --prec-sqrt=true --ftz=false)

add_library(shardwise_flags INTERFACE)
target_include_directories(shardwise_flags INTERFACE
  "${CMAKE_CURRENT_SOURCE_DIR}/include" "${CMAKE_CURRENT_SOURCE_DIR}/src")
target_compile_options(shardwise_flags INTERFACE
  "$<$<COMPILE_LANGUAGE:CXX>:-Wall;-Wextra;${SHARDWISE_FP_FLAGS}>"
  "$<$<COMPILE_LANGUAGE:CUDA>:${SHARDWISE_CUDA_FP_FLAGS};--expt-relaxed-constexpr;-Xcompiler=-Wall,-ffp-contract=off>")
if(SHARDWISE_HAS_CUDA AND SHARDWISE_PACK_GPU_CODE)
  # Without it nvcc leaves the code of a single architecture as it is.
  set(pack -Xfatbin=-compress-all)
  if(CMAKE_CUDA_COMPILER_VERSION VERSION_GREATER_EQUAL 12.8)
    set(pack --compress-mode=size)
  endif()
  target_compile_options(shardwise_flags INTERFACE "$<$<COMPILE_LANGUAGE:CUDA>:${pack}>")
endif()
if(CMAKE_CXX_COMPILER_ID MATCHES "Clang" AND CMAKE_CXX_COMPILER_VERSION VERSION_GREATER_EQUAL 14)
  # Bodies join conditions with & where a branch would cost more than what it saves; loops without dependences are marked
  # in g++'s words.
  target_compile_options(shardwise_flags INTERFACE
    "$<$<COMPILE_LANGUAGE:CXX>:-Wno-bitwise-instead-of-logical;-Wno-unknown-pragmas>")
endif()
if(SHARDWISE_WERROR)
  target_compile_options(shardwise_flags INTERFACE "$<$<COMPILE_LANGUAGE:CXX>:-Werror>")
endif()
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  target_compile_options(shardwise_flags INTERFACE "$<$<COMPILE_LANGUAGE:CXX>:-march=x86-64-v3>")
endif()
if(SHARDWISE_SANITIZE)
  target_compile_options(shardwise_flags INTERFACE
    "$<$<COMPILE_LANGUAGE:CXX>:-fsanitize=${SHARDWISE_SANITIZE};-fno-sanitize-recover=all;-fno-omit-frame-pointer;-g>")
  target_link_options(shardwise_flags INTERFACE "-fsanitize=${SHARDWISE_SANITIZE}")
endif()
target_compile_definitions(shardwise_flags INTERFACE
  "$<$<BOOL:${SHARDWISE_HAS_CUDA}>:SHARDWISE_WITH_CUDA=1>"
  "$<$<BOOL:${SHARDWISE_HAS_EMBREE}>:SHARDWISE_WITH_EMBREE=1>"
  "$<$<BOOL:${SHARDWISE_HAS_IO}>:SHARDWISE_WITH_IO=1>"
  "$<$<BOOL:${SHARDWISE_HAS_PICTURES}>:SHARDWISE_WITH_PICTURES=1>")

# Libraries that are headers and nothing else: nothing of them is left in what is installed.
set(SHARDWISE_HEADER_ONLY nlohmann_json::nlohmann_json tomlplusplus::tomlplusplus CLI11::CLI11)

# shardwise_link(TARGET ...): ours, shardwise::x, become part of the interface. Others stay private: a user's compiler
# sees nothing of them, and only a static library names them, for the linker alone.
function(shardwise_link target)
  foreach(library IN LISTS ARGN)
    if(library MATCHES "^shardwise::")
      target_link_libraries(${target} PUBLIC ${library})
    elseif(library IN_LIST SHARDWISE_HEADER_ONLY)
      target_link_libraries(${target} PRIVATE "$<BUILD_INTERFACE:${library}>")
    else()
      target_link_libraries(${target} PRIVATE ${library})
    endif()
  endforeach()
endfunction()

# shardwise_add_library(NAME [INTERNAL] SOURCES a.cpp ... DEPENDS other ...): a library of ours, alias shardwise::NAME,
# static or shared as BUILD_SHARED_LIBS says, and installed. INTERNAL: a static one that stays in the build tree.
function(shardwise_add_library name)
  cmake_parse_arguments(arg "INTERNAL" "" "SOURCES;DEPENDS" ${ARGN})
  set(kind "")
  if(arg_INTERNAL)
    set(kind STATIC)
  endif()
  add_library(shardwise_${name} ${kind} ${arg_SOURCES})
  add_library(shardwise::${name} ALIAS shardwise_${name})
  # No NAME_EXPORTS definition: static and shared builds compile alike, and share what ccache holds.
  set_target_properties(shardwise_${name} PROPERTIES POSITION_INDEPENDENT_CODE ON EXPORT_NAME ${name}
    DEFINE_SYMBOL "" VERSION "${PROJECT_VERSION}"
    SOVERSION "${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR}")
  if(BUILD_SHARED_LIBS AND NOT arg_INTERNAL)
    # An inline function of ours that a user's program also compiled, with other flags, must not replace ours.
    target_link_options(shardwise_${name} PRIVATE "LINKER:-Bsymbolic-functions")
  endif()
  # Our flags are for our sources: what links us gets none of them.
  target_link_libraries(shardwise_${name} PRIVATE "$<BUILD_INTERFACE:shardwise_flags>")
  shardwise_link(shardwise_${name} ${arg_DEPENDS})
  target_include_directories(shardwise_${name} PUBLIC "$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>")
  target_compile_features(shardwise_${name} INTERFACE cxx_std_20)
  if(NOT arg_INTERNAL)
    set_property(GLOBAL APPEND PROPERTY SHARDWISE_LIBRARIES ${name})
  endif()
endfunction()

# shardwise_add_test(NAME LABELS unit ... SOURCES a.cpp ... DEPENDS shardwise::x ... [TIMEOUT s]): one GoogleTest
# program, one ctest entry per test case.
function(shardwise_add_test name)
  cmake_parse_arguments(arg "" "TIMEOUT" "LABELS;SOURCES;DEPENDS" ${ARGN})
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 120)
  endif()
  add_executable(${name} ${arg_SOURCES})
  target_link_libraries(${name} PRIVATE shardwise_flags ${arg_DEPENDS} GTest::gtest_main
                        fmt::fmt TBB::tbb nlohmann_json::nlohmann_json)
  target_include_directories(${name} PRIVATE "${PROJECT_SOURCE_DIR}/tests")
  target_compile_definitions(${name} PRIVATE SHARDWISE_TEST_SCENES="${SHARDWISE_TEST_SCENES}")
  gtest_discover_tests(${name} TEST_PREFIX "${name}." PROPERTIES TIMEOUT ${arg_TIMEOUT} DISCOVERY_TIMEOUT 60)
  # Discovery passes properties on as a flat list, in which a second label would swallow TIMEOUT: labels are set
  # after it, on the list of tests that it leaves behind.
  set(labels "${CMAKE_CURRENT_BINARY_DIR}/${name}_labels.cmake")
  file(WRITE "${labels}" "if(${name}_TESTS)\n"
    "  set_tests_properties(\${${name}_TESTS} PROPERTIES LABELS \"${arg_LABELS}\")\nendif()\n")
  set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES "${labels}")
endfunction()

# shardwise_add_sim_schedules(NAME FILTER ...): a test program again on sim, under one checked schedule (its memory
# guarded) and five random ones. FILTER leaves out what does not run on sim.
function(shardwise_add_sim_schedules name filter)
  set(timeout 120)
  if(SHARDWISE_SANITIZE)
    set(timeout 600)  # the thread sanitizer takes a minute alone
  endif()
  foreach(schedule RANGE 0 5)
    if(schedule EQUAL 0)
      set(which checked)
      set(environment "SHARDWISE_SIM_GUARD=1")
    else()
      set(which "random_${schedule}")
      math(EXPR seed "${schedule} * 7919")
      set(environment "SHARDWISE_SIM_SEED=${seed}")
    endif()
    add_test(NAME "${name}.schedule_${which}" COMMAND ${name} "--gtest_filter=${filter}" --gtest_brief=1)
    set_tests_properties("${name}.schedule_${which}" PROPERTIES LABELS sim TIMEOUT ${timeout} ENVIRONMENT "${environment}")
  endforeach()
endfunction()
