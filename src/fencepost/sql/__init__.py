"""Every word that is sent to PostgreSQL: migrations, functions, statements, and the catalogue that reads them."""
