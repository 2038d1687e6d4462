-- Customers looking and buying: short reads by key, one insert, one update.
SELECT name, price FROM item WHERE id = (SELECT pick(50000)) \;
SELECT count(*), max(at) FROM purchase WHERE customer = (SELECT pick(2000)) \;
INSERT INTO purchase (item, customer, note) SELECT pick(50000), pick(2000), md5(random()::text) \;
UPDATE item SET stock = stock - 1 WHERE id = (SELECT pick(50000))
\watch 0.1
