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

# shardwise_add_library(NAME SOURCES a.cpp ... DEPENDS other ...): a static library of ours, alias shardwise::NAME.
function(shardwise_add_library name)
  cmake_parse_arguments(arg "" "" "SOURCES;DEPENDS" ${ARGN})
  add_library(shardwise_${name} STATIC ${arg_SOURCES})
  add_library(shardwise::${name} ALIAS shardwise_${name})
  set_target_properties(shardwise_${name} PROPERTIES POSITION_INDEPENDENT_CODE ON)
  target_link_libraries(shardwise_${name} PRIVATE shardwise_flags PUBLIC ${arg_DEPENDS})
  target_include_directories(shardwise_${name} PUBLIC "$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>")
endfunction()

# shardwise_add_test(NAME LABELS unit ... SOURCES a.cpp ... DEPENDS shardwise::x ... [TIMEOUT s]): one GoogleTest
# program, one ctest entry per test case.
function(shardwise_add_test name)
  cmake_parse_arguments(arg "" "TIMEOUT" "LABELS;SOURCES;DEPENDS" ${ARGN})
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 120)
  endif()
  add_executable(${name} ${arg_SOURCES})
  target_link_libraries(${name} PRIVATE shardwise_flags ${arg_DEPENDS} GTest::gtest_main)
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
