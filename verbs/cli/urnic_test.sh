#!/bin/bash
# The urnic command as it is installed: bin and lib next to each other, in any
# directory.
set -u
here=$PWD/verbs
. "$here/preload/testing/expect.sh"
need ibv_devices:ibverbs-utils

tree=$TEST_TMPDIR/tree
mkdir -p "$tree/bin" "$tree/lib" "$TEST_TMPDIR/run"
cp "$here/cli/urnic" "$tree/bin/"
cp "$here/preload/liburnic-preload.so" \
  "$here/preload/testing/liburnic-rdmav34.so" "$tree/lib/"
for private in 57 59 64 65; do
  ln -s liburnic-rdmav34.so "$tree/lib/liburnic-rdmav$private.so"
done
export XDG_RUNTIME_DIR=$TEST_TMPDIR/run
unset LD_PRELOAD IBV_DRIVERS URNIC_PORTS
# The command, preloaded by itself, in a build with AddressSanitizer.
export ASAN_OPTIONS=${ASAN_OPTIONS:-}:verify_asan_link_order=0
urnic=$tree/bin/urnic
cd /

# status WANTED COMMAND...: checks its exit status; its output goes to $out.
status() {
  local wanted=$1 got
  shift
  out=$("$@" 2>&1)
  got=$?
  [[ $got == "$wanted" ]] || fail "exit status $got, not $wanted: $*"$'\n'"$out"
}

echo "== run"
status 0 "$urnic" run --port loop --addr 10.0.0.1/24 ibv_devices
expect "lists the device: $out" contains "$out" urnic0
status 0 "$urnic" run --port loop --port iface:lo -- ibv_devices
expect "lists the second: $out" contains "$out" urnic1
status 0 env RDMAV_DRIVERS=other SYSFS_PATH=/nowhere \
  "$urnic" run --port loop ibv_devices
expect "lists it against other variables: $out" contains "$out" urnic0
status 7 "$urnic" run --port loop -- sh -c 'exit 7'
status 127 "$urnic" run --port loop no-such-program
expect "names it: $out" contains "$out" ': no-such-program: there is no such pro'
status 126 "$urnic" run --port loop /etc/passwd
expect "names it: $out" contains "$out" ' /etc/passwd cannot be executed: Permis'
status 127 "$urnic" run --port loop ./no-such-program
expect "names it: $out" contains "$out" ' ./no-such-program cannot be executed: '
status 2 "$urnic" run --port loop
expect "says how: $out" contains "$out" 'no program'
status 2 "$urnic" run ibv_devices
expect "says how: $out" contains "$out" 'no port; give --port'
status 2 "$urnic" run --port loop --mode service true
expect "says so: $out" contains "$out" 'service is not built yet'
status 2 "$urnic" run --port loop --mtu x true
expect "says so: $out" contains "$out" '^urnic run: --mtu "x" is not a number$'
status 2 "$urnic" run --bogus
expect "says so: $out" contains "$out" '^urnic run: unknown option "--bogus"; '
status 2 "$urnic" run --prot=loop true
expect "guesses: $out" contains "$out" \
  '^urnic run: unknown option "--prot=loop": did you mean "--port"\?$'
status 2 "$urnic" doctor now
expect "says so: $out" contains "$out" '^urnic doctor: unexpected argument "now"'
status 2 "$urnic" run --port
expect "says so: $out" contains "$out" '^urnic run: --port needs a value: DEV;'
status 2 "$urnic" run --port loop --mtu 1500 --mtu 1500 true
expect "says so: $out" contains "$out" '^urnic run: --mtu is given more than'
status 2 "$urnic" --bogus
expect "says so: $out" contains "$out" '^urnic: unknown option "--bogus"; '
status 2 env URNIC_HUGEPAGES=maybe "$urnic" run --port loop true
expect "says so: $out" contains "$out" '^urnic run: URNIC_HUGEPAGES "maybe" is'
status 0 env LD_PRELOAD= IBV_DRIVERS=mine "$urnic" run --port loop env
expect "keeps IBV_DRIVERS" \
  contains "$out" "^IBV_DRIVERS=$tree/lib/liburnic:mine$"
expect "no empty part" contains "$out" "^LD_PRELOAD=$tree/lib/[^:]*\$"
status 0 "$urnic" run --port loop "$urnic" run --port loop env
expect "nests" contains "$out" '^URNIC_PORTS=loop$'

