#!/usr/bin/env bash
# peers.sh CACHE NAME : puts a runnable server (redis, etcd, zookeeper) into CACHE/peer-NAME.
#
# For Debian on x86_64, like the script of testenv that does the same for the databases: needs no root, installs
# nothing. redis and etcd come with their libraries, C library and loader included; zookeeper comes as its jar files and
# runs on the java of the machine. The folder appears by rename, so it is there whole or not at all.
set -euo pipefail

cache=${1:?cache folder} name=${2:?name}
command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null || { echo "packages are for Debian, and apt-get is not here" >&2; exit 1; }
mkdir -p "$cache"
exec 9>>"$cache/lock"
flock 9
[ ! -d "$cache/peer-$name" ] || exit 0
work=$(mktemp -d "$cache/.work.XXXXXX")
trap 'rm -rf "$work"' EXIT

codename=$(. /etc/os-release && echo "$VERSION_CODENAME")
mirror=$(apt-get indextargets --format '$(RELEASE) $(REPO_URI)' 'Created-By: Packages' | awk -v c="$codename" '$1 == c { print $2; exit }')
[ -n "$mirror" ] || { echo "no Debian mirror in the apt sources of this machine" >&2; exit 1; }
mkdir -p "$work"/{lists,archives}/partial "$work/tree"
: >"$work/status"
echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg arch=amd64] $mirror $codename main" >"$work/sources.list"
apt=(apt-get -qq -o Dir::Etc::sourcelist="$work/sources.list" -o Dir::Etc::sourceparts=/dev/null
  -o Dir::Etc::preferences=/dev/null -o Dir::Etc::preferencesparts=/dev/null -o Dir::State="$work"
  -o Dir::State::status="$work/status" -o Dir::State::lists="$work/lists" -o Dir::Cache="$work"
  -o Dir::Cache::archives="$work/archives" -o Dir::Log="$work/log" -o APT::Sandbox::User= -o APT::Install-Recommends=0
  -o Acquire::Languages=none -o Acquire::Retries=3 -o Debug::NoLocking=1)
"${apt[@]}" update >/dev/null

# fetch PACKAGE... : these packages alone, unpacked.
fetch() {
  (cd "$work/archives" && "${apt[@]}" download "$@" >/dev/null)
  for file in "$work"/archives/*.deb; do
    dpkg-deb --fsys-tarfile "$file" | tar -x -C "$work/tree" --no-same-owner --exclude='./usr/share/doc' --exclude='./usr/share/man'
  done
}

case $name in
  redis) fetch redis-server redis-tools libc6 libgcc-s1 libatomic1 libstdc++6 libjemalloc2 liblzf1 libssl3 libsystemd0 \
    libcap2 libgcrypt20 libgpg-error0 liblz4-1 liblzma5 libzstd1 ;;
  etcd) fetch etcd-server libc6 ;;
  zookeeper)
    command -v java >/dev/null || { echo "ZooKeeper needs java on PATH" >&2; exit 1; }
    fetch libzookeeper-java libslf4j-java libnetty-java libsnappy-java libdropwizard-metrics-java libcommons-cli-java \
      libcommons-io-java libjackson2-core-java libjackson2-databind-java libjackson2-annotations-java libjetty9-java \
      libservlet-api-java
    ;;
  *) echo "no such peer: $name" >&2; exit 2 ;;
esac
mv "$work/tree" "$cache/peer-$name"
