# Tests on ranks. mpirun is told to let ranks share cores, and to run as root, where it has to.
set(SHARDWISE_MPI_ENVIRONMENT
  OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
  OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_hwloc_base_binding_policy=none
  # Containers forbid one process to read another's memory; MPI then copies twice.
  OMPI_MCA_btl_vader_single_copy_mechanism=none)

# shardwise_add_mpi_test(NAME RANKS 1 2 ... SOURCES a.cpp ... DEPENDS ... [TIMEOUT s] [ARGUMENTS x ...]): one program
# with the main() of tests/cluster/mpi_main.cpp, and one ctest entry for each number of ranks.
function(shardwise_add_mpi_test name)
  cmake_parse_arguments(arg "" "TIMEOUT" "RANKS;SOURCES;DEPENDS;ARGUMENTS" ${ARGN})
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 120)
  endif()
  add_executable(${name} ${arg_SOURCES} "${PROJECT_SOURCE_DIR}/tests/cluster/mpi_main.cpp")
  target_link_libraries(${name} PRIVATE shardwise_flags shardwise::mpi ${arg_DEPENDS} GTest::gtest
                        fmt::fmt TBB::tbb nlohmann_json::nlohmann_json)
  target_include_directories(${name} PRIVATE "${PROJECT_SOURCE_DIR}/tests")
  target_compile_definitions(${name} PRIVATE SHARDWISE_TEST_SCENES="${SHARDWISE_TEST_SCENES}")
  foreach(ranks IN LISTS arg_RANKS)
    add_test(NAME "${name}.ranks_${ranks}"
      COMMAND "${MPIEXEC_EXECUTABLE}" "${MPIEXEC_NUMPROC_FLAG}" ${ranks} $<TARGET_FILE:${name}> --gtest_brief=1
              ${arg_ARGUMENTS})
    set_tests_properties("${name}.ranks_${ranks}" PROPERTIES LABELS mpi TIMEOUT ${arg_TIMEOUT} PROCESSORS 2
      ENVIRONMENT "${SHARDWISE_MPI_ENVIRONMENT};SHARDWISE_TEST_RANKS=${ranks}")
  endforeach()
endfunction()
