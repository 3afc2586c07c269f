#!/usr/bin/env bash
# Make an environment with libraries newer than the locked ones: newest.sh newest|pre-release
# Begins with the lock, so that nothing else differs; its Python is .book/watch/KIND/bin/python.
set -euo pipefail
kind=$1
case $kind in
newest) pre=() ;;
pre-release) pre=(--pre) ;;
*)
  echo "newest.sh: newest or pre-release, got $kind" >&2
  exit 2
  ;;
esac
folder=.book/watch/$kind
rm -rf "$folder"
"${PYTHON:-.venv/bin/python}" -m venv "$folder"
pip=("$folder/bin/python" -m pip --quiet install)
"${pip[@]}" --no-deps --require-hashes -r requirements.lock
tensorflow=tensorflow
if grep -q '^tensorflow-cpu==' requirements.lock && [ "$(uname -sm)" = "Linux x86_64" ]; then
  tensorflow="tensorflow-cpu"
fi
# `${pre[@]+…}`: an empty array is an unset variable to older shells.
"${pip[@]}" --upgrade ${pre[@]+"${pre[@]}"} keras "$tensorflow" numpy scikit-learn
# Keras 2 asks for the large build of TensorFlow, which the lock leaves out on purpose.
"${pip[@]}" --upgrade --no-deps ${pre[@]+"${pre[@]}"} tf-keras
