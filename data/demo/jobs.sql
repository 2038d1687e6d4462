-- Workers that take turns by advisory locks.
SELECT pg_advisory_xact_lock(CASE phase() WHEN 'locks' THEN 1 ELSE pick(20) END) \;
UPDATE purchase SET note = NULL WHERE id = (SELECT max(id) - pick(500) FROM purchase) \;
SELECT pg_sleep(0.03) \;
DELETE FROM purchase WHERE id < (SELECT max(id) - 40000 FROM purchase)
\watch 0.4
