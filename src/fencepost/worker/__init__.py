"""Workers: the supervisor that watches and beats, the children that run jobs, and what the two share."""
