-- create_database: make it; outside a transaction, and by one starter at a time (start.lock)
create database fencepost
