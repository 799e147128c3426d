"""What a handler's author touches: tasks and their contract, the context of a run, middleware, events."""
