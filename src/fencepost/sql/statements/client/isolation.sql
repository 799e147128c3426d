-- isolation: how transactions of this role and database start unless they say otherwise.
-- gives:  one row, one text
-- locks:  none
select current_setting('default_transaction_isolation')
