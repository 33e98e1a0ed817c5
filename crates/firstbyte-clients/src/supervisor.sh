# Starts a program with its pipes at 3 and 4, and ends it when the lifeline is closed: by who started this, or by the
# kernel, where that was killed. Arguments: the home, the program, its arguments.
home=$1
shift
# Opened for both first: that does not wait for a writer, where whoever started this has ended already.
exec 6<>"$home/lifeline" 5<"$home/lifeline" 6<&- 3<&0 4>&1 </dev/null >/dev/null
setsid "$@" 5<&- &
program=$!
exec 3<&- 4>&-
while read -r _ <&5; do :; done
# Not yet the leader of a group of its own, if it was hardly begun.
kill -s KILL -- "-$program" 2>/dev/null || kill -s KILL "$program" 2>/dev/null
wait "$program" 2>/dev/null
# What its group's processes still write comes to an end; that of others of its children with it.
tries=0
until rm -rf -- "$home" 2>/dev/null || [ "$tries" -ge 200 ]; do
    tries=$((tries + 1))
    sleep 0.01
done
