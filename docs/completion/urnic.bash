# Completion of urnic(1) for bash: source this file, or install it as "urnic"
# in the directory of bash-completion. It needs nothing else, and it talks to no
# running program. A test compares its words with `urnic --help`
# (tests/lint/manual_test.py).

_urnic_options() {
  case $1 in
    "") echo "--help --version" ;;
    run | perf | doctor)
      echo "--port --addr --route --mtu --pkey --fault --transport --iwarp" \
        "--mode --config --help"
      ;;
    addr | route) echo "--process --help" ;;
    show) echo "--process --details --json --pretty --from --help" ;;
    explain) echo "--json --help" ;;
    top) echo "--process --delay --number --batch --help" ;;
    export) echo "--process --qps --output --help" ;;
    trace)
      echo "--process --details --json --pretty --levels --set --ctf --help"
      ;;
    capture)
      echo "--process --output --lqpn --peer --snap --count --seconds --help"
      ;;
    dump)
      echo "--process --pid --output --to --longest --payload --help"
      ;;
    inputs) echo "--process --kib --help" ;;
    state) echo "--process --from --qp --help" ;;
    clean) echo "--dry-run --recordings --json --help" ;;
    guard)
      echo "--policy --program --grace --interval --once --json --help"
      ;;
    demo) echo "--help" ;;
  esac
}

# The sockets of open devices, urnic-NAMESPACE-PID-START/DEVICE.sock, where
# programs make them.
_urnic_sockets() {
  local place
  for place in "$XDG_RUNTIME_DIR" "$TMPDIR" /tmp "/run/user/$UID" /dev/shm; do
    [[ $place != /* ]] || compgen -G "$place/urnic-*-*-*/*.sock"
  done | sort -u
}

_urnic_devices() { _urnic_sockets | sed 's|.*/||; s|\.sock$||' | sort -u; }

_urnic_processes() {
  _urnic_sockets | sed 's|/[^/]*$||; s|.*/urnic-[^-]*-\([^-]*\)-.*|\1|' | sort -u
}

_urnic_ports() {
  local path
  for path in /sys/class/net/*; do
    [[ ! -e $path ]] || echo "iface:${path##*/}"
  done
  echo "loop net_memif0,role=server net_memif0,role=client"
  echo "net_virtio_user0,server=1,path= net_vhost0,client=1,iface="
  echo "net_tap0 ring:"
}

# The values of option $1, for words that begin with $2.
_urnic_values() {
  case $1 in
    --port) compgen -W "$(_urnic_ports)" -- "$2" ;;
    --mtu) compgen -W "1500 4200 9000" -- "$2" ;;
    --transport) compgen -W "roce iwarp both" -- "$2" ;;
    --iwarp) compgen -W "crc= markers= mpa= rtr= ecn= timeout=" -- "$2" ;;
    --mode) compgen -W "embedded" -- "$2" ;;
    --policy) compgen -W "log term kill" -- "$2" ;;
    --config | --output | --from) compgen -f -- "$2" ;;
    --ctf) compgen -d -- "$2" ;;
    --set)
      compgen -W "all= verbs= qp= cm= receive= transmit= completion=" -- "$2"
      ;;
    --fault)
      compgen -W "loss= burst= delay= jitter= reorder= duplicate= corrupt= \
        rate= buffer= red= stall= die= direction= down= remove= freeze= \
        stuck= reset= seed=" -- "$2"
      ;;
    --process | --pid) compgen -W "$(_urnic_processes)" -- "$2" ;;
  esac
}

_urnic() {
  COMPREPLY=()
  # Readline also cuts words at ":" and "=". Here a word ends at a blank.
  local line=$COMP_LINE words=() rest i
  for ((i = 0; i <= COMP_CWORD; i++)); do
    rest=${line#"${line%%[![:space:]]*}"}
    if ((i > 0)) && [[ $rest == "$line" ]]; then
      words[-1]+=${COMP_WORDS[i]}
    else
      words+=("${COMP_WORDS[i]}")
    fi
    line=${rest#"${COMP_WORDS[i]}"}
  done
  local cur=${words[-1]} count=$((${#words[@]} - 1)) command="" verb="" option=""
  local places=0
  for ((i = 1; i < count; i++)); do
    if [[ -n $option ]]; then
      option=""
    elif [[ ${words[i]} == -- && $command == @(run|perf) ]]; then
      break
    elif [[ ${words[i]} == @(-h|--help|--version) ]]; then
      continue
    elif [[ ${words[i]} == --* ]]; then
      option=${words[i]}
    elif [[ -z $command ]]; then
      command=${words[i]}
    elif [[ $command == @(run|perf) ]]; then
      break
    elif [[ $command == @(addr|route|inputs) && -z $verb ]]; then
      verb=${words[i]}
    else
      places=$((places + 1))
    fi
  done

  local found
  if [[ $command == perf && -z $option && $cur != -* ]] || ((i < count)) &&
    [[ $command == perf ]]; then
    # The words of urnic-perf.
    if ((i < count)); then
      found=$(compgen -W "--test --bytes --all --seconds --depth --paths \
        --lanes --tcp-port --loopback --help" -- "$cur")
    else
      found=$(compgen -W "rud" -- "$cur")
    fi
  elif ((i < count)); then
    # The program of `urnic run`, and its arguments.
    [[ ${words[i]} != -- ]] || i=$((i + 1))
    if declare -F _command_offset >/dev/null; then
      _command_offset "$((COMP_CWORD - (count - i)))"
      return
    fi
    if ((i == count)); then
      found=$(compgen -c -- "$cur")
    else
      found=$(compgen -f -- "$cur")
    fi
  elif [[ -n $option ]]; then
    found=$(_urnic_values "$option" "$cur")
  elif [[ $cur == -* ]]; then
    found=$(compgen -W "$(_urnic_options "$command")" -- "$cur")
  elif [[ -z $command || $command == help ]]; then
    found=$(compgen -W "run addr route show top export trace capture dump inputs explain state clean guard demo perf doctor help" -- "$cur")
  elif [[ $command == @(addr|route) && -z $verb ]]; then
    found=$(compgen -W "add del" -- "$cur")
  elif [[ $command == inputs && -z $verb ]]; then
    found=$(compgen -W "start stop" -- "$cur")
  elif [[ $command == run ]]; then
    found=$(compgen -c -- "$cur")
  elif [[ $command == @(addr|route|state|dump) ]] && ((places == 0)); then
    found=$(compgen -W "$(_urnic_devices)" -- "$cur")
  fi
  [[ -z $found ]] || mapfile -t COMPREPLY <<<"$found"
  if [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *[=:] ]]; then
    compopt -o nospace 2>/dev/null
  fi
  # Readline replaces only what follows the last ":" or "=" at which it cuts.
  local breaks=${COMP_WORDBREAKS//[^:=]/}
  if [[ -n $breaks && $cur == *["$breaks"]* ]]; then
    COMPREPLY=("${COMPREPLY[@]#"${cur%"${cur##*["$breaks"]}"}"}")
  fi
}

complete -F _urnic urnic
