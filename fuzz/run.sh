#!/usr/bin/env bash
# run.sh [TARGET…]: builds the fuzz targets with stable Rust, without cargo-fuzz, and runs each (all without TARGET) from its seeds.
#   FLOPGAP_FUZZ_SECONDS  how long each target runs (60); 0: its seeds alone
#   FLOPGAP_FUZZ_SEED     seed of the mutations (1, so that a change is not refused for an older fault); 0: another one each time
#   FLOPGAP_FUZZ_JOBS     targets at a time (2)
#   FLOPGAP_FUZZ_FOUND    folder for inputs that fail (fuzz/found)
# Exit code 0: nothing found; 1: a target failed; 4: there is no C++ compiler.
set -euo pipefail
cd "$(dirname "$0")"
seconds=${FLOPGAP_FUZZ_SECONDS:-60} seed=${FLOPGAP_FUZZ_SEED:-1} jobs=${FLOPGAP_FUZZ_JOBS:-2} found=${FLOPGAP_FUZZ_FOUND:-$PWD/found}
# Beside what others compile: the flags below are of these programs alone.
target=${CARGO_TARGET_DIR:-$PWD/target}/fuzz
host=$(rustc -vV | sed -n 's/^host: //p')
if [ $# = 0 ]; then
    set -- $(basename -s .rs fuzz_targets/*.rs)
fi

# What cargo-fuzz passes, except the address sanitizer, which needs nightly Rust: the readers have no unsafe code.
coverage='-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 -Cllvm-args=-sanitizer-coverage-inline-8bit-counters
    -Cllvm-args=-sanitizer-coverage-pc-table -Cllvm-args=-sanitizer-coverage-trace-compares --cfg=fuzzing'
bins=()
for name; do bins+=(--bin "$name"); done
# With --target, build scripts and macros are compiled without these flags.
if ! command -v c++ >/dev/null; then
    echo 'no fuzz target was built: libFuzzer needs a C++ compiler' >&2
    exit 4
fi
CARGO_TARGET_DIR=$target RUSTFLAGS=$coverage cargo build --quiet --locked --profile fuzz --target "$host" "${bins[@]}"

# In memory where the system has such a folder: every input is a file.
if [ -w /dev/shm ]; then export TMPDIR=/dev/shm; fi
work=$(mktemp -d)
export TMPDIR=$work
trap 'rm -rf "$work"' EXIT
export target host seconds seed found work
one() {
    mkdir -p "$work/$1" "$found"
    limits=(-rss_limit_mb=2048 -timeout=20 -max_len=65536 -seed="$seed")
    # -runs=0 runs the seeds and ends.
    if [ "$seconds" = 0 ]; then limits+=(-runs=0); else limits+=(-max_total_time="$seconds"); fi
    case $1 in
    timings) seeds=(seeds/nsys_export) ;;
    sqlite_pages) seeds=(seeds/sqlite_pages seeds/nsys_export) ;;
    source) seeds=(seeds/nsys_export seeds/ncu_csv seeds/kineto) ;;
    *) seeds=("seeds/$1") ;;
    esac
    "$target/$host/fuzz/$1" "$work/$1" "${seeds[@]}" "${limits[@]}" -artifact_prefix="$found/$1-" >"$work/$1.log" 2>&1 || {
        printf '%s failed:\n' "$1"
        tail -n 40 "$work/$1.log"
        return 1
    }
    printf '%-14s %s\n' "$1" "$(grep -aE 'Done|INITED' "$work/$1.log" | tail -n 1)"
}
export -f one
printf '%s\n' "$@" | xargs -P "$jobs" -I NAME bash -c 'one NAME'
