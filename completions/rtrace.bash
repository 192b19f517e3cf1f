# bash completion for rtrace(1)

_rtrace() {
  local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]} word i
  COMPREPLY=()

  # Behind the first word that is no option stands the command with its own arguments.
  local takes_value='-A -a -D -e -F -l -n -o -p -s -u -w -x --align --array-limit --attach --calls --color --config --cpu
    --debug --entry --frames --hist --indent --library --max-line --mechanism --on-full --output --ready-fd --slower --sort
    --string-limit --time --user --where'
  for ((i = 1; i < COMP_CWORD; i++)); do
    word=${COMP_WORDS[i]}
    if [[ $word == -- ]]; then
      i=$((i + 1))
      break
    elif [[ $word != -* ]]; then
      break
    elif [[ ${COMP_WORDS[i + 1]} == = ]]; then
      i=$((i + 2))
    elif [[ " ${takes_value//$'\n'/ } " == *" $word "* ]]; then
      i=$((i + 1))
    fi
  done
  if ((i < COMP_CWORD)); then
    if declare -F _command_offset >/dev/null; then
      _command_offset "$i"
    else
      mapfile -t COMPREPLY < <(compgen -f -- "$current")
    fi
    return
  fi

  if [[ $current == = ]]; then
    current=
  elif [[ $previous == = ]]; then
    previous=${COMP_WORDS[COMP_CWORD - 2]}
  fi
  case $previous in
    -p | --attach)
      mapfile -t COMPREPLY < <(compgen -W "$(ps -eo pid=)" -- "$current")
      return
      ;;
    -F | --config | --gen-conf | -o | --output)
      mapfile -t COMPREPLY < <(compgen -f -- "$current")
      return
      ;;
    -u | --user)
      mapfile -t COMPREPLY < <(compgen -u -- "$current")
      return
      ;;
    --sort)
      mapfile -t COMPREPLY < <(compgen -W 'time self calls max p99 name' -- "$current")
      return
      ;;
    --time)
      mapfile -t COMPREPLY < <(compgen -W 'clock us epoch ns' -- "$current")
      return
      ;;
    --color)
      mapfile -t COMPREPLY < <(compgen -W 'auto always never' -- "$current")
      return
      ;;
    --cpu)
      mapfile -t COMPREPLY < <(compgen -W 'follow any' -- "$current")
      return
      ;;
    --mechanism)
      mapfile -t COMPREPLY < <(compgen -W 'auto breakpoint trampoline' -- "$current")
      return
      ;;
    --on-full)
      mapfile -t COMPREPLY < <(compgen -W 'block drop' -- "$current")
      return
      ;;
    -e | --calls)
      mapfile -t COMPREPLY < <(compgen -W '@MAIN' -- "$current")
      return
      ;;
    --slower | --where | --max-line | --hist | -a | --align | -A | --array-limit | -D | --debug | -l | --library | -n | --indent | \
      --ready-fd | -s | -w | --frames | \
      --string-limit | -x | --entry)
      return
      ;;
  esac

  if [[ $current == -* ]]; then
    local options='-a -A -b -c -C -D -e -f -F -g -h -i -l -L -n -o -p -q -qq -r -s -S -t -tt -ttt -T -u -V -w -x -y
      --align=
      --append
      --array-limit=
      --attach=
      --calls=
      --color=
      --config=
      --cpu=
      --debug=
      --demangle
      --duration
      --entry=
      --explain
      --fds
      --follow
      --frames=
      --gen-conf=
      --help
      --hist=
      --indent=
      --json
      --library=
      --ltrace-compat
      --max-line=
      --mechanism=
      --no-plt
      --no-signals
      --on-full=
      --output=
      --quiet
      --raw-times
      --ready-fd=
      --relative
      --repair
      --return-address
      --slower=
      --sort=
      --string-limit=
      --struct-names
      --summary
      --summary-only
      --syscalls
      --time=
      --trust-seccomp
      --user=
      --utf8
      --version
      --where='
    mapfile -t COMPREPLY < <(compgen -W "$options" -- "$current")
    [[ ${COMPREPLY[0]-} == *= ]] && compopt -o nospace
  else
    mapfile -t COMPREPLY < <(compgen -c -- "$current")
  fi
}

complete -F _rtrace rtrace
