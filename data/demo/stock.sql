-- Everybody locks a row and leaves it as it is; while locks are on, the same row: a queue for the tuple.
SELECT free FROM warehouse WHERE id = (SELECT CASE phase() WHEN 'locks' THEN 1 ELSE pick(50) END) FOR UPDATE \;
SELECT pg_sleep(CASE phase() WHEN 'locks' THEN 0.05 ELSE 0.001 END)
\watch 0.1
