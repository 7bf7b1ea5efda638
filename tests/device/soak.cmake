# Long runs and runs under foreign tools: programs with arguments, over the bed of tools/bench. Small by default, so
# that they are tests too.
function(gm_soak name)
  cmake_parse_arguments(S "" "TIMEOUT" "SOURCES;ARGS;LIBS" ${ARGN})
  add_executable(${name} ${S_SOURCES})
  target_link_libraries(${name} PRIVATE ${S_LIBS} ${gm_bed} gm_flags Threads::Threads)
  set_target_properties(${name} PROPERTIES BUILD_RPATH "$ORIGIN" BUILD_RPATH_USE_ORIGIN ON
    RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
  add_test(NAME ${name} COMMAND ${name} ${S_ARGS})
  set_tests_properties(${name} PROPERTIES TIMEOUT ${S_TIMEOUT} SKIP_RETURN_CODE 77)
endfunction()

set(gm_soak_jobs 200000)
if(GM_SANITIZE)
  set(gm_soak_jobs 60000)
endif()
gm_soak(soak_jobs SOURCES soak_jobs.c soak_mix.c ARGS --jobs ${gm_soak_jobs} TIMEOUT 300)
gm_soak(soak_pauses SOURCES soak_pauses.c ARGS --cycles 200 TIMEOUT 300)
gm_soak(soak_starts SOURCES soak_starts.c ARGS --starts 20 TIMEOUT 300)
gm_soak(sanitize_ops SOURCES sanitize_ops.c sanitize_device.c LIBS gm_harness TIMEOUT 300)
