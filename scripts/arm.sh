#!/usr/bin/env bash
# 64-bit Arm on a machine that is none: builds for it, and runs what was built in an emulator.
#
#     bash scripts/arm.sh setup                     what is needed: a C compiler that links for Arm, an emulator, the standard library
#     bash scripts/arm.sh test [-cpu NAME] [...]    tests of the crate duan-cpu; more arguments go to `cargo test`
#     bash scripts/arm.sh lint                      clippy on duan-cpu as it is compiled for Arm, warnings as errors
#     bash scripts/arm.sh static [-cpu NAME]        a program without shared libraries, which answers a prompt
#
# `-cpu` names a CPU of the emulator: `max` (all that it knows, so also matrix products of bytes; the default), `neoverse-n1`
# (the dot product of bytes, and no matrix products) or `cortex-a53` (neither), for instance. `test` without more arguments
# runs every test of duan-cpu: half an hour, because the emulator computes floats in software. A name of a test cuts it
# short: `bash scripts/arm.sh test --lib simd`.
#
# `setup` is part of the others, and quick where everything is there. The standard library for Arm comes from, in this
# order: the toolchain (`rustup target add aarch64-unknown-linux-gnu`), the library's source in the toolchain (`rustup
# component add rust-src`), or Debian's package `rust-src` of the compiler's own version. Of the latter one file is
# fetched, checked against Debian's key and unpacked into the target folder. Nothing is installed from it, and the toolchain
# stays as it was.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

triple=aarch64-unknown-linux-gnu
linker=aarch64-linux-gnu-gcc
emulator=qemu-aarch64
suite=trixie-backports                                # of Debian: where newer compilers, and their sources, come
keyring=/usr/share/keyrings/debian-archive-keyring.gpg
model=crates/backend/tests/fixtures/smollm2/model.gguf
prompt=(-p "the cat" -n 8 --temp 0)
answer=$'vS\nkSSSS' # of this model of random weights to this prompt, on x86-64 with every instruction set
# A folder of its own: what build scripts find out depends on the environment below.
target=$(realpath --canonicalize-missing "${CARGO_TARGET_DIR:-target}")/arm

fail() {
    printf 'arm.sh: %s\n' "$@" >&2
    exit 1
}

