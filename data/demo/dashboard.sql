-- A small report, again and again, over a table larger than the buffers.
SELECT page, count(*), avg(ms) FROM visit GROUP BY page ORDER BY count(*) DESC LIMIT 10
\watch 3
