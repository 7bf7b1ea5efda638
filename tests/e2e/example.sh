#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs the build into a temporary prefix, compiles client/examples/sort.c as a user would (pkg-config: shared and
# static; CMake: find_package) and runs it against the installed daemon. usage: example.sh BUILD_DIR SOURCE_DIR CC
set -euo pipefail
build=$1 source=$2 cc=$3
work=$(mktemp -d /tmp/gm-e2e-XXXXXX)
daemon=
cleanup() {
  if [ -n "$daemon" ]; then kill "$daemon" 2>/dev/null && wait "$daemon" || true; fi
  rm -rf "$work"
}
trap cleanup EXIT
fail() { echo "example: $*" >&2; exit 1; }

lines=$(wc -l <"$source/client/examples/sort.c")
[ "$lines" -le 40 ] || fail "sort.c has $lines lines, not at most 40"

# The README shows this program, word for word.
if [ -f "$source/README.md" ]; then
  awk -v to="$work/readme" '/^```c$/ {n++; inside = 1; next} /^```$/ {inside = 0} inside {print > (to "." n ".c")}' \
    "$source/README.md"
  for shown in "$work"/readme.*.c; do
    if [ -f "$shown" ] && grep -qF 'int main' "$shown"; then
      cmp "$shown" "$source/client/examples/sort.c" || fail "README.md shows another program"
    fi
  done
fi

prefix=$work/prefix
cmake --install "$build" --prefix "$prefix" >"$work/install.log" 2>&1 || { cat "$work/install.log"; fail "install"; }
pc=$(dirname "$(find "$prefix" -name gridmill.pc)")
library=$(dirname "$pc")
devices=$(dirname "$(find "$prefix" -name gridmill-device-cpu)")
export PKG_CONFIG_PATH=$pc
cd "$work"
# The example is written for readers; as a program it must still compile without a warning.
read -r -a flags <<<"$(pkg-config --cflags --libs gridmill)"
"$cc" -std=c11 -Wall -Wextra -Werror -o shared "$source/client/examples/sort.c" "${flags[@]}"
read -r -a cflags <<<"$(pkg-config --cflags gridmill)"
read -r -a private <<<"$(pkg-config --libs --static gridmill | tr ' ' '\n' | grep -vE '^-L|gridmill' | tr '\n' ' ')"
"$cc" -std=c11 -o static "$source/client/examples/sort.c" "${cflags[@]}" "$library/libgridmill.a" "${private[@]}"
soname=$(objdump -p "$library/libgridmill.so" | awk '$1 == "SONAME" { print $2 }')
objdump -p shared | grep -q "NEEDED *$soname\$" || fail "the program does not ask for $soname"
! objdump -p static | grep -q 'NEEDED.*libgridmill' || fail "the static program asks for the shared library"

mkdir package
cat >package/CMakeLists.txt <<END
cmake_minimum_required(VERSION 3.16)
project(user LANGUAGES C)
find_package(gridmill 0.1 REQUIRED)
add_executable(user "$source/client/examples/sort.c")
target_link_libraries(user gridmill::gridmill)
add_executable(user_static "$source/client/examples/sort.c")
target_link_libraries(user_static gridmill::gridmill_static)
END
cmake -G Ninja -S package -B package/build -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_C_COMPILER="$cc" >cmake.log 2>&1 ||
  { cat cmake.log; fail "find_package"; }
cmake --build package/build >cmake.log 2>&1 || { cat cmake.log; fail "CMake package"; }

export GRIDMILL_SOCKET=$work/s LD_LIBRARY_PATH=$library
"$prefix/sbin/gridmilld" --device "${GRIDMILL_TEST_DEVICE:-cpu}" --device-program "$devices" 2>log &
daemon=$!
for _ in $(seq 500); do
  "$prefix/bin/gridmill" run nop >/dev/null 2>&1 && break
  sleep 0.05
done
for program in ./shared ./static package/build/user package/build/user_static; do
  "$program" >out || { cat log; fail "$program failed"; }
  grep -qE '^smallest [0-9.e-]+, median 0\.(49|50)[0-9]*, largest (1|0\.99999[0-9]*), in [0-9.]+ us$' out ||
    fail "$program: $(cat out)"
done
kill "$daemon"
wait "$daemon" || fail "gridmilld exited with $?"
daemon=
./shared >out 2>&1 && fail "there is no daemon any more, and the program did not notice"
grep -q '^gridmill: .*No such file or directory$' out || fail "without a daemon: $(cat out)"
echo ok