# What comes with the distribution.
install_tools() {
    local packages=()
    command -v "$linker" >/dev/null || packages+=(gcc-aarch64-linux-gnu)
    [ -e /usr/aarch64-linux-gnu/lib/libc.a ] || packages+=(libc6-dev-arm64-cross)
    command -v "$emulator" >/dev/null || packages+=(qemu-user)
    [ ${#packages[@]} -gt 0 ] || return 0
    command -v apt-get >/dev/null || fail "$linker, its C library and $emulator are needed; Debian calls them ${packages[*]}"
    [ "$(id --user)" -eq 0 ] || fail "install what is missing first: apt-get install ${packages[*]}"
    apt-get update
    apt-get install --yes --no-install-recommends "${packages[@]}" ||
        fail "${packages[*]}: the package manager could not install them; its words stand above"
}

# Prints the folder of the library's source, or nothing where the toolchain has the library itself.
library_source() {
    local sysroot version
    sysroot=$(rustc --print sysroot)
    version=$(rustc --version --verbose | sed -n 's/^release: //p')
    if [ -d "$sysroot/lib/rustlib/$triple/lib" ]; then
        return
    elif [ -e "$sysroot/lib/rustlib/src/rust/library/Cargo.lock" ]; then
        echo "$sysroot/lib/rustlib/src/rust/library"
    else
        [ -e "$target/rust-src-$version/Cargo.lock" ] || fetch_library_source "$version" "$target/rust-src-$version" >&2
        echo "$target/rust-src-$version"
    fi
}

# Unpacks the library of Debian's rust-src of one version into a folder.
fetch_library_source() {
    local version=$1 folder=$2 remedy mirror package apt
    remedy="or have it in the toolchain: rustup target add $triple"
    command -v apt-get >/dev/null || fail "the standard library for $triple is missing; rustup target add $triple"
    [ -e "$keyring" ] || fail "$keyring is missing: install debian-archive-keyring, $remedy"
    mirror=$(debian_mirror)
    if [ -z "$mirror" ] && [ "$(id --user)" -eq 0 ]; then
        apt-get update
        mirror=$(debian_mirror)
    fi
    [ -n "$mirror" ] || fail "no mirror of Debian among the package manager's sources: run apt-get update, $remedy"

    # A package manager of its own: one source, one key, its own lists.
    mkdir -p "$target/apt/lists/partial" "$target/apt/archives/partial"
    echo "deb [signed-by=$keyring] $mirror $suite main" >"$target/apt/sources.list"
    apt=(-o "Dir::Etc::SourceList=$target/apt/sources.list" -o Dir::Etc::SourceParts=-
        -o "Dir::State::Lists=$target/apt/lists" -o "Dir::Cache::Archives=$target/apt/archives"
        -o Dir::Cache::pkgcache= -o Dir::Cache::srcpkgcache= -o APT::Sandbox::User=)
    apt-get "${apt[@]}" update
    package=$(apt-cache "${apt[@]}" madison rust-src | awk -v version="$version" '!found && index($3, version "+") == 1 { print $3; found = 1 }')
    [ -n "$package" ] || fail "Debian's $suite has no rust-src $version, which is this compiler's version; $remedy"
    (cd "$target/apt" && rm -f ./*.deb && apt-get "${apt[@]}" download "rust-src=$package") ||
        fail "rust-src $package could not be fetched; try again, $remedy"

    # The folder has its name only when it is whole.
    local whole=$target/apt/library
    rm -rf "$whole" "$folder"
    mkdir -p "$whole"
    dpkg-deb --fsys-tarfile "$target"/apt/rust-src_*.deb |
        tar --extract --directory "$whole" --strip-components 5 "./usr/src/rustc-$version/library"
    mv "$whole" "$folder"
    rm -rf "$target/apt"
}

# The address that this system gets Debian's packages from.
debian_mirror() {
    apt-get indextargets --format '$(LABEL) $(REPO_URI)' 'Created-By: Packages' |
        awk '!found && $1 == "Debian" { print $2; found = 1 }'
}

# Prepares the environment, then runs cargo for Arm: cargo_for_arm CPU SUBCOMMAND [ARGUMENT ...]
cargo_for_arm() {
    local cpu=$1 subcommand=$2 library build_std=()
    shift 2
    library=$(library_source)
    if [ -n "$library" ]; then
        # Cargo's own tests name the library's source so, which leaves the toolchain alone.
        export RUSTC_BOOTSTRAP=1 __CARGO_TESTS_ONLY_SRC_ROOT=$library
        build_std=(-Z build-std=std,panic_abort)
    fi
    # Of libraries only a little runs in these tests: they are compiled fast instead of well. What the checks of overflow
    # find does not depend on the CPU; they are left to tests without an emulator.
    CARGO_TARGET_DIR=$target \
        CARGO_PROFILE_TEST_DEBUG=false \
        CARGO_PROFILE_TEST_DEBUG_ASSERTIONS=false \
        CARGO_PROFILE_TEST_OVERFLOW_CHECKS=false \
        CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=$linker \
        CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER="$emulator -cpu $cpu" \
        RUSTFLAGS="${RUSTFLAGS:-} -C target-feature=+crt-static" \
        cargo "$subcommand" --config 'profile.test.package."*".opt-level=0' --target "$triple" "${build_std[@]}" "$@"
}

# Both commands name the same packages with their tests, so that libraries are built once, with the same features.
packages=(--package duan-cpu --package duan-cli)

run_tests() {
    local cpu=$1 which=()
    shift
    [[ " $*" == *" --"* ]] || which=(--lib --test conformance --test oracle) # those of duan-cpu
    cargo_for_arm "$cpu" test "${packages[@]}" "${which[@]}" "$@"
}

answer_a_prompt() {
    local program=$target/$triple/debug/duan found
    cargo_for_arm "$1" build --profile test "${packages[@]}" --bin duan --test conformance --test oracle "${@:2}"
    if "${linker%gcc}readelf" --program-headers "$program" | grep INTERP; then
        fail "$program asks for a loader: it is not static"
    fi
    found=$("$emulator" -cpu "$1" "$program" complete "$model" "${prompt[@]}")
    printf '%s on %s:\n%s\n' "$program" "$1" "$found"
    [ "$found" = "$answer" ] || fail "other machines answer:" "$answer"
}

command=${1:-}
[ $# -eq 0 ] || shift
cpu=max
if [ "${1:-}" = -cpu ]; then
    [ $# -ge 2 ] || fail "-cpu needs a name; \`$emulator -cpu help\` lists them"
    cpu=$2
    shift 2
fi
case $command in
setup)
    install_tools
    library_source >/dev/null
    ;;
test)
    install_tools
    run_tests "$cpu" "$@"
    ;;
lint)
    install_tools
    cargo_for_arm "$cpu" clippy --profile test --package duan-cpu --all-targets -- -D warnings
    ;;
static)
    install_tools
    answer_a_prompt "$cpu" "$@"
    ;;
*)
    sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//;p}' scripts/arm.sh >&2
    exit 2
    ;;
esac
