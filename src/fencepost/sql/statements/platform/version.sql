-- version: what the server calls itself. Every look-alike answers this, even one that lacks the rest.
-- gives:  one row, one text
-- locks:  none
select version()
