#!/bin/bash
# Starts weir-proxy.service under a systemd of its own, as process 1 of new namespaces, on
# a machine whose process 1 is another program, such as a container or a build machine.
# It needs root, systemd 247 or newer, and a static weir. Files of the machine do not
# change. End it with Ctrl-C.
#
#   deploy/systemd/try.sh bin/weir
#
# Then, in another shell, with the process that it prints:
#
#   nsenter -t PID -m -p -u -i -C systemctl status weir-proxy
#   nsenter -t PID -m -p -u -i -C systemctl reload weir-proxy
set -eu
weir=$(realpath "$1")
here=$(realpath "$(dirname "$0")")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
chmod 755 "$work"
mkdir -p "$work/units/weir-proxy.service.d"
# Of the machine's units, only targets: nothing else must start.
for unit in basic sysinit sockets timers paths slices shutdown umount final local-fs swap network network-online multi-user exit; do
	if [ -e "/lib/systemd/system/$unit.target" ]; then cp -L "/lib/systemd/system/$unit.target" "$work/units/"; fi
done
cp "$here/weir-proxy.service" "$work/units/"
cat >"$work/units/weir-proxy.service.d/output.conf" <<END
[Service]
StandardOutput=file:$work/requests.log
StandardError=file:$work/weir.log
END
unshare --fork --pid --mount --uts --ipc --cgroup --propagation private bash -eu -c '
	work=$1 here=$2 weir=$3
	mount --make-rshared / # systemd hands the credentials over through a shared mount
	mount -t proc proc /proc
	mount -t tmpfs tmpfs /run
	mount -t tmpfs tmpfs /var/lib
	mount -t tmpfs tmpfs /usr/local
	install -D "$weir" /usr/local/bin/weir
	mkdir -p /run/etc/upper /run/etc/work
	mount -t overlay -o lowerdir=/etc,upperdir=/run/etc/upper,workdir=/run/etc/work overlay /etc
	rm -rf /etc/systemd/system
	install -D -m 644 "$here/weir.yaml" /etc/weir/weir.yaml
	(umask 077 && head -c 24 /dev/urandom | base64 >/etc/weir/admin.token)
	exec env container=weir SYSTEMD_UNIT_PATH="$work/units" \
		/lib/systemd/systemd --system --unit=weir-proxy.service --log-target=console
' weir-systemd "$work" "$here" "$weir" &
ours=$!
sleep 2
init=$(pgrep -P "$ours" -x systemd)
trap 'kill -KILL "$init"; rm -rf "$work"' EXIT
echo "systemd is process $init; the log is $work/weir.log"
wait "$ours"
