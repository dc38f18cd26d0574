#!/usr/bin/env bash
# The frame rate of a film of 1000 frames a second (force plates and high-speed cameras record at it), by imageio-ffmpeg.
#
# One would guess: its metadata say 1000, as they say 999 of a film of 999.
# What happens: ffmpeg prints whole thousands as "1k fps", which the package does not parse, and fps is 0. The frames
# are read all the same. Whoever divides by the rate, or takes 0 for "not known", goes wrong here alone.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv venv
venv/bin/pip install --quiet imageio-ffmpeg==0.8.1

venv/bin/python - <<'PY'
import subprocess

import imageio_ffmpeg

ffmpeg = imageio_ffmpeg.get_ffmpeg_exe()
print("imageio-ffmpeg", imageio_ffmpeg.__version__, "with ffmpeg", imageio_ffmpeg.get_ffmpeg_version())
found = {}
for rate in (999, 1000):
    make = ["-v", "error", "-f", "lavfi", "-i", f"testsrc=s=16x16:r={rate}:d=0.1", "-c:v", "mpeg4", f"{rate}.mp4"]
    subprocess.run([ffmpeg, "-y", *make], check=True)
    frames = imageio_ffmpeg.read_frames(f"{rate}.mp4")
    found[rate] = next(frames)["fps"]
    print(f"a film of {rate} frames a second: fps {found[rate]}, {sum(1 for _ in frames)} frames")
assert found == {999: 999, 1000: 0}, "this is not what was found"
PY
