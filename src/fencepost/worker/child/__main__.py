"""``python -m fencepost.worker.child``."""

from fencepost.worker.child.main import main

if __name__ == "__main__":
    main()
