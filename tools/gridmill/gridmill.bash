# SPDX-License-Identifier: Apache-2.0
# Completion of gridmill(1) for bash: sub-commands, their options, the ops of the running daemon, files.
_gridmill() {
  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]} common="--socket --timeout --help"
  local commands="run arena ops stats ping bench drain version"
  COMPREPLY=()
  if [ "$COMP_CWORD" -eq 1 ]; then
    mapfile -t COMPREPLY < <(compgen -W "$commands --help --version" -- "$cur")
    return
  fi
  case $prev in
  -s | --socket | -o | --output) mapfile -t COMPREPLY < <(compgen -f -- "$cur") && return ;;
  -t | --dtype | --to | --index)
    mapfile -t COMPREPLY < <(compgen -W "u8 i32 u32 i64 u64 f16 bf16 f32 f64" -- "$cur")
    return
    ;;
  -f | --format) mapfile -t COMPREPLY < <(compgen -W "text npy raw" -- "$cur") && return ;;
  -d | --device) mapfile -t COMPREPLY < <(compgen -W "cpu cuda" -- "$cur") && return ;;
  --compare) mapfile -t COMPREPLY < <(compgen -W "eq ne lt le gt ge between outside" -- "$cur") && return ;;
  --arena) mapfile -t COMPREPLY < <(compgen -W "auto inline shared device" -- "$cur") && return ;;
  esac
  case ${COMP_WORDS[1]} in
  run)
    if [ "$COMP_CWORD" -eq 2 ]; then
      mapfile -t COMPREPLY < <(compgen -W "$(gridmill ops --timeout 1 2>/dev/null | cut -d' ' -f1)" -- "$cur")
    elif [[ $cur == -* ]]; then
      # What the op takes is in its help.
      mapfile -t COMPREPLY < <(compgen -W "--dtype --device --count --arena --output --format --result --time $common \
        $(gridmill run "${COMP_WORDS[2]}" --help 2>/dev/null | grep -o '^ *--[a-z-]*')" -- "$cur")
    else
      mapfile -t COMPREPLY < <(compgen -f -- "$cur")
    fi
    ;;
  arena)
    if [ "$COMP_CWORD" -eq 2 ]; then
      mapfile -t COMPREPLY < <(compgen -W "put ls rm" -- "$cur")
    elif [[ $cur == -* ]]; then
      mapfile -t COMPREPLY < <(compgen -W "--device --shared --dtype --all --json $common" -- "$cur")
    elif [ "${COMP_WORDS[2]}" = rm ]; then
      mapfile -t COMPREPLY < <(compgen -W "$(gridmill arena ls --timeout 1 2>/dev/null | tail -n +2 | cut -d' ' -f1)" \
        -- "$cur")
    else
      mapfile -t COMPREPLY < <(compgen -f -- "$cur")
    fi
    ;;
  ops) mapfile -t COMPREPLY < <(compgen -W "--json $common" -- "$cur") ;;
  stats) mapfile -t COMPREPLY < <(compgen -W "--json --lanes --users $common" -- "$cur") ;;
  ping) mapfile -t COMPREPLY < <(compgen -W "--count --interval $common" -- "$cur") ;;
  bench) mapfile -t COMPREPLY < <(compgen -W "--device --elements --seconds --clients --load --window --seed \
      --socket-too --json $common" -- "$cur") ;;
  drain) mapfile -t COMPREPLY < <(compgen -W "$common" -- "$cur") ;;
  esac
}
complete -F _gridmill gridmill
