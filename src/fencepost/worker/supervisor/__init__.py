"""The supervisor: starts the children, beats for them, ends what cannot end itself, buries the dead. No user code."""
