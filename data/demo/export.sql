-- While I/O is on: sorts that do not fit in memory.
SELECT count(*) FROM (SELECT agent, ms FROM visit WHERE (SELECT phase()) = 'io' ORDER BY agent, ms OFFSET 0) sorted
\watch 0.2
