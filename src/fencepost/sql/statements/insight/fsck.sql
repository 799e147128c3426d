-- fsck: how many inconsistencies there are; always none. Reads everything, so it is asked of small installations only.
-- gives:  one row, one number
-- locks:  none
select count(*) from {schema}.fsck
