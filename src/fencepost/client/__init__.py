"""The verbs, sync and async: one line each over the store's flows, on the caller's connection or on one of ours."""
