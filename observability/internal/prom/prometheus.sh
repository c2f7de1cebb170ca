#!/usr/bin/env bash
# prometheus.sh DIR : puts prometheus and promtool below DIR/usr/bin, out of Debian's packages. For Debian on x86_64, whose
# C library they use. Needs no root and installs nothing. DIR appears by rename, so it is there whole or not at all.
set -euo pipefail

dir=${1:?folder}
[ ! -x "$dir/usr/bin/prometheus" ] || exit 0
mkdir -p "$(dirname "$dir")"
work=$(mktemp -d "$dir.XXXXXX")
trap 'rm -rf "$work"' EXIT

# An apt-get with its own state: it works without root, and where the machine's lists were removed.
codename=$(. /etc/os-release && echo "$VERSION_CODENAME")
mirror=$(apt-get indextargets --format '$(RELEASE) $(REPO_URI)' 'Created-By: Packages' |
  awk -v c="$codename" '$1 == c { print $2; exit }')
[ -n "$mirror" ] || { echo "prometheus.sh: no Debian mirror in the apt sources of this machine" >&2; exit 1; }
apt=$work/apt
mkdir -p "$apt"/{lists/partial,archives/partial,log}
: >"$apt/status"
echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg arch=amd64] $mirror $codename main" >"$apt/sources.list"
options=(-qq -o Dir::Etc::sourcelist="$apt/sources.list" -o Dir::Etc::sourceparts=/dev/null
  -o Dir::Etc::preferences=/dev/null -o Dir::Etc::preferencesparts=/dev/null
  -o Dir::State="$apt" -o Dir::State::status="$apt/status" -o Dir::State::lists="$apt/lists"
  -o Dir::Cache="$apt" -o Dir::Cache::archives="$apt/archives" -o Dir::Log="$apt/log"
  -o APT::Sandbox::User= -o Acquire::Languages=none -o Acquire::Retries=3 -o Debug::NoLocking=1)
apt-get "${options[@]}" update >/dev/null
packages=(prometheus)
apt-cache "${options[@]}" show promtool >/dev/null 2>&1 && packages+=(promtool) # since Debian 13
echo "prometheus.sh: fetching ${packages[*]} from Debian $codename: 20 MB each into $dir" >&2
(cd "$work" && apt-get "${options[@]}" download "${packages[@]}")
mkdir "$work/tree"
for package in "$work"/*.deb; do
  dpkg-deb --fsys-tarfile "$package" | tar -x -C "$work/tree" --no-same-owner --wildcards './usr/bin/prom*'
done
[ -x "$work/tree/usr/bin/promtool" ] || { echo "prometheus.sh: no promtool in ${packages[*]}" >&2; exit 1; }
[ -d "$dir" ] || mv "$work/tree" "$dir"
