"""Text documents from outside: JSON, TOML, YAML and CSV, with size, depth and types checked before anything is used.

Files are untrusted: size is checked before opening, text that is not UTF-8 or nested too deep is refused, and every
fault is a `MotionkitError` that names the file. Imports neither torch nor numpy.
"""

from motionkit.documents._csv import read_csv
from motionkit.documents._json import parse_json, plain_json, read_json, read_jsonl, read_model
from motionkit.documents._text import open_file, read_text
from motionkit.documents._toml import parse_toml, read_toml
from motionkit.documents._yaml import parse_yaml, read_yaml

__all__ = [
    "open_file",
    "parse_json",
    "parse_toml",
    "parse_yaml",
    "plain_json",
    "read_csv",
    "read_json",
    "read_jsonl",
    "read_model",
    "read_text",
    "read_toml",
    "read_yaml",
]
