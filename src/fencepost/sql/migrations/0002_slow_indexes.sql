-- phase: expand
-- breaking: no
-- transaction: no
--
-- Indexes for people's questions, which no hot path needs: built without blocking a writer. Each statement stands alone
-- and names its index. The DROP is for one that a cut-off build left invalid; the migrator runs it in that case only.
-- Whoever wants to choose the hour builds them beforehand under these names.

-- lists of what went wrong, newest first
DROP INDEX CONCURRENTLY IF EXISTS {schema}.outcome_bad;
CREATE INDEX CONCURRENTLY IF NOT EXISTS outcome_bad ON {schema}.outcome (state, id) WHERE state <> 'succeeded';

-- jobs by tag
DROP INDEX CONCURRENTLY IF EXISTS {schema}.job_tags;
CREATE INDEX CONCURRENTLY IF NOT EXISTS job_tags ON {schema}.job USING gin (tags) WHERE tags IS NOT NULL;
