-- While the CPU is on: arithmetic.
SELECT sum(length(md5(n::text))) FROM (SELECT generate_series(1, CASE phase() WHEN 'cpu' THEN 300000 ELSE 500 END) AS n) numbers
\watch 0.1
