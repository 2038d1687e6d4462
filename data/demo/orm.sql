-- A client that thinks inside its transaction, with a row locked.
COMMIT \;
BEGIN \;
SELECT id, lines FROM basket ORDER BY touched LIMIT 20 \;
UPDATE basket SET lines = lines + 1 WHERE id = (SELECT CASE phase() WHEN 'locks' THEN 1 ELSE pick(200) END)
\watch 2.5
