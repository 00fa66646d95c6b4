#!/usr/bin/env bash
# Puts axe-core, which looks for what keeps people from using a page, into dist/: the
# version and the bytes that are named here, from the npm registry. It is not kept in the
# repository, since it is larger than everything that it looks at.
set -euo pipefail
cd "$(dirname "$0")/.."

version=4.14.1
sum=29348999450cdf2849a8e70b7912fc2da85a849da39c0d0d5394f51d4a9ed95c
to=dist/axe.min.js

right() { [ -f "$to" ] && echo "$sum  $to" | sha256sum --check --status; }
right && exit
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
(cd "$tmp" && npm pack --silent "axe-core@$version" >/dev/null)
mkdir -p dist
tar -xzf "$tmp/axe-core-$version.tgz" -O package/axe.min.js >"$to"
right || { echo "axe-core $version is not what it was: its checksum differs" >&2; rm -f "$to"; exit 1; }
