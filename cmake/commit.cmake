# Writes commit.hpp with the checkout's commit, only where it changed. Run at every build. The environment's
# SHARDWISE_COMMIT wins: for sources that left their repository, in a container say.
set(commit "$ENV{SHARDWISE_COMMIT}")
if(NOT commit)
  execute_process(COMMAND git -C "${SOURCE}" describe --always --dirty --abbrev=12 --exclude=*
                  OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
endif()
if(NOT commit)
  set(commit "unknown")
endif()
set(text "#define SHARDWISE_COMMIT \"${commit}\"\n")
set(before "")
if(EXISTS "${OUTPUT}")
  file(READ "${OUTPUT}" before)
endif()
if(NOT before STREQUAL text)
  file(WRITE "${OUTPUT}" "${text}")
endif()
