# What a user's project links, and what is installed: libraries, public headers, the program, and the CMake package
# that find_package(shardwise) reads. docs/package.md has the user's side.

# shardwise::shardwise is every library but the importers (shardwise::io) and the ranks over MPI (shardwise::mpi).
get_property(libraries GLOBAL PROPERTY SHARDWISE_LIBRARIES)
add_library(shardwise_everything INTERFACE)
add_library(shardwise::shardwise ALIAS shardwise_everything)
set_target_properties(shardwise_everything PROPERTIES EXPORT_NAME shardwise)
foreach(name IN LISTS libraries)
  if(NOT name MATCHES "^(io|mpi)$")
    target_link_libraries(shardwise_everything INTERFACE shardwise_${name})
  endif()
endforeach()
# shardwise::cuda adds the toolkit's headers, for shardwise/runtime/cuda.hpp.
if(SHARDWISE_HAS_CUDA)
  add_library(shardwise_cuda INTERFACE)
  add_library(shardwise::cuda ALIAS shardwise_cuda)
  set_target_properties(shardwise_cuda PROPERTIES EXPORT_NAME cuda)
  target_link_libraries(shardwise_cuda INTERFACE shardwise_runtime ${SHARDWISE_CUDART})
endif()

if(NOT SHARDWISE_INSTALL)
  return()
endif()
if(SHARDWISE_SANITIZE)
  return() # such a build is for its own tests
endif()

include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
set(package_folder "${CMAKE_INSTALL_LIBDIR}/cmake/shardwise")
list(TRANSFORM libraries PREPEND shardwise_ OUTPUT_VARIABLE targets)
list(APPEND targets shardwise_everything)
if(SHARDWISE_HAS_CUDA)
  list(APPEND targets shardwise_cuda)
endif()
foreach(target IN LISTS targets)
  get_target_property(type ${target} TYPE)
  if(type STREQUAL "SHARED_LIBRARY")
    set_target_properties(${target} PROPERTIES INSTALL_RPATH "$ORIGIN")
  endif()
endforeach()
install(TARGETS ${targets} EXPORT shardwise_targets INCLUDES DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}")
install(EXPORT shardwise_targets NAMESPACE shardwise:: FILE shardwise-targets.cmake DESTINATION "${package_folder}")
install(DIRECTORY "${PROJECT_SOURCE_DIR}/include/shardwise" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}"
        FILES_MATCHING PATTERN "*.hpp")
install(FILES "${PROJECT_SOURCE_DIR}/LICENSE" "${PROJECT_SOURCE_DIR}/README.md" DESTINATION "${CMAKE_INSTALL_DOCDIR}")
if(SHARDWISE_PROGRAM)
  if(BUILD_SHARED_LIBS)
    file(RELATIVE_PATH libraries_from_program "/${CMAKE_INSTALL_BINDIR}" "/${CMAKE_INSTALL_LIBDIR}")
    set_target_properties(shardwise PROPERTIES INSTALL_RPATH "$ORIGIN/${libraries_from_program}")
  endif()
  install(TARGETS shardwise DESTINATION "${CMAKE_INSTALL_BINDIR}")
endif()

# Private libraries that a user's linker needs: those of static libraries.
set(SHARDWISE_LINK_DEPENDENCIES "")
if(NOT BUILD_SHARED_LIBS)
  set(SHARDWISE_LINK_DEPENDENCIES "Threads" "TBB" "fmt")
  if(SHARDWISE_HAS_EMBREE)
    string(REGEX MATCH "^[0-9]+" major "${embree_VERSION}")
    list(APPEND SHARDWISE_LINK_DEPENDENCIES "embree ${major}")
  endif()
  if(SHARDWISE_HAS_IO)
    list(APPEND SHARDWISE_LINK_DEPENDENCIES "pugixml")
  endif()
endif()
configure_package_config_file("${CMAKE_CURRENT_LIST_DIR}/shardwise-config.cmake.in"
  "${PROJECT_BINARY_DIR}/package/shardwise-config.cmake" INSTALL_DESTINATION "${package_folder}")
# 0.x: a minor version may change what a user calls.
write_basic_package_version_file("${PROJECT_BINARY_DIR}/package/shardwise-config-version.cmake"
  COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/package/shardwise-config.cmake"
  "${PROJECT_BINARY_DIR}/package/shardwise-config-version.cmake" DESTINATION "${package_folder}")