echo "== addr"
# Another program with an RNIC, as far as urnic sees one: DIR has its directory,
# and it answers QUESTION alone, with ANSWER, in which %PID% is its process ID.
# It ends with its input. Arguments: DIR QUESTION ANSWER.
fake_program='import os, socket, sys, threading
parent, question, answer = sys.argv[1:]
answer = answer.replace("%PID%", str(os.getpid())).encode()
start = open("/proc/self/stat").read().rsplit(") ")[1].split()[19]
space = os.stat("/proc/self/ns/pid").st_ino
own = os.path.join(parent, f"urnic-{space}-{os.getpid()}-{start}")
os.mkdir(own)
os.chdir(own)
listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
listener.bind("urnic0.sock")
listener.listen()
def serve():
    while True:
        with listener.accept()[0] as asked:
            if asked.recv(256) == question.encode(): asked.send(answer)
threading.Thread(target=serve, daemon=True).start()
print(os.getpid(), flush=True)
sys.stdin.read()
os.remove("urnic0.sock")
os.rmdir(own)'
# The RNICs of other programs have their directories in /tmp. This one has no
# queue pair.
coproc COMPANY { exec python3 -c "$fake_program" /tmp state $'ok\n'; }
read -r other <&"${COMPANY[0]}"
status 1 "$urnic" addr add urnic0 10.0.0.2/24 --process "$other"
expect "finds it: $out" lacks "$out" 'no program has'
status 0 "$urnic" state --process "$other"
expect "has its header alone: $out" contains "$out" '^urnic0, process [0-9]+'
for qpn in 99 0 0xffffff; do
  status 1 "$urnic" state --qp $qpn --process "$other"
  expect "says so: $out" contains "$out" '^urnic state: no queue pair 0x'
  expect "has no header: $out" lacks "$out" '^urnic0'
done
status 1 "$urnic" addr --process "$XDG_RUNTIME_DIR"
expect "says so: $out" contains "$out" 'no program has an RNIC open'
status 1 "$urnic" addr --process $$
expect "says so: $out" contains "$out" 'no program has an RNIC open'
# Leftovers of a program that was killed in another PID namespace are not an
# RNIC either.
left=$XDG_RUNTIME_DIR/urnic-1-$$-1
mkdir "$left"
(cd "$left" && python3 -c 'import socket
socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET).bind("urnic0.sock")')
status 1 "$urnic" addr --process "$left"
expect "passes it over: $out" contains "$out" 'no program has an RNIC open'
rm -r "$left"
status 1 "$urnic" addr add urnic0 10.0.0.2/24 --process 1
expect "names it: $out" contains "$out" 'urnic0 open in process 1; '
eval "exec ${COMPANY[1]}>&-"
wait
# A mistake is reported whether or not a program runs.
status 2 "$urnic" addr add urnic0 10.1.0.9
expect "names it: $out" contains "$out" '^urnic addr: .*"10.1.0.9"'
status 2 "$urnic" addr del urnic0 10.1.0.9/33 --process $$
expect "names it: $out" contains "$out" '^urnic addr: .*10.1.0.9/33'
status 2 "$urnic" route add urnic0 foo
expect "names it: $out" contains "$out" '^urnic route: route "foo": "foo" is'
status 2 "$urnic" addr add urnic0
status 2 "$urnic" addr move urnic0 10.0.0.2/24
expect "names it: $out" contains "$out" '^urnic addr: unexpected argument "move"; '
status 2 "$urnic" addr ad urnic0 10.0.0.2/24
expect "guesses: $out" contains "$out" \
  '^urnic addr: unexpected argument "ad": did you mean "add"\?$'
status 2 "$urnic" addr add urnic0 10.0.0.2/24 --proces 5
expect "guesses: $out" contains "$out" ' "--proces": did you mean "--process"\?$'
status 2 "$urnic" addr add urnic0 10.0.0.2/24 --process
expect "names it: $out" contains "$out" ': --process needs a value: PID\|DIR; '
status 2 "$urnic" addr add urnic0 10.0.0.2/24 extra
expect "names it: $out" contains "$out" '^urnic addr: unexpected argument "extra"; '

echo "== state"
status 1 "$urnic" state --process "$XDG_RUNTIME_DIR"
expect "says so: $out" contains "$out" 'no program has an RNIC open'
status 2 "$urnic" state urnic0 --qp many
expect "says so: $out" contains "$out" '^urnic state: --qp "many" is not a QPN'
#= IBTA 10.2.4.4
status 2 "$urnic" state urnic0 --qp 0x1000000
status 1 "$urnic" state --qp 0x99 --process "$XDG_RUNTIME_DIR"
expect "says so: $out" contains "$out" 'no program has an RNIC open'

