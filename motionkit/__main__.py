"""``python -m motionkit`` is ``motionkit``."""

from motionkit.cli import main

if __name__ == "__main__":
    main()
