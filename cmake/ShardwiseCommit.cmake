# shardwise_commit: commit.hpp with the checkout's commit, for --version and for worker processes, which say what they
# were built from.
set(SHARDWISE_COMMIT_FOLDER "${PROJECT_BINARY_DIR}/generated")
add_custom_target(shardwise_commit
  COMMAND "${CMAKE_COMMAND}" "-DSOURCE=${PROJECT_SOURCE_DIR}" "-DOUTPUT=${SHARDWISE_COMMIT_FOLDER}/commit.hpp"
          -P "${CMAKE_CURRENT_LIST_DIR}/commit.cmake"
  BYPRODUCTS "${SHARDWISE_COMMIT_FOLDER}/commit.hpp"
  COMMENT "Looking up the commit")
