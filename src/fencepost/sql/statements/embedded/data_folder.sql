-- data_folder: which folder does the server that answers here serve?
-- gives:       one row: its path
select current_setting('data_directory')
