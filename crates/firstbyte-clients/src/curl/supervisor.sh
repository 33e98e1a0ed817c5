# Runs a program, and ends it when the lifeline is closed: by who started this, or by the kernel, where that was killed.
# What the program says goes out on one pipe, then the log that it left in its home, and behind it that it ended, with
# its status. Arguments: the home, the marker of lines that are not the program's, the program, its arguments.
home=$1 marker=$2
shift 2
# Opened for both first: that does not wait for a writer, where whoever started this has ended already.
exec 6<>"$home/lifeline" 5<"$home/lifeline" 6<&- 3<&0 </dev/null 2>&1
setsid "$@" <&3 3<&- 5<&- &
program=$!
exec 3<&-
(
    while read -r _ <&5; do :; done
    # Not yet the leader of a group of its own, if it was hardly begun. (dash has no `kill -KILL -- -PGID`.)
    kill -s KILL -- "-$program" || kill -s KILL "$program"
) >/dev/null 2>&1 &
watcher=$!
exec 5<&-
wait "$program"
status=$?
kill -s KILL "$watcher" 2>/dev/null
wait "$watcher" 2>/dev/null
# Who would read that may have ended.
trap '' PIPE
[ ! -f "$home/log" ] || cat "$home/log" 2>/dev/null
printf '\n%s end %s\n' "$marker" "$status" 2>/dev/null
rm -rf -- "$home"
