#!/usr/bin/env bash
# provision.sh CACHE : puts a Chromium without a window, and a font, below CACHE/chromium.
#
# For Debian on x86_64. It needs no root and installs nothing: the folder has the packages of the machine's own release
# with their whole closure of libraries, and the program is started with LD_LIBRARY_PATH (see chromium.go). The mirror is
# the one that the machine's own apt sources name. The folder appears by rename, so it is there whole or not at all.
set -euo pipefail

cache=${1:?cache folder}
mkdir -p "$cache"
[ ! -d "$cache/chromium" ] || exit 0
work=$(mktemp -d "$cache/.work.XXXXXX")
trap 'rm -rf "$work"' EXIT

codename=$(. /etc/os-release && echo "$VERSION_CODENAME")
base=$(apt-get indextargets --format '$(RELEASE) $(REPO_URI)' 'Created-By: Packages' |
  awk -v c="$codename" '$1 == c { print $2; exit }')
[ -n "$base" ] || { echo "no Debian mirror in the apt sources of this machine" >&2; exit 1; }

# An apt-get with its own state: no package counts as installed, so the closure is whole.
dir=$work/apt
mkdir -p "$dir"/{lists/partial,archives/partial,log}
: >"$dir/status"
echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg arch=amd64] $base $codename main" >"$dir/sources.list"
apt=(apt-get -qq
  -o Dir::Etc::sourcelist="$dir/sources.list" -o Dir::Etc::sourceparts=/dev/null
  -o Dir::Etc::preferences=/dev/null -o Dir::Etc::preferencesparts=/dev/null
  -o Dir::State="$dir" -o Dir::State::status="$dir/status" -o Dir::State::lists="$dir/lists"
  -o Dir::Cache="$dir" -o Dir::Cache::archives="$dir/archives" -o Dir::Log="$dir/log"
  -o APT::Sandbox::User= -o APT::Install-Recommends=0 -o Acquire::Languages=none
  -o Acquire::Retries=3 -o Debug::NoLocking=1)
packages=(chromium-headless-shell fonts-dejavu-core)
"${apt[@]}" update >/dev/null 2>"$dir/log/update" || { cat "$dir/log/update" >&2; exit 1; }
size=$("${apt[@]}" --yes --print-uris install "${packages[@]}" | awk '{ n += $3 } END { printf "%.0f", n / 1e6 }')
echo "fetching Chromium and its libraries from Debian $codename: $size MB into $cache" >&2
"${apt[@]}" --yes --download-only install "${packages[@]}" >/dev/null

tree=$work/chromium
mkdir -p "$tree"
for file in "$dir"/archives/*.deb; do
  # The C library is the machine's: the release is the same. Nothing is drawn by a graphics card.
  case ${file##*/} in libc6_* | libc-bin_* | perl* | libperl* | libllvm* | libz3-* | libgl1-mesa-dri_*) continue ;; esac
  dpkg-deb --fsys-tarfile "$file" | tar -x -C "$tree" --no-same-owner \
    --exclude='./usr/share/doc' --exclude='./usr/share/man' --exclude='./usr/share/locale' --exclude='./usr/share/icons'
done
cat >"$tree/fonts.conf" <<XML
<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig><dir>$cache/chromium/usr/share/fonts</dir><cachedir>/tmp/rowlock-fonts</cachedir></fontconfig>
XML
mv "$tree" "$cache/chromium"
