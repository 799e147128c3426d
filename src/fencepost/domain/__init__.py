"""Rules that would be true on paper: no clock, no dice, no driver; the standard library only."""
