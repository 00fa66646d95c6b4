#!/usr/bin/env bash
# Tollgate beside asynq on Redis and River on PostgreSQL, on this machine: prints the table
# of the README and leaves it in dist/, with every number as JSON. It installs what is
# missing from Debian's packages, and starts servers of its own. Arguments go to the
# program: bench/run.sh --jobs 3000 --idle 20
set -euo pipefail
cd "$(dirname "$0")/.."

install() { # the first argument is a program or pattern, the other the package that brings it
	compgen -G "$1" >/dev/null && return
	apt-get update -qq
	# A package starts a server of its own, which nobody here needs and which would share
	# the machine with what is measured.
	if [ ! -e /usr/sbin/policy-rc.d ]; then
		trap 'rm -f /usr/sbin/policy-rc.d' EXIT
		printf '#!/bin/sh\nexit 101\n' >/usr/sbin/policy-rc.d
		chmod +x /usr/sbin/policy-rc.d
	fi
	DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "$2" >&2
}
install /usr/bin/redis-server redis-server
install '/usr/lib/postgresql/*/bin/initdb' postgresql

make build >&2
(cd bench && go build -trimpath -o ../bin/bench-peers .)
bin/bench-peers --command "bench/run.sh${*:+ $*}" "$@"
