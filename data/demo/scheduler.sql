-- Something that only sleeps.
SELECT pg_sleep(1.5)
\watch 4
