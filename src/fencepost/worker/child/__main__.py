"""``python -m fencepost.worker.child``. Until it works any signal ends it; an exception would be an error of the app."""

import signal

if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_DFL)

from fencepost.worker.child.main import main

if __name__ == "__main__":
    main()
