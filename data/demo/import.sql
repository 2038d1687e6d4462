-- New rows in, old rows out: a trickle, and a flood while I/O is on.
INSERT INTO visit (page, ms, agent) SELECT i % 97, pick(1500), 'Browser ' || md5(random()::text)
    FROM generate_series(1, CASE phase() WHEN 'io' THEN 10000 ELSE 200 END) i \;
DELETE FROM visit WHERE id < (SELECT max(id) - 200000 FROM visit)
\watch 0.5
