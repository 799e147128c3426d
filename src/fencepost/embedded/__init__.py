"""PostgreSQL for newcomers: a private server in the project's folder, started and stopped with its users."""
