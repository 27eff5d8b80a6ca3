#!/bin/sh
# Installs the program flopgap of a release for Linux: downloads the archive of this machine, compares its checksum with the one of the
# release, and copies the program. Needs curl or wget, tar, and sha256sum.
#
#     FLOPGAP_RELEASE=https://… sh install.sh
#
# FLOPGAP_RELEASE      where the archives and SHA256SUMS lie
# FLOPGAP_INSTALL_DIR  where the program goes [default: ~/.local/bin]
set -eu

# `release/build` fills in the address of the releases that it builds for.
release=${FLOPGAP_RELEASE:-}
directory=${FLOPGAP_INSTALL_DIR:-${HOME:?}/.local/bin}

fail() {
    echo "install.sh: error: $1" >&2
    [ $# -lt 2 ] || echo "  hint: $2" >&2
    exit 1
}

download() {
    if command -v curl >/dev/null; then
        curl --fail --silent --show-error --location --output "$2" "$1"
    elif command -v wget >/dev/null; then
        wget --quiet --output-document "$2" "$1"
    else
        fail 'curl and wget are missing' 'install one of them'
    fi || fail "$1: download failed"
}

# All of it is read before it runs, so that half a download does nothing.
main() {
    [ -n "$release" ] || fail 'no address of a release' 'set FLOPGAP_RELEASE to the address of its SHA256SUMS, without the name'
    case $(uname -s)-$(uname -m) in
        Linux-x86_64 | Linux-amd64) target=x86_64-unknown-linux-gnu ;;
        Linux-aarch64 | Linux-arm64) target=aarch64-unknown-linux-gnu ;;
        *) fail "no program for $(uname -s) on $(uname -m)" 'releases are for Linux on x86-64 and aarch64; elsewhere build from source' ;;
    esac
    # musl has no such variable.
    version=$(getconf GNU_LIBC_VERSION 2>/dev/null) || fail 'this system has no glibc' 'the program needs glibc 2.28 or newer'
    minor=${version#glibc 2.}
    [ "${minor%%.*}" -ge 28 ] || fail "this system has $version" 'the program needs glibc 2.28 or newer'

    scratch=$(mktemp -d)
    trap 'rm -rf "$scratch"' EXIT
    trap 'exit 130' INT TERM
    download "$release/SHA256SUMS" "$scratch/SHA256SUMS"
    # A sum and a name, such as flopgap-0.1.0-x86_64-unknown-linux-gnu.tar.gz.
    line=$(grep "^[0-9a-f]\{64\}  flopgap-[0-9A-Za-z.-]*-$target\.tar\.gz\$" "$scratch/SHA256SUMS") || line=
    [ "$(echo "$line" | wc -w)" = 2 ] || fail "$release/SHA256SUMS: expected one archive for $target"
    archive=${line#*  }
    download "$release/$archive" "$scratch/$archive"
    (cd "$scratch" && echo "$line" | sha256sum -c - >/dev/null 2>&1) ||
        fail "$release/$archive: wrong checksum; nothing was installed" 'download again; if that does not help, report it'

    name=${archive%.tar.gz}
    tar -xzf "$scratch/$archive" -C "$scratch" "$name/flopgap"
    mkdir -p "$directory"
    # Renamed into place: a program that runs keeps its file.
    cp "$scratch/$name/flopgap" "$directory/.flopgap.$$"
    chmod 755 "$directory/.flopgap.$$"
    mv "$directory/.flopgap.$$" "$directory/flopgap"
    echo "installed $name: $directory/flopgap"
    case :$PATH: in
        *":$directory:"*) ;;
        *) echo "hint: add $directory to PATH" ;;
    esac
}

main
