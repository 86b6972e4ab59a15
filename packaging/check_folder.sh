#!/usr/bin/env bash
# Builds the folder of decodeck.spec and runs it as a machine without Python would: an empty environment, another
# folder, and the environment that it was built in put aside.
#   packaging/check_folder.sh ENVIRONMENT MODEL.gguf [FOLDER FOR dist AND build]
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
environment=$(cd "$1" && pwd) model=$(realpath "$2") out=$(realpath -m "${3:-$root}")
work=$(mktemp -d)
aside="$environment.aside"
trap 'rm -rf "$work"; [ ! -e "$aside" ] || mv "$aside" "$environment"' EXIT

cd "$root"
"$environment/bin/pyinstaller" --noconfirm --log-level WARN --distpath "$out/dist" --workpath "$out/build" \
    packaging/decodeck.spec
mv "$environment" "$aside"
cd "$work"

decodeck() { # NAME=VALUE... , then the arguments
    local variables=()
    while [[ ${1-} == *=* && $1 != -* ]]; do variables+=("$1"); shift; done
    env -i LANG=C.UTF-8 QT_QPA_PLATFORM=offscreen DECODECK_HOME="$work/home" "${variables[@]}" \
        timeout 300 "$out/dist/decodeck/decodeck" "$@"
}

decodeck --version
for kernels in auto scalar; do # several instruction sets are in one library
    decodeck DECODECK_NATIVE=$kernels chat --json --temperature 0 --max-tokens 8 --model "$model" "Say hello." > chat.json
    grep -q '"kernels": "decodeck ' chat.json || { echo "no native kernels run: $(cat chat.json)" >&2; exit 1; }
    grep -o '"kernels": "[^"]*"' chat.json
done
echo '%PDF-1.4' > damaged.pdf
code=0
decodeck --child app.attachment_pdf damaged.pdf || code=$?
[ "$code" = 5 ] || { echo "the reader of PDFs ended with $code, not as for a damaged file" >&2; exit 1; }
decodeck smoke --model "$model" --screenshot "$work/window.png"
du -sh "$out/dist/decodeck"
