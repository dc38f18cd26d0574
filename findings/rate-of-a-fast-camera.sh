#!/usr/bin/env bash
# ffmpeg prints 1000 frames a second as "1k fps".
#
# Tools without ffprobe (imageio-ffmpeg brings ffmpeg alone) read a film's rate from the line that "ffmpeg -i" prints.
# One would guess "25 fps", "29.97 fps", "1000 fps". Whole thousands are printed with a k, so that a pattern of digits
# reads no rate, or 1. Tactile sensors and high-speed cameras of robot data record so.
set -euo pipefail
folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet imageio-ffmpeg==0.8.1
"$folder/venv/bin/python" - "$folder/film.mp4" <<'PYTHON'
import re
import subprocess
import sys

import imageio_ffmpeg

program, film = imageio_ffmpeg.get_ffmpeg_exe(), sys.argv[1]
print("imageio-ffmpeg", imageio_ffmpeg.__version__, "with ffmpeg", imageio_ffmpeg.get_ffmpeg_version())
seen = {}
for rate in ("25", "29.97", "500", "1000", "2000"):
    source = ["-f", "lavfi", "-i", f"testsrc=size=64x64:rate={rate}:duration=0.1"]
    subprocess.run([program, "-y", "-v", "error", *source, film], check=True)
    told = subprocess.run([program, "-i", film], capture_output=True, text=True).stderr
    seen[rate] = re.search(r"([^\s,]+) fps", told)[1]
print(seen)
assert seen == {"25": "25", "29.97": "29.97", "500": "500", "1000": "1k", "2000": "2k"}
PYTHON
# Seen: {'25': '25', '29.97': '29.97', '500': '500', '1000': '1k', '2000': '2k'}
