-- Everybody changes a basket of his own; while locks are on, all change the same one, and each waits for the transaction before.
UPDATE basket SET lines = lines + 1, touched = now() WHERE id = (SELECT CASE phase() WHEN 'locks' THEN 1 ELSE pick(200) END) \;
SELECT pg_sleep(CASE phase() WHEN 'locks' THEN 0.05 ELSE 0.001 END)
\watch 0.1