echo "== recordings"
status 0 "$urnic" show recording
status 2 "$urnic" show recording --from /dev/null
status 2 "$urnic" show offender --from /dev/null
expect "says so: $out" contains "$out" 'does not list offenders: leave --from'
mkfifo "$TEST_TMPDIR/fifo"
for file in /dev/null "$TEST_TMPDIR/fifo" "$TEST_TMPDIR" "$0"; do
  status 1 "$urnic" show qp --from "$file"
  status 1 "$urnic" state --from "$file"
  expect "names the file: $out" contains "$out" "^urnic state: $file: "
done
status 2 "$urnic" dump --output a --to b:1
for to in 127.0.0.1:99999 127.0.0.1:0 '[::1]:-1' 127.0.0.1:http; do
  status 2 "$urnic" dump --to "$to"
  expect "names it: $out" contains "$out" 'dump: --to ".*": ".*" is not a port from 1 to 65535$'
done
status 2 "$urnic" dump --pid abc
expect "says so: $out" contains "$out" '--pid: Value abc not in range 1 to 4194304'
status 1 "$urnic" dump --process "$XDG_RUNTIME_DIR"
expect "says so: $out" contains "$out" '^urnic dump: no program has an RNIC open'

echo "== clean"
# status_clean WANTED ARGUMENTS...: of the directories of this test alone.
status_clean() {
  local wanted=$1
  shift
  status "$wanted" "$urnic" clean "$@"
  out=$(grep -F -e "$XDG_RUNTIME_DIR/" <<<"$out")
}
# A program has a directory once it looks for devices.
coproc VICTIM { exec "$urnic" run --port loop -- python3 -c 'import os, sys
os.listdir("/sys/class/infiniband")
print(os.getpid(), flush=True)
sys.stdin.read()'; }
read -r victim <&"${VICTIM[0]}"
left=$(echo "$XDG_RUNTIME_DIR"/urnic-*-"$victim"-*)
expect "it has a directory: $left" test -d "$left"
status_clean 0
expect "a live program keeps it: $out" test -d "$left" -a -z "$out"
kill -9 "$victim"
wait "$victim" 2>/dev/null
status 0 "$urnic" doctor
expect "doctor points here: $out" contains "$out" 'WARN +leftovers .*: [0-9]'
expect "doctor points here: $out" contains "$out" '-> urnic clean lists'
for option in -n --dry-run; do
  status_clean 0 $option
  expect "names it: $out" contains "$out" \
    "^what run-directory path $left pid $victim comm python3[.0-9]* age-s [0-9]+ result found\$"
done
status_clean 0 --dry-run --json
expect "prints JSON: $out" contains "$out" \
  "^\[.*\{\"what\":\"run-directory\",\"path\":\"$left\",\"pid\":$victim,"
expect "nothing is removed" test -d "$left"
status 0 "$urnic" clean
expect "has totals: $out" contains "$(tail -n 1 <<<"$out")" '^[0-9]+ removed'
expect "says so: $out" contains "$out" "path $left .* result removed\$"
expect "it is removed" test ! -e "$left"
status_clean 0
expect "finds no more: $out" test -z "$out"
status 2 "$urnic" clean everything

echo "== guard"
# mistake WORDS EXPECTED: on the command line.
mistake() {
  # shellcheck disable=SC2086
  status 2 "$urnic" guard $1
  expect "says so: $out" contains "$out" "^urnic guard: .*$2"
}
mistake '--policy kil' 'did you mean "kill"'
mistake '--policy stop' 'the policies are log, term, kill'
mistake '--policy kill' 'needs --program NAME'
mistake '--program fio' '--program needs --policy'
mistake '--policy term --program a-name-of-16-ch.' 'write "a-name-of-16-ch"'
mistake '--grace 5' '--grace: "5" is not a time from'
mistake '--interval 10ms' '--interval: "10ms" is not a time from'
status 2 "$urnic" guard --policy term --program ''
expect "says so: $out" contains "$out" '--program: an empty name'
coproc COMPANY { exec python3 -c "$fake_program" "$XDG_RUNTIME_DIR" \
  'show offender' $'ok\noffender\tdev:urnic0\tnumber=1\tblocks:recovery'\
$'\twhat:\x1b a queue pair\tsince:2026\tcomm:fake\tpid=%PID%\n'; }
read -r other <&"${COMPANY[0]}"
line="dev urnic0 pid $other comm fake blocks recovery what \\? a queue pair since 2026"
status 1 "$urnic" guard --once
expect "names it: $out" contains "$out" "^at 2.* event found $line\$"
status 1 "$urnic" guard --once -j
expect "prints JSON: $out" contains "$out" \
  "^\{\"at\":\".*\",\"event\":\"found\",\"dev\":\"urnic0\",\"pid\":$other,.*\}\$"
status 1 "$urnic" guard --once --policy kill --program fak --grace 0s
expect "means another: $out" lacks "$out" sigterm
expect "lives" kill -0 "$other"
status 0 timeout --preserve-status -s INT 2 "$urnic" guard --interval 100ms
expect "tells it once: $out" test "$(grep -cE "event found $line" <<<"$out")" = 1
expect "has totals: $out" contains "$(tail -n 1 <<<"$out")" \
  '^[0-9]+ found, .* left; 0 SIGTERM, 0 SIGKILL$'
# There may be other programs on the machine, so its status is not known.
out=$("$urnic" guard --once --policy kill --program nobody --program fake 2>&1)
for event in found sigterm gone; do
  expect "has $event: $out" contains "$out" " event $event $line\$"
done
expect "SIGTERM is enough: $out" lacks "$out" sigkill
wait
out=$("$urnic" guard --once 2>&1)
expect "it is gone: $out" lacks "$out" "pid $other "

echo "== inputs"
status 2 "$urnic" inputs
status 2 "$urnic" inputs start
status 2 "$urnic" inputs start 0
status 2 "$urnic" inputs start 17 --kib 63
expect "says so: $out" contains "$out" '--kib'
status 1 "$urnic" inputs stop 17
coproc COMPANY { exec python3 -c "$fake_program" "$XDG_RUNTIME_DIR" \
  'inputs start 17 256' $'ok\n'; }
read -r other <&"${COMPANY[0]}"
status 0 "$urnic" inputs start 17 --process "$other"
expect "says where: $out" contains "$out" \
  "^urnic inputs: queue pair 17 of urnic0, process $other "
eval "exec ${COMPANY[1]}>&-"
wait

echo "== mistakes before any program is asked"
status 2 "$urnic" show qp lqpn abc
expect "names it: $out" contains "$out" '^urnic show: lqpn: "abc" is not a number'
status 2 "$urnic" show qp lqpn 5-3
status 2 "$urnic" trace --levels pid -5
status 2 "$urnic" trace --set all=2 pid 0x
status 2 "$urnic" trace level 11
expect "lists them: $out" contains "$out" '"11"; there is 0, 1, 2, 3, 4, .* 9$'
status 2 "$urnic" trace component foo
expect "lists them: $out" contains "$out" '"foo"; there is verbs, .*completion$'
status 2 "$urnic" trace point packet-recieved
expect "guesses: $out" contains "$out" 'did you mean "packet-received"\?$'
status 2 "$urnic" trace --set ''
expect "says so: $out" contains "$out" 'the components are all, verbs, '
for count in -3 0 x; do
  status 2 "$urnic" capture --count $count --output "$TEST_TMPDIR/frames"
  status 2 "$urnic" top --number $count
  expect "has bounds: $out" contains "$out" 'not in range 1 to 1000000000;'
  status 2 "$urnic" capture --seconds $count --output "$TEST_TMPDIR/frames"
  expect "has bounds: $out" contains "$out" 'not in range 0.001000 to 1000000.0'
done
for peer in 10.77.0.2/40 10.77.0.2/16 default '10.0.0.0/8 metric 3'; do
  status 2 "$urnic" capture --peer "$peer" --output "$TEST_TMPDIR/frames"
  expect "is about --peer: $out" contains "$out" "--peer: \"$peer\" is not IP or IP"
done
expect "nothing is captured" test ! -e "$TEST_TMPDIR/frames"

echo "== output that cannot be written"
for words in explain 'explain --json' 'explain 1001' 'show recording --json' --help; do
  # shellcheck disable=SC2086,SC2016
  status 1 sh -c '"$@" >/dev/full' sh "$urnic" $words
  expect "says why: $out" contains "$out" ': cannot write: No space left on dev'
done
status 1 "$urnic" export --output /dev/full
expect "names it: $out" contains "$out" '/dev/full: it exists, and is not a file'
expect "it stays" test -c /dev/full
# Has no answer to "show link".
coproc COMPANY { exec python3 -c "$fake_program" "$XDG_RUNTIME_DIR" \
  'show dev' $'ok\ndev\tdev:urnic0\tqps=1\tpid=%PID%\tcomm:fake\n'; }
read -r other <&"${COMPANY[0]}"
echo old >"$TEST_TMPDIR/metrics"
status 1 "$urnic" export --process "$other" --output "$TEST_TMPDIR/metrics"
expect "the rest is written" test "$(tail -n 1 "$TEST_TMPDIR/metrics")" = '# EOF'
status 1 "$urnic" export --process "$other"
expect "prints what there is: $out" contains "$out" '# EOF'
eval "exec ${COMPANY[1]}>&-"
wait
# Its file of events does not fit where that of their classes does.
coproc COMPANY { exec python3 -c "$fake_program" "$XDG_RUNTIME_DIR" \
  'show trace' $'ok\ntrace\tlevel=4\tat-ns=1\tcomponent:qp\tpoint:failed'\
$'\tpid=%PID%\tcomm:'"$(printf '%02000d' 0)"$'\n'; }
read -r other <&"${COMPANY[0]}"
events=$TEST_TMPDIR/events
# shellcheck disable=SC2016
status 1 bash -c 'trap "" XFSZ; ulimit -f 1; exec "$@"' bash \
  "$urnic" trace --ctf "$events" --process "$other"
expect "names the file: $out" contains "$out" "$events/pid-$other: File too large"
expect "nothing is left" test ! -e "$events"
status 0 "$urnic" trace --ctf "$events" --process "$other"
expect "a second try succeeds" test -s "$events/metadata" -a -s "$events/pid-$other"
eval "exec ${COMPANY[1]}>&-"
wait

echo "== an incomplete tree"
mkdir -p "$TEST_TMPDIR/half/bin"
cp "$tree/bin/urnic" "$TEST_TMPDIR/half/bin/"
status 2 "$TEST_TMPDIR/half/bin/urnic" run --port loop true
expect "names the file: $out" \
  contains "$out" 'half/lib/liburnic-preload.so is mis'
status 1 "$TEST_TMPDIR/half/bin/urnic" doctor
expect "doctor says so: $out" contains "$out" '^FAIL  installation'

echo "== doctor, help, version"
status 0 "$urnic" doctor --port loop --addr 10.0.0.1/24
expect "knows the library: $out" contains "$out" 'OK +libibverbs .*IBVERBS_1'
expect "shows the port: $out" contains "$out" 'OK +urnic0 +loop'
status 1 "$urnic" doctor --port iface:no-such-if
expect "names the interface: $out" contains "$out" 'FAIL .*no-such-if'
status 0 "$urnic" --version
expect "version: $out" contains "$out" '^urnic [0-9]+\.'
status 0 "$urnic" --help
expect "help has run and doctor: $out" contains "$out" '^ +run .*'
expect "help has nothing unbuilt" lacks "$out" '^ +serve '
help=$out
status 0 "$urnic" help
expect "help is --help" test "$out" = "$help"
status 0 "$urnic" run --help
help=$out
status 0 "$urnic" help run
expect "help run is run --help" test "$out" = "$help"
status 2 "$urnic" help dance
expect "names it: $out" contains "$out" '^urnic: unknown subcommand "dance"'
status 2 "$urnic"
expect "says so: $out" contains "$out" '^urnic: no subcommand; the subcommands are run'
status 2 "$urnic" dance
expect "names it: $out" contains "$out" 'unknown subcommand "dance"'
expect "names the others: $out" contains "$out" 'run, addr, route, show, top, export, trace, capture, dump, inputs, explain, state, clean, guard, demo, perf, doctor'
status 2 "$urnic" ruN --port loop true
expect "guesses: $out" contains "$out" \
  '^urnic: unknown subcommand "ruN": did you mean "run"\?$'
status 0 "$urnic" run --help
expect "has the TOML keys: $out" contains "$out" 'URNIC_PORTS=.*ports = '

echo "== every help fits into 80 columns"
# helps WORDS...: the help of a command and of its subcommands.
helps() {
  local text name
  text=$("$urnic" "$@" --help) || fail "no help: $*"
  printf '%s\n' "$text"
  for name in $(sed -n '/^Subcommands:/,/^$/s/^  \([a-z]*\) .*/\1/p' <<<"$text"); do
    helps "$@" "$name"
  done
}
all=$(helps)
for usage in 'urnic \[OPTIONS\]' 'urnic run \[--port' 'urnic route \[--proc'; do
  expect "has $usage" contains "$all" "^Usage: $usage"
done
expect "fits: $(grep -E '.{81}' <<<"$all")" lacks "$all" '.{81}'
expect "keeps its example whole" contains "$all" \
  '^  urnic run --port loop --addr 10\.9\.0\.1/24 -- ibv_devinfo$'

finish
